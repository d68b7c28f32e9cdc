"""The service's own interface: rows and images in, everything the model can say of them out."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Annotated, Any, Literal

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from socratic.serve.bodies import Route
from socratic.serve.drift import Drift
from socratic.serve.images import ServedImages
from socratic.serve.model import Options, ServedModel
from socratic.serve.problems import RequestError, unknown_name
from socratic.serve.replies import Json, json_of
from socratic.serve.service import Service

MOST_REASONS = 100
Row = Annotated[dict[str, Any], WithJsonSchema({"$ref": "#/components/schemas/Row"})]
"""A row is checked by its model; which columns there are, the OpenAPI document of a server says."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, given: Any) -> Any:
        """Refuse the first field that does not exist: to name a million of them takes seconds."""
        for name in given if isinstance(given, dict) else ():
            if name not in cls.model_fields:
                said = str(unknown_name("", "field", name, cls.model_fields))
                raise PydanticCustomError("unknown_field", "{said}", {"said": said})
        return given


class Asked(_Strict):
    """What to answer: rows, or an image or several."""

    model: str | None = Field(None, description="Name of the model; may be left out if only one is served.")
    rows: list[Row] | None = Field(
        None, fail_fast=True, description="Rows of a table: values by column; those left out are unknown."
    )
    image: str | None = Field(None, description="An image file (PNG, JPEG, ...), in base64.")
    pixels: list[Any] | None = Field(
        None, description="An image as (H, W) or (H, W, C) whole numbers, 0 to 255; null where a pixel is missing."
    )
    images: list[Any] | None = Field(None, description="Several images, each like pixels.")
    resize: bool = Field(False, description="Whether an image of another size is resized or refused.")


class PredictRequest(Asked):
    """What to answer, and how."""

    rejection_rate: float | None = Field(
        None, ge=0.0, lt=1.0, description="Share of familiar rows that may be refused; by default the model's."
    )
    risk: float | None = Field(
        None, gt=0.0, lt=1.0, description="Share of errors above which rows are ambiguous; by default the model's."
    )
    doubt: Literal["weights", "dropout"] | None = Field(
        None, description="What the deviations are over; by default what the model was calibrated with."
    )
    dropout: float | None = Field(None, ge=0.0, lt=1.0, description='The dropout rate, for "doubt": "dropout".')
    reasons: int = Field(0, ge=0, le=MOST_REASONS, description="Parts of each row to name that make it unusual.")
    heat: bool = Field(False, description="Whether to say of each pixel how much it speaks against its image.")
    watched: bool = Field(True, description="Whether the rows are looked at for drift; false for trials.")

    def options(self) -> Options:
        """How the model is asked."""
        return Options(**{each.name: getattr(self, each.name) for each in fields(Options)})


class ClassProbability(BaseModel):
    """The probability of a class, and its standard deviation over what is in doubt."""

    label: str | bool | int | float
    probability: float | None
    std: float | None


class ReasonOut(BaseModel):
    """A column, or a region of an image, that speaks against a row."""

    name: str
    excess: float | None = Field(description="By how much it is more surprising than usual, in nats; null: infinitely.")
    p_value: float | None = Field(description="Share of familiar rows in which it is at least as surprising.")


class Answer(BaseModel):
    """What a model says of a row; null where it does not know, or where a number is infinite."""

    label: str | bool | int | float | None = Field(description="The most probable class.")
    probability: float | None = Field(description="Of the label.")
    std: float | None = Field(description="Standard deviation of that probability over what is in doubt.")
    probabilities: list[ClassProbability] | None
    entropy: float | None = Field(description="Of the class probabilities, in nats.")
    mutual_information: float | None = Field(description="The part of the entropy that is the model's own doubt.")
    log_likelihood: float | None = Field(description="log p(x), in the units of the data.")
    log_std: float | None = Field(description="Standard deviation of log p(x) over what is in doubt, in nats.")
    p_value: float | None = Field(description="Share of familiar rows that are at least as unusual.")
    risk: float | None = Field(description="The smallest risk at which the row is not ambiguous.")
    unfamiliar: bool | None = Field(description="Whether the p-value is at most the rejection rate.")
    ambiguous: bool | None = Field(description="Whether the risk is above the chosen one; null if none is.")
    verdict: Literal["familiar", "unfamiliar", "ambiguous"] | None
    unseen: list[str] | None = Field(description="Columns that hold values which no training row holds.")
    reasons: list[ReasonOut] | None = Field(description="The parts that speak most against the row, most first.")
    heat: list[list[float | None]] | None = Field(
        description="(H, W): by how much each pixel is more surprising than usual, in nats."
    )


class PredictResponse(BaseModel):
    """Answers in the order of the rows."""

    model: str
    answers: list[Answer]
    notes: list[str] = Field(description="Promises that the model cannot keep, in words.")


class ColumnOut(BaseModel):
    """A column of a model."""

    name: str
    takes: list[Literal["number", "text", "boolean"]] = Field(description="What its values may be; null is missing.")
    categories: list[str | bool | int | float] | None = Field(description="Values that training rows hold.")
    leaf: str = Field(description="The leaf family.")
    left_out: str | None = Field(description="Why the column makes no difference, if so.")
    typical: str | bool | int | float | None = Field(description="A value that is nothing special.")
    range: list[float] | None = Field(description="What nearly all numbers lie between.")


class ModelOut(BaseModel):
    """A model: what it is, takes and says."""

    name: str
    kind: Literal["classifier", "outlier detector", "density"]
    takes: Literal["rows", "images"]
    estimator: str
    classes: list[str | bool | int | float] | None
    rejection_rate: float | None
    risk: float | None
    risk_confidence: float | None
    doubt: str | None
    calibrated: bool | None
    explains: bool
    columns: list[ColumnOut] | None
    image_shape: list[int] | None


class ModelNames(BaseModel):
    """The names of all models."""

    models: list[str]


class Failure(BaseModel):
    """Why there is no answer."""

    error: str


FAILURES: dict[int | str, dict[str, Any]] = {
    status: {"model": Failure, "description": description}
    for status, description in {
        401: "No token, or a wrong one.",
        404: "No such model, or one without what is asked for.",
        413: "Too many rows, bytes or pixels.",
        422: "A request that cannot be answered as it is.",
        503: "Too many requests at once; try again later.",
    }.items()
}
ModelName = Annotated[str | None, Query(description="Name of the model; may be left out if only one is served.")]


def router(service: Service) -> APIRouter:
    """The paths under /v1, but for tables."""
    routes = APIRouter(prefix="/v1", tags=["v1"], responses=FAILURES, route_class=Route)
    decoding = CapacityLimiter(1)  # unpacking images one at a time bounds the memory for it

    @routes.post("/predict", response_model=PredictResponse)
    async def predict(request: PredictRequest) -> Json:
        """Answer rows of a table, or an image."""
        model = service.model(request.model)
        service.check_count(model, n_asked(request))
        if isinstance(model, ServedImages):
            asked = await to_thread.run_sync(asked_of, model, request, service.settings.max_pixels, limiter=decoding)
        else:
            asked = asked_of(model, request, service.settings.max_pixels)
        options = request.options()
        answers = await service.answer(model, asked, options)
        said = {"model": model.name, "answers": answers, "notes": model.notes(options)}
        return await json_of(said, len(answers) * model.n_values(options))

    @routes.get("/model", response_model=ModelOut)
    async def describe(model: ModelName = None) -> Json:
        """What a model is, takes and says."""
        return Json(service.model(model).describe())

    @routes.get("/models", response_model=ModelNames)
    async def names() -> Json:
        """The names of all models."""
        return Json({"models": list(service.models)})

    @routes.get("/drift", response_model=Drift)
    async def drift(model: ModelName = None) -> Json:
        """Whether the rows that a model is asked about are still like those that it was calibrated on."""
        return Json(asdict(service.watches.state(service.model(model).name)))

    return routes


def n_asked(request: Asked) -> int:
    """How many rows or images a request asks about, before any of them is looked at."""
    several = request.rows if request.images is None else request.images
    return 1 if several is None else len(several)


def asked_of(model: ServedModel, request: Asked, max_pixels: int) -> Any:
    """What a request asks about, as the model takes it."""
    given = [name for name in ("rows", "image", "pixels", "images") if getattr(request, name) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise RequestError(f"one of rows, image, pixels and images must be there; got {found}")
    if not isinstance(model, ServedImages):
        if request.rows is None or request.resize:
            raise RequestError(f"model {model.name!r} answers rows of a table; send rows, without an image or resize")
        return request.rows
    if request.image is not None:
        return model.decode(request.image, request.resize, max_pixels)
    if request.rows is not None or request.resize:
        raise RequestError(f"model {model.name!r} answers images; send image, or pixels of the right size")
    images = request.images if request.pixels is None else [request.pixels]
    return model.from_pixels(images) if images else ()
