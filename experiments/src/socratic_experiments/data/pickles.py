"""Pickles as plain data: a reader for files from elsewhere that runs nothing they ask for.

Python's own unpickler calls what a file names, and takes the memory that a file declares. This one follows the
operations of a pickle on a stack of its own and knows only plain containers, texts, numbers, and the few names that
numpy arrays are pickled by. Those names are not looked up: an array is kept as a description of it
(:class:`Stored`), which :func:`to_array` turns into an array after checks.
"""

from __future__ import annotations

import math
import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

_MAX_OPERATIONS = 1_000_000  # CIFAR-100's training batch has 200,000; each may take some hundred bytes
_MAX_KEY = 100
_MAX_DIMENSIONS = 32
_LATIN = ("latin1", "latin-1", "iso-8859-1")

_GLOBALS = {
    ("numpy.core.multiarray", "_reconstruct"): "array",
    ("numpy._core.multiarray", "_reconstruct"): "array",
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): "dtype",
    ("_codecs", "encode"): "encode",
}


@dataclass(frozen=True)
class _Global:
    """A name that the pickle may mention; nothing stands behind it."""

    kind: str


@dataclass(eq=False)
class Stored:
    """What a pickle says about an array or its type."""

    kind: str
    arguments: tuple[Any, ...]
    state: Any = None


def read_pickle(content: bytes) -> Any:
    """Read a pickle of protocol 1 to 4.

    Returns
    -------
    Any
        Numbers, texts, bytes, None, and lists, tuples and dictionaries of such; arrays as :class:`Stored`. Texts
        of Python 2 are read as Latin-1, and keys of dictionaries are always texts.

    Raises
    ------
    ValueError
        If the pickle is damaged, asks for anything else, or is longer than any file of images.
    """
    reader = _Reader()
    for count, (operation, argument, position) in enumerate(pickletools.genops(content)):
        if count >= _MAX_OPERATIONS:
            raise ValueError(f"it has more than {_MAX_OPERATIONS} operations")
        if operation.name == "STOP":
            if position is not None and position + 1 != len(content):
                raise ValueError("data follow after its end")
            return reader.result()
        step = _STEPS.get(operation.name)
        if step is None:
            raise ValueError(f"it asks for the operation {operation.name}, which plain data do not need")
        step(reader, argument)
    raise ValueError("it has no end")


def to_array(stored: Any) -> np.ndarray:
    """The array of whole numbers that a pickle describes; read-only, and no more memory than the file had bytes."""
    if not isinstance(stored, Stored) or stored.kind != "array":
        raise ValueError(f"expected an array; found {_kind(stored)}")
    state = stored.state
    if not isinstance(state, tuple) or len(state) != 5:
        raise ValueError("an array in it has no content")
    _, shape, kind, column_major, data = state
    if not isinstance(shape, tuple) or len(shape) > _MAX_DIMENSIONS or not all(_is_size(size) for size in shape):
        raise ValueError("an array in it has no valid shape")
    dtype = _dtype(kind)
    raw = data.encode("latin-1") if isinstance(data, str) else data
    if not isinstance(raw, bytes) or math.prod(shape) * dtype.itemsize != len(raw):
        found = f"{len(raw)} bytes" if isinstance(raw, bytes) else _kind(raw)
        raise ValueError(f"an array in it declares the shape {shape} of {dtype} but holds {found}")
    return np.frombuffer(raw, dtype).reshape(shape, order="F" if column_major is True else "C")


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _dtype(stored: Any) -> np.dtype:
    if not isinstance(stored, Stored) or stored.kind != "dtype" or not stored.arguments:
        raise ValueError("an array in it has no type")
    code, state = _text(stored.arguments[0], "the type of an array"), stored.state
    if not re.fullmatch(r"[iu][1248]", code):
        raise ValueError(f"an array in it has the type {code!r}; only whole numbers are read")
    order = _text(state[1], "a byte order") if isinstance(state, tuple) and len(state) > 1 else "="
    if order not in ("<", ">", "|", "="):
        raise ValueError("an array in it has no valid byte order")
    return np.dtype(order + code)


def _text(value: Any, meaning: str) -> str:
    """A short text; of Python 2 or bytes, as Latin-1."""
    if not isinstance(value, (str, bytes)) or len(value) > _MAX_KEY:
        raise ValueError(f"{meaning} must be a short text; found {_kind(value)}")
    return value if isinstance(value, str) else value.decode("latin-1")


def _kind(value: Any) -> str:
    return value.kind if isinstance(value, (Stored, _Global)) else type(value).__name__


class _Reader:
    """The stack, and the memo of values that the pickle may repeat: references, never copies."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.below_marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def result(self) -> Any:
        if len(self.stack) != 1 or self.below_marks:
            raise ValueError("it ends before all of its values are in place")
        return self.stack[0]

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise ValueError("it takes more values than it has")
        values = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return values

    def top(self, kind: type) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise ValueError(f"it fills a {kind.__name__.lower()} that is not there")
        return self.stack[-1]

    def mark(self) -> None:
        self.below_marks.append(self.stack)
        self.stack = []

    def pop_mark(self) -> list[Any]:
        if not self.below_marks:
            raise ValueError("it takes more values than it has")
        values, self.stack = self.stack, self.below_marks.pop()
        return values

    def put(self, place: int | None) -> None:
        self.memo[len(self.memo) if place is None else place] = self.top(object)

    def get(self, place: int) -> None:
        if place not in self.memo:
            raise ValueError("it repeats a value that it never had")
        self.push(self.memo[place])

    def extend(self, values: list[Any]) -> None:
        self.top(list).extend(values)

    def update(self, values: list[Any]) -> None:
        if len(values) % 2:
            raise ValueError("it has a key without a value")
        keys = [_text(key, "a key") for key in values[::2]]
        self.top(dict).update(zip(keys, values[1::2], strict=True))

    def name(self, module: Any, name: Any) -> None:
        module, name = _text(module, "the name of a module"), _text(name, "a name in a module")
        if (module, name) not in _GLOBALS:
            raise ValueError(f"it asks for {module}.{name}, which is neither run nor read")
        self.push(_Global(_GLOBALS[module, name]))

    def call(self) -> None:
        """An array or a type becomes its description; an encoded text stays the text."""
        function, arguments = self.pop(2)
        if not isinstance(function, _Global) or function.kind == "ndarray" or not isinstance(arguments, tuple):
            raise ValueError(f"it calls {_kind(function)}, which is not run")
        if function.kind != "encode":
            self.push(Stored(function.kind, arguments))
        elif len(arguments) == 2 and isinstance(arguments[0], str) and arguments[1] in _LATIN:
            self.push(arguments[0])
        else:
            raise ValueError("it encodes a text by something other than Latin-1")

    def build(self) -> None:
        (state,) = self.pop(1)
        self.top(Stored).state = state


_Step = Callable[[_Reader, Any], None]
_VALUES = (
    *("BININT", "BININT1", "BININT2", "LONG1", "BINSTRING", "SHORT_BINSTRING"),
    *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
)
_STEPS: dict[str, _Step] = {
    "PROTO": lambda _reader, _version: None,
    "FRAME": lambda _reader, _size: None,
    **dict.fromkeys(_VALUES, _Reader.push),
    "NONE": lambda reader, _: reader.push(None),
    "NEWTRUE": lambda reader, _: reader.push(True),
    "NEWFALSE": lambda reader, _: reader.push(False),
    "EMPTY_LIST": lambda reader, _: reader.push([]),
    "EMPTY_DICT": lambda reader, _: reader.push({}),
    "EMPTY_TUPLE": lambda reader, _: reader.push(()),
    "MARK": lambda reader, _: reader.mark(),
    "TUPLE": lambda reader, _: reader.push(tuple(reader.pop_mark())),
    "TUPLE1": lambda reader, _: reader.push(tuple(reader.pop(1))),
    "TUPLE2": lambda reader, _: reader.push(tuple(reader.pop(2))),
    "TUPLE3": lambda reader, _: reader.push(tuple(reader.pop(3))),
    "APPEND": lambda reader, _: reader.extend(reader.pop(1)),
    "APPENDS": lambda reader, _: reader.extend(reader.pop_mark()),
    "SETITEM": lambda reader, _: reader.update(reader.pop(2)),
    "SETITEMS": lambda reader, _: reader.update(reader.pop_mark()),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT", "MEMOIZE"), _Reader.put),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _Reader.get),
    "GLOBAL": lambda reader, names: reader.name(*names.split(" ", 1)),
    "STACK_GLOBAL": lambda reader, _: reader.name(*reader.pop(2)),
    "REDUCE": lambda reader, _: reader.call(),
    "BUILD": lambda reader, _: reader.build(),
}
