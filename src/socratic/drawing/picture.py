"""A picture in Graphviz's DOT language, rendered by Graphviz's ``dot`` program where it is installed."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from socratic.errors import check_choice
from socratic.files import replacing

_RENDERED = (".svg", ".png", ".pdf")
_SOURCE = (".dot", ".gv")
_NO_DOT = (
    "rendering needs Graphviz's program 'dot', which is not on the PATH; install it by one of "
    "'apt-get install graphviz', 'brew install graphviz', 'conda install graphviz'. "
    "The text of the picture is there without it: picture.source, picture.save('picture.dot')"
)


@dataclass(frozen=True)
class Picture:
    """A picture; notebooks show it.

    Attributes
    ----------
    source : str
        The picture in the DOT language.
    """

    source: str

    def __repr__(self) -> str:
        return f"<picture of {self.source.count(chr(10))} lines of DOT; save it to a .svg, .png, .pdf or .dot file>"

    def svg(self) -> str:
        """The picture as SVG; raises a RuntimeError that says what to install where ``dot`` is missing."""
        return self._render("svg").decode("utf-8")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file: ``.svg``, ``.png``, ``.pdf``, or ``.dot`` and ``.gv`` for its source."""
        path = Path(path)
        suffix = path.suffix.lower()
        check_choice("the ending of path", suffix, _RENDERED + _SOURCE)
        content = self.source.encode("utf-8") if suffix in _SOURCE else self._render(suffix[1:])
        with replacing(path) as draft:
            draft.write_bytes(content)

    def _repr_svg_(self) -> str | None:
        try:
            return self.svg()
        except RuntimeError as problem:
            warnings.warn(str(problem), RuntimeWarning, stacklevel=2)
            return None

    def _render(self, kind: str) -> bytes:
        import graphviz

        try:
            content: bytes = graphviz.pipe("dot", kind, self.source.encode("utf-8"))
        except graphviz.ExecutableNotFound:
            raise RuntimeError(_NO_DOT) from None
        return content
