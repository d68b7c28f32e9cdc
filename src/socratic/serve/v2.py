"""The Open Inference Protocol (v2), which clients of KServe, MLServer and Triton speak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from socratic import __version__
from socratic.serve.columns import BOOLEAN, NUMBER, kind_of
from socratic.serve.columns import Field as ColumnField
from socratic.serve.images import ServedImages
from socratic.serve.model import Options, Record, ServedModel, ServedTable
from socratic.serve.problems import RequestError, problem, shortened, unknown_name
from socratic.serve.replies import Json, aside, failure
from socratic.serve.service import Service
from socratic.serve.tensors import BOOL, BYTES, Tensor, joined, packed, split
from socratic.serve.v1 import FAILURES
from socratic.tables.names import repeated

_OF_CLASSES = {"probabilities": "probability", "std": "std"}
"""Outputs with an entry for each class, and what they are in the record of a class."""
_OF_ROWS = ("entropy", "mutual_information", "log_likelihood", "log_std", "p_value", "risk", "verdict")


class _Lenient(BaseModel):
    model_config = ConfigDict(strict=True, protected_namespaces=())


class InputTensor(_Lenient):
    """What is asked about: a column, several columns (N, V), or images (N, H, W) or (N, H, W, C)."""

    name: str
    datatype: str
    shape: list[int] = Field(min_length=1, max_length=4, fail_fast=True)
    data: Any = None
    parameters: dict[str, Any] = {}


class WantedOutput(_Lenient):
    """What is wanted of the answers."""

    name: str
    parameters: dict[str, Any] = {}


class InferRequest(_Lenient):
    """Rows or images, and how to answer them."""

    id: str | None = None
    inputs: list[InputTensor] = Field(min_length=1, fail_fast=True)
    outputs: list[WantedOutput] | None = Field(None, fail_fast=True)
    parameters: dict[str, Any] = Field(
        {}, description="rejection_rate, risk, doubt and dropout in place of the model's; watched; binary_data_output."
    )


class _Chosen(_Lenient):
    rejection_rate: float | None = Field(None, ge=0.0, lt=1.0)
    risk: float | None = Field(None, gt=0.0, lt=1.0)
    doubt: str | None = None
    dropout: float | None = Field(None, ge=0.0, lt=1.0)
    watched: bool = True


def router(service: Service) -> APIRouter:
    """The paths under /v2."""
    routes = APIRouter(prefix="/v2", tags=["v2"], responses=FAILURES)

    @routes.get("")
    async def server() -> dict[str, Any]:
        """What the server is."""
        return {"name": "socratic", "version": __version__, "extensions": ["binary_tensor_data"]}

    @routes.get("/health/live")
    async def live() -> dict[str, bool]:
        """Whether the server runs."""
        return {"live": True}

    @routes.get("/health/ready", response_model=dict[str, bool])
    async def ready() -> Response:
        """Whether it answers."""
        return Json({"ready": True}) if service.ready else failure(503, "the server is starting or ending")

    @routes.get("/models/{name}", response_model=dict[str, Any])
    async def metadata(name: str) -> Json:
        """The inputs and outputs of a model."""
        model = service.model(name)
        outputs = [{"name": key, "datatype": kind, "shape": shape} for key, kind, shape in _outputs(model, -1)]
        described = {"name": name, "versions": [], "platform": "socratic", "inputs": _inputs(model), "outputs": outputs}
        return Json(described)

    @routes.get("/models/{name}/ready", response_model=dict[str, Any])
    async def model_ready(name: str) -> Json:
        """Whether a model answers."""
        return Json({"name": service.model(name).name, "ready": service.ready})

    @routes.post(
        "/models/{name}/infer",
        response_model=dict[str, Any],
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": InferRequest.model_json_schema()}},
            }
        },
    )
    async def infer(name: str, request: Request) -> Response:
        """Answer rows, one tensor a column or one (N, V) for all, or images; as JSON or with bytes behind it."""
        model = service.model(name)
        body, header = await request.body(), request.headers.get("inference-header-content-length")
        asked, options, rows = await aside(len(body), _asked, model, body, header, service.settings.max_rows)
        records = await service.answer(model, rows, options)
        return await aside(len(records) * model.n_values(options), _reply, model, asked, records)

    return routes


def _asked(model: ServedModel, body: bytes, header: str | None, most: int) -> tuple[InferRequest, Options, Any]:
    """What a request says, how it asks, and about which rows or images, at most so many."""
    document, rest = split(body, header)
    for what, known in (("inputs", model.width), ("outputs", len(_outputs(model, -1)))):
        given = document.get(what) if isinstance(document, dict) else None
        if isinstance(given, list) and len(given) > known:
            raise RequestError(f"{what} must be at most {known}, each of them once; got {len(given)}")
    try:
        asked = InferRequest.model_validate(document)
        chosen = _Chosen.model_validate(asked.parameters)
    except ValidationError as error:
        raise RequestError("; ".join(map(problem, error.errors()[:5]))) from None
    if max(each.shape[0] for each in asked.inputs) > most:
        raise RequestError(f"inputs must have at most {most} rows; send fewer at a time", 413)
    for what, names in (("input", asked.inputs), ("output", asked.outputs or ())):
        if (twice := repeated(each.name for each in names)) is not None:
            raise RequestError(f"{what} {shortened(twice)} must be there once; leave out the others")
    _check_outputs(model, asked)
    tensors = _tensors(asked.inputs, memoryview(rest), most * model.width)
    rows = _images(model, tensors) if isinstance(model, ServedImages) else _rows(model, tensors)
    options = Options(chosen.rejection_rate, chosen.risk, chosen.doubt, chosen.dropout, watched=chosen.watched)
    return asked, options, rows


def _tensors(inputs: Sequence[InputTensor], rest: memoryview, max_values: int) -> list[Tensor]:
    """The tensors of a request, whose bytes follow one another."""
    tensors = []
    for each in inputs:
        data, length = each.data, each.parameters.get("binary_data_size")
        if length is not None:
            if isinstance(length, bool) or not isinstance(length, int) or not 0 <= length <= len(rest):
                where = f"input {shortened(each.name)}"
                raise RequestError(f"{where}: binary_data_size must be a length within the body", 400)
            data, rest = bytes(rest[:length]), rest[length:]
        tensors.append(Tensor.of(each.name, each.datatype, each.shape, data, max_values))
    if rest:
        raise RequestError(f"{len(rest)} bytes follow the last input, which none of them has", 400)
    return tensors


def _rows(model: ServedModel, tensors: Sequence[Tensor]) -> list[dict[str, Any]]:
    """Rows from one tensor a column, (N,) or (N, 1), or from one (N, V) for all columns."""
    assert isinstance(model, ServedTable)
    names = list(model.fields)
    if len(tensors) == 1 and tensors[0].name not in model.fields:
        (tensor,) = tensors
        if len(tensor.shape) != 2 or tensor.shape[1] != len(names):
            raise RequestError(
                f"input {shortened(tensor.name)} must name a column, or have the shape (N, {len(names)}) for all of "
                f"them; got {list(tensor.shape)}"
            )
        width = len(names)
        columns = {name: tensor.values[place::width] for place, name in enumerate(names)}
    else:
        columns = {}
        for tensor in tensors:
            if tensor.name not in model.fields:
                raise unknown_name("", "column", tensor.name, names)
            if tensor.shape[1:] not in ((), (1,)):
                raise RequestError(f"input {tensor.name!a} must have the shape (N,) or (N, 1)")
            columns[tensor.name] = tensor.values
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise RequestError(f"inputs must have as many rows as each other; got {sorted(lengths)}")
    plain = ([_as_taken(value, model.fields[name]) for value in values] for name, values in columns.items())
    return [dict(zip(columns, row, strict=True)) for row in zip(*plain, strict=True)]


def _as_taken(value: Any, field: ColumnField) -> Any:
    """A number that stands for true or false, where a column holds these: a tensor has one type for all columns."""
    return bool(value) if field.takes == {BOOLEAN} and value in (0, 1) else value


def _images(model: ServedImages, tensors: Sequence[Tensor]) -> Any:
    import numpy as np

    if len(tensors) != 1 or len(tensors[0].shape) not in (3, 4) or tensors[0].datatype != "UINT8":
        raise RequestError(f"model {model.name!r} takes one input: UINT8 images (N, H, W) or (N, H, W, C)")
    (tensor,) = tensors
    plain = all(isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 256 for value in tensor.values)
    if not plain:
        raise RequestError(f"input {shortened(tensor.name)} must hold whole numbers from 0 to 255")
    return np.array(tensor.values, np.uint8).reshape(tensor.shape)


def _inputs(model: ServedModel) -> list[dict[str, Any]]:
    if isinstance(model, ServedImages):
        return [{"name": "images", "datatype": "UINT8", "shape": [-1, *model.shape]}]
    assert isinstance(model, ServedTable)
    return [
        {"name": name, "datatype": _datatype(field.takes), "shape": [-1, 1]} for name, field in model.fields.items()
    ]


def _outputs(model: ServedModel, n_rows: int) -> list[tuple[str, str, list[int]]]:
    """Name, datatype and shape of each output for some rows."""
    described = model.describe()
    outputs = []
    if described["classes"] is not None:
        kinds = {kind_of(label) for label in described["classes"]}
        outputs += [("label", _datatype(kinds), [n_rows])]
        outputs += [(name, "FP64", [n_rows, len(described["classes"])]) for name in _OF_CLASSES]
    known = _OF_ROWS if described["classes"] is not None else _OF_ROWS[2:5] + _OF_ROWS[6:]
    return outputs + [(name, BYTES if name == "verdict" else "FP64", [n_rows]) for name in known]


def _datatype(kinds: Any) -> str:
    return {frozenset({NUMBER}): "FP64", frozenset({BOOLEAN}): BOOL}.get(frozenset(kinds), BYTES)


def _check_outputs(model: ServedModel, asked: InferRequest) -> None:
    """Raise if something is wanted that the model does not say; before it is asked, as it would be in vain."""
    available = [name for name, _, _ in _outputs(model, -1)]
    for each in asked.outputs or ():
        if each.name not in available:
            raise unknown_name("", "output", each.name, available)


def _reply(model: ServedModel, asked: InferRequest, records: Sequence[Record]) -> Response:
    available = {name: (kind, shape) for name, kind, shape in _outputs(model, len(records))}
    wanted = asked.outputs or [WantedOutput(name=name) for name in available]
    binary = bool(asked.parameters.get("binary_data_output", False))
    outputs, contents = [], []
    for each in wanted:
        kind, shape = available[each.name]
        values = _values(each.name, records)
        output: dict[str, Any] = {"name": each.name, "datatype": kind, "shape": shape}
        if each.parameters.get("binary_data", binary):
            contents.append(packed(kind, values))
            output["parameters"] = {"binary_data_size": len(contents[-1])}
        else:
            output["data"] = values
        outputs.append(output)
    document: Mapping[str, Any] = {"model_name": model.name, "outputs": outputs}
    document = document if asked.id is None else {**document, "id": asked.id}
    if not contents:
        return Json(document)
    body, length = joined(document, contents)
    headers = {"inference-header-content-length": str(length)}
    return Response(body, headers=headers, media_type="application/octet-stream")


def _values(name: str, records: Sequence[Record]) -> list[Any]:
    """The entries of an output, row by row."""
    if name in _OF_CLASSES:
        return [each[_OF_CLASSES[name]] for record in records for each in record["probabilities"]]
    return [record[name] for record in records]
