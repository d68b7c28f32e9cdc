"""Requests that nobody should send, made up by what servers read: JSON, tables, tensors and images, nearly right."""

from __future__ import annotations

import base64
import csv
import io
import json
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

VALUES: list[Any] = [
    *(None, True, 0, -1, 1e308, 5e-324, 10**30, "red", "", "NA", "\u0000", "\ud800", "<b>", [], [[]], {}, {"a": 1}),
    "x" * 5000,
]
_PARQUET = "application/x-parquet"
_FILES = 60
_OUTPUTS = ("label", "probabilities", "std", "entropy", "verdict", "p_value", "nothing")
_KINDS = ("FP64", "FP32", "INT8", "UINT8", "INT64", "BYTES", "BOOL", "FP16")


class Request(NamedTuple):
    """What is sent."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]


class Asked(NamedTuple):
    """Whom to ask, and what could be answered.

    Attributes
    ----------
    rows : sequence of dict
    tables, images : tuple of str
        Models of tables with these columns, and of images of 8 x 8 pixels.
    """

    rows: Sequence[dict[str, Any]]
    tables: tuple[str, ...]
    images: tuple[str, ...] = ()


Maker = Callable[[Asked, random.Random], Request]


def mutated(document: Any, random_: random.Random) -> Any:
    """The same with something changed, dropped or added somewhere."""
    if isinstance(document, dict) and document and random_.random() < 0.8:
        key = random_.choice(list(document))
        if random_.random() < 0.15:
            return {**document, random_.choice(["", "extra", "rows", "\u2028"]): random_.choice(VALUES)}
        if random_.random() < 0.1:
            return {other: value for other, value in document.items() if other != key}
        return {**document, key: mutated(document[key], random_)}
    if isinstance(document, list) and document and random_.random() < 0.8:
        place = random_.randrange(len(document))
        return [*document[:place], mutated(document[place], random_), *document[place + 1 :]]
    return random_.choice(VALUES)


def damaged(content: bytes, random_: random.Random, share: float) -> bytes:
    """The same with about such a share of its bytes replaced."""
    changed = bytearray(content)
    for _ in range(round(share * len(content) * random_.random())):
        changed[random_.randrange(len(content))] = random_.randrange(256)
    return bytes(changed)


def nearly_right(asked: Asked, random_: random.Random) -> Request:
    """Any request, with a few things changed."""
    name, column = random_.choice(asked.tables), next(iter(asked.rows[0]))
    tensor = {"name": column, "datatype": "FP64", "shape": [2, 1], "data": [1.0, 2.0], "parameters": {}}
    rows = asked.rows
    documents: list[tuple[str, Any]] = [
        ("/v1/predict", {"model": name, "rows": rows[:2], "rejection_rate": 0.1, "doubt": "weights", "reasons": 1}),
        ("/v1/compare", {"model": name, "rows": rows[:1], "dropout": 0.2, "n_passes": 5}),
        (
            f"/v2/models/{name}/infer",
            {"id": "1", "inputs": [tensor], "outputs": [{"name": "label"}], "parameters": {"binary_data_output": True}},
        ),
    ]
    if asked.images:
        pixels = [[random_.randrange(256) for _ in range(8)] for _ in range(8)]
        documents.append(("/v1/predict", {"model": random_.choice(asked.images), "pixels": pixels, "heat": True}))
    path, document = random_.choice(documents)
    for _ in range(random_.randint(0, 3)):
        document = mutated(document, random_)
    body, headers = json.dumps(document).encode(), {"content-type": "application/json"}
    kind = random_.randrange(5)
    if kind == 1:
        body = random_.randbytes(random_.randrange(200))
    elif kind == 2:
        body = damaged(body, random_, 0.06)
        lengths = ["0", "-1", "99999", "10", "x", "\u00b2", "9" * 5000, "0" * 5000 + "2"]
        headers["inference-header-content-length"] = random_.choice(lengths)
    elif kind == 3:
        path = "/" + "".join(random_.choice("abv12/.%_-?=&{}") for _ in range(random_.randrange(30)))
    return Request(random_.choice(["POST"] * 8 + ["GET", "PUT"]), path, body, headers)


def json_of_odd_shape(asked: Asked, random_: random.Random) -> Request:
    """Deep, wide, with many names or many mistakes."""
    n, name = _size(random_), random_.choice(asked.tables)
    column = json.dumps(next(iter(asked.rows[0])))
    value = random_.choice(["1", "{}", "[]", '""', "[[1]]", "null", "1e999", "5e-324", '"\\ud800"', "9" * 400])
    many = ",".join([value] * max(1, n // (len(value) + 1)))
    names = ",".join(f'"k{place}":{value}' for place in range(max(1, n // (len(value) + 10))))
    key = random_.choice(["rows", "pixels", "images", "image", "rejection_rate", "model", column[1:-1], "\\u0000"])
    body = random_.choice(
        [
            f'{{"model": "{name}", "{key}": [{many}]}}',
            f'{{"model": "{name}", "rows": [{{{names}}}]}}',
            f'{{"model": "{name}", "rows": [{{{column}: {value}}}{f", {{{column}: 1}}" * (n // 30)}]}}',
            f'{{"model": "{name}", "rows": [{{}}], {names}}}',
            f'{{"model": "{name}", "rows": [{{{column}: "{"x" * n}"}}]}}',
            f'{{"model": "{name}", "{"x" * n}": 1}}',
            "[" * n + "]" * random_.choice([0, n]),
            '{"a":' * (n // 5) + "1" + "}" * (n // 5),
            f'{{"model": "{name}", "rows": [{{{f"{column}: 1," * (n // 20)}{column}: 2}}]}}',
        ]
    )
    path = random_.choice(["/v1/predict", "/v1/predict", "/v1/compare", f"/v2/models/{name}/infer"])
    return Request("POST", path, body.encode(), {"content-type": "application/json"})


def tensors(asked: Asked, random_: random.Random) -> Request:
    """Inputs and outputs that are odd, repeated, or none; as JSON or as bytes."""
    name, columns, n = random_.choice(asked.tables), list(asked.rows[0]), random_.choice([0, 1, 2, 50, 1000, 1001])
    inputs, contents = [], []
    for _ in range(random_.choice([1, 1, 2, 5, _size(random_) // 100])):
        kind = random_.choice(_KINDS) if random_.random() < 0.3 else "FP64"
        shape = random_.choice([[n], [n], [n, 1], [n, len(columns)], [-n], [n, 2**40], [2**70], [1, 1, 1, 1, 1], []])
        tensor: dict[str, Any] = {"name": random_.choice([*columns, "x"]), "datatype": kind, "shape": shape}
        if random_.random() < 0.5:
            contents.append(random_.randbytes(random_.choice([0, 8 * n, 8 * n, 4 * n, random_.randrange(100)])))
            length = len(contents[-1]) if random_.random() < 0.9 else random_.choice([-1, 2**70, True, "1", 0])
            tensor["parameters"] = {"binary_data_size": length}
        else:
            tensor["data"] = random_.choice([[1.5] * n, [[1.5]] * n, [random_.choice(VALUES)] * n, [], None])
        inputs.append(tensor)
    asked_for = [{"name": random_.choice(_OUTPUTS)} for _ in range(random_.choice([1, 2, 2, 3, _size(random_) // 20]))]
    document: dict[str, Any] = {"inputs": inputs, "parameters": {"binary_data_output": random_.random() < 0.5}}
    if random_.random() < 0.5:
        document["outputs"] = asked_for
    head = json.dumps(document).encode()
    length = str(len(head) if random_.random() < 0.9 else random_.randrange(10**6))
    headers = {"content-type": "application/octet-stream", "inference-header-content-length": length}
    return Request("POST", f"/v2/models/{name}/infer", b"".join([head, *contents]), headers)


def images(asked: Asked, random_: random.Random) -> Request:
    """Too many, too large, ragged, or of something else."""
    model, n = random_.choice(asked.images or asked.tables), _size(random_)
    pixel = random_.choice([0, 255, 256, -1, None, 1.5, "x" * (n // 10), True, [1], 10**30])
    right = [[7] * 8] * 8
    odd = random_.choice([right, [[pixel]], [[pixel] * 8] * 8, [[1], [1, 2]], [], pixel])
    document: dict[str, Any] = {"model": model}
    kind = random_.randrange(4)
    if kind == 0:
        document["images"] = [right] * random_.choice([1, 3, 50, 1000 if n > 10**5 else 1]) + [odd]
    elif kind == 1:
        document["images"] = [odd] * (n // (len(json.dumps(odd)) + 1))
    elif kind == 2:
        document["pixels"] = [[pixel, *[0] * (n // 4)]] * random_.choice([1, 2])
    else:
        sides = random_.choice([(8, 8), (8, 8), (1, 300), (60_000, 1), (2_000, 2_000), (5_000, 5_000)])
        content = _image(random_.choice(["L", "RGB", "1", "P"]), sides, random_.choice(["PNG", "GIF"]))
        content = damaged(content, random_, random_.choice([0.0, 0.01]))
        document |= {"image": base64.b64encode(content).decode(), "resize": random_.random() < 0.7}
    document["heat"] = random_.random() < 0.3
    return Request("POST", "/v1/predict", json.dumps(document).encode(), {"content-type": "application/json"})


@lru_cache
def _image(mode: str, sides: tuple[int, int], kind: str) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new(mode, sides).save(file, kind)
    return file.getvalue()


def csv_tables(asked: Asked, random_: random.Random) -> Request:
    """Odd headers, quotes, cells and ends."""
    n, names = _size(random_), list(asked.rows[0])
    file = io.StringIO()
    more = random_.choice(
        [[], [], ["more"] * 2, [f"c{place}" for place in range(n // 8)], ["x" * n], ["", ""], ['a"b']]
    )
    writer = csv.writer(file, lineterminator=random_.choice(["\n", "\r\n", "\r"]))
    writer.writerow([*names, *more, *random_.choice([[], names[:1], ["label"]])])
    cell = random_.choice(["1", "", "x" * (n // 2), "1,5", '"', "=1+1", "\u0000", "1e400", "\u2028", "a\nb"])
    for row in list(asked.rows[:3]) * random_.choice([1, 1, n // 500 + 1]):
        writer.writerow([*row.values(), *[cell] * len(more)][: len(names) + random_.choice([len(more), len(more), 0])])
    body = file.getvalue().encode()
    body = random_.choice([body, body, b"\xef\xbb\xbf" + body, body.replace(b",", b";"), body + b'"', b"," * n])
    return _table(asked, random_, damaged(body, random_, random_.choice([0.0, 0.0, 0.005])), "text/csv")


def parquet_tables(asked: Asked, random_: random.Random) -> Request:
    """Odd encodings, long texts in dictionaries, nesting, many columns and row groups; some of them damaged."""
    content = _parquet_file(tuple(asked.rows[0].items()), random_.randrange(_FILES))
    if random_.random() < 0.6:
        where = random_.choice([0, max(0, len(content) - 400)])  # anywhere, or where it says what there is
        content = content[:where] + damaged(content[where:], random_, random_.choice([0.0005, 0.01]))
    return _table(asked, random_, content, _PARQUET)


@lru_cache(_FILES)
def _parquet_file(row: tuple[tuple[str, Any], ...], seed: int) -> bytes:
    """Such a table; others are these, damaged, as it takes much longer to write one than to read it."""
    import pyarrow as pa
    from pyarrow import parquet

    random_ = random.Random(seed)
    long = "x" * random_.choice([10, 1_000, 100_000, 3_000_000])
    n = min(random_.choice([1, 3, 100, 2_000, 2_000, 2_000]), 2**31 // (len(long) + 1))  # more cannot be written
    columns: dict[str, Any] = {}
    for name, value in row:
        if isinstance(value, str):
            values = [random_.choice([value, value, long])]
            columns[name] = pa.DictionaryArray.from_arrays(np.zeros(n, dtype=np.int32), pa.array(values))
        else:
            columns[name] = pa.array(np.full(n, float(value)))
    extra = random_.choice(
        [
            {},
            {},
            {"more": pa.DictionaryArray.from_arrays(np.arange(n, dtype=np.int32) % 2, pa.array([long[:10_000], "b"]))},
            {"prefix": pa.array([f"{long[:10_000]}{place % 30}" for place in range(n)])},
            {"lists": pa.array([[0] * random_.choice([1, 300_000 // n + 1])] * n)},
            {"structs": pa.array([{"a": {"b": [1, 2]}, "c": long[:1000]}] * n)},
            {f"c{place}": pa.nulls(n) for place in range(random_.choice([20, 300]) if n < 5_000 else 1)},
            {"wide": pa.array([b"x" * 1_000] * n, pa.binary(1_000))},
            {"map": pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int64()))},
            {"dates": pa.array([2**40] * n, pa.timestamp("us")), "decimal": pa.nulls(n, pa.decimal128(38, 2))},
        ]
    )
    table, file = pa.table({**columns, **extra}), io.BytesIO()
    settings: dict[str, Any] = {"compression": "zstd", "dictionary_pagesize_limit": 2**26, "write_batch_size": n}
    if len(long) * n < 10**7:  # what is not kept in a dictionary has to be written here first
        settings = {
            "compression": random_.choice(["none", "snappy", "zstd", "gzip", "lz4"]),
            "row_group_size": random_.choice([n, n, max(1, n // 50)]),
            "data_page_size": random_.choice([10, 10_000, 2**20]),
            "data_page_version": random_.choice(["1.0", "2.0"]),
            "use_dictionary": random_.random() < 0.7,
        }
    if "prefix" in extra:
        settings |= {"use_dictionary": False, "column_encoding": {"prefix": "DELTA_BYTE_ARRAY"}}
    parquet.write_table(table, file, store_schema=random_.random() < 0.3, **settings)
    return file.getvalue()


MAKERS: dict[str, tuple[Maker, int]] = {
    "nearly right": (nearly_right, 43),
    "JSON of odd shape": (json_of_odd_shape, 20),
    "tensors": (tensors, 12),
    "images": (images, 10),
    "CSV": (csv_tables, 9),
    "Parquet": (parquet_tables, 6),
}
"""How requests are made, and how many of a hundred are."""


def fuzzed(asked: Asked, random_: random.Random) -> tuple[str, Request]:
    """A request, and how it was made."""
    kind = random_.choices(list(MAKERS), [weight for _, weight in MAKERS.values()])[0]
    return kind, MAKERS[kind][0](asked, random_)


def _table(asked: Asked, random_: random.Random, body: bytes, kind: str) -> Request:
    name = random_.choice(asked.tables)
    queries = [f"model={name}"] * 6 + [f"model={name}&harmless=true", "explain=maybe", "prefix=%00", "risk=nan"]
    kind = kind if random_.random() < 0.97 else random_.choice(["text/csv", _PARQUET, "text/plain"])
    return Request("POST", f"/v1/predict/batch?{random_.choice(queries)}", body, {"content-type": kind})


def _size(random_: random.Random) -> int:
    """Bytes, about: mostly few, sometimes nearly as many as a body may have."""
    return round(10 ** random_.uniform(1.0, 4.5 if random_.random() < 0.97 else 6.85))
