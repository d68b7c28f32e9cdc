"""Whole tables: CSV or Parquet in, the same with the columns of answers out, some rows at a time."""

from __future__ import annotations

import io
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from torch import Tensor

from socratic.errors import DataFileError
from socratic.estimators import Answer, CircuitClassifier
from socratic.estimators.density import DensityBase
from socratic.files import NO_ROOM
from socratic.scoring import Columns, Scorer, TableLikelihoodScorer, TableScorer
from socratic.serve.limits import TABLES_PATH
from socratic.serve.model import Options, ServedTable, Take
from socratic.serve.problems import RequestError, shortened
from socratic.serve.service import Service
from socratic.serve.settings import Settings
from socratic.serve.v1 import FAILURES, ModelName
from socratic.tables.batches import import_pyarrow, raw_batch
from socratic.tables.bounds import Bounds, TooLargeError
from socratic.tables.reading import Chunk, TableSource, open_source
from socratic.tables.writing import CsvSink, ParquetSink, Sink
from socratic.uncertainty.answers import Judgement

_log = logging.getLogger("socratic.serve")
KINDS = {
    "text/csv": ".csv",
    "application/vnd.apache.parquet": ".parquet",
    "application/x-parquet": ".parquet",
}
"""What a table may be sent as, and the end of the name of such a file."""


class _ClassScorer(TableScorer):
    """Gives rows what a classifier says of them, and tells what it answered."""

    def __init__(self, model: CircuitClassifier, take: Take) -> None:
        super().__init__(model)
        self._take = take

    def _answer(self, rows: Any) -> Answer:
        answer, judgement = self.model.answer_and_judge(rows)
        self._take(rows, judgement)
        return answer


class _LikelihoodScorer(TableLikelihoodScorer):
    """Gives rows what a density or an outlier detector says of them, and tells what it answered."""

    def __init__(self, model: DensityBase, take: Take) -> None:
        super().__init__(model)
        self._take = take

    def judge(self, x: Tensor) -> Judgement | None:
        """How familiar rows (N, V) are as the circuit reads them."""
        judgement = super().judge(x)
        self._take(x, judgement)
        return judgement


class _Pipe(io.RawIOBase):
    """A file that is read as it is written."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._n_bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._waiting += content
        self._n_bytes += len(content)
        return len(content)

    def tell(self) -> int:
        return self._n_bytes

    def take(self) -> bytes:
        """What has been written since the last time."""
        content = bytes(self._waiting)
        self._waiting.clear()
        return content


def router(service: Service) -> APIRouter:
    """The path for tables."""
    routes = APIRouter(tags=["v1"], responses={**FAILURES, 415: FAILURES[422], 507: FAILURES[503]})
    csv_or_parquet = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in KINDS}

    @routes.post(
        TABLES_PATH,
        response_class=StreamingResponse,
        openapi_extra={"requestBody": {"required": True, "content": csv_or_parquet}},
    )
    async def predict_table(
        request: Request,
        model: ModelName = None,
        rejection_rate: Annotated[float | None, Query(ge=0.0, lt=1.0)] = None,
        risk: Annotated[float | None, Query(gt=0.0, lt=1.0)] = None,
        doubt: Literal["weights", "dropout"] | None = None,
        dropout: Annotated[float | None, Query(ge=0.0, lt=1.0)] = None,
        prefix: Annotated[str, Query(max_length=100, description="Put before the names of the new columns.")] = "",
        probabilities: Annotated[bool | None, Query(description="Add the probability of each class.")] = None,
        explain: Annotated[bool | None, Query(description="Add why rows are not answered.")] = None,
        harmless: Annotated[
            bool, Query(description="Put an apostrophe before cells of a CSV file that a spreadsheet would run.")
        ] = False,
        watched: Annotated[bool, Query(description="Whether rows are looked at for drift; false for trials.")] = True,
    ) -> StreamingResponse:
        """Answer a table, CSV or Parquet, as `socratic predict` does: its rows, with the columns of answers added.

        All columns of the model must be there; others are handed on.
        """
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        options = Options(rejection_rate, risk, doubt, dropout, watched=watched)
        name, scorer = _asked(service, model, content_type, options)
        if harmless and KINDS[content_type] != ".csv":
            raise RequestError("harmless is for CSV tables, whose cells spreadsheets run; leave it out, or send CSV")
        columns = _chosen(scorer, Columns(prefix, probabilities, explain))
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="socratic-")))
            path = folder / f"table{KINDS[content_type]}"
            with path.open("wb") as file, _room():
                async for part in request.stream():
                    file.write(part)
            stack.callback(_give_back)
            source = await _checked(path, scorer, columns, service.settings)
            pipe = _Pipe()
            sink: Sink = (
                CsvSink(pipe, harmless=harmless)  # type: ignore[arg-type]
                if path.suffix == ".csv"
                else ParquetSink(pipe, scorer.numeric)  # type: ignore[arg-type]
            )
            answers = _answers(service, name, scorer, columns, source, sink, pipe, stack.pop_all())
        return StreamingResponse(answers, media_type=content_type)

    return routes


def _asked(service: Service, model: str | None, content_type: str, options: Options) -> tuple[str, Scorer]:
    """The name of the model that is asked, and what scores rows in the way that is asked for."""
    served = service.model(model)
    if not isinstance(served, ServedTable):
        raise RequestError(f"model {served.name!r} answers images; send them to /v1/predict, one at a time")
    if content_type not in KINDS:
        raise RequestError(f"the content type must be {' or '.join(KINDS)}; got {shortened(content_type)}", 415)
    variant, take = served.variant(options), service.watches.taker(served, options)
    kind = _ClassScorer if isinstance(variant, CircuitClassifier) else _LikelihoodScorer
    return served.name, kind(variant, take)


def _chosen(scorer: Scorer, columns: Columns) -> Columns:
    """The columns that rows are given; it is a mistake to ask for those that the model does not have."""
    try:
        return scorer.chosen(columns)
    except ValueError as error:
        raise RequestError(str(error)) from error


async def _answers(
    service: Service,
    name: str,
    scorer: Scorer,
    columns: Columns,
    source: TableSource,
    sink: Sink,
    pipe: _Pipe,
    files: ExitStack,
) -> AsyncIterator[bytes]:
    """The bytes of the table of answers; its chunks take turns with other requests."""
    with files, _logged():
        chunks: Iterator[Chunk] = source.chunks()
        while (chunk := await to_thread.run_sync(next, chunks, None)) is not None:
            compute = partial(_score, scorer, columns)
            said = await service.batcher.answer(object(), chunk, chunk.batch.num_rows, compute)
            await to_thread.run_sync(sink.write, chunk.batch, said)
            service.metrics.count_answers(name, columns.verdicts(said))
            yield pipe.take()
        await to_thread.run_sync(sink.close)
        yield pipe.take()


@contextmanager
def _room() -> Iterator[None]:
    """A full disk is nothing that whoever sends a table could mend in it, and no fault of the program."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        _log.error("a table could not be kept: %s", error)
        raise RequestError("the server has no room for the table; try again later, or send it in parts", 507) from None


@contextmanager
def _logged() -> Iterator[None]:
    """What goes wrong after a reply has begun can only be logged: the reply ends where it is."""
    try:
        yield
    except Exception:
        _log.exception("a table could not be answered to its end")
        raise


def _score(scorer: Scorer, columns: Columns, chunks: list[Chunk]) -> list[Any]:
    return [scorer(chunk.batch, chunk.start, columns) for chunk in chunks]


async def _checked(path: Path, scorer: Scorer, columns: Columns, settings: Settings) -> TableSource:
    """The table in a file, all of whose rows can be answered; afterwards it is too late to say that one cannot.

    Each of its pieces is a thread's work of its own, as only between these a request can be ended.
    """
    bounds = Bounds(settings.max_table_rows, settings.max_columns, settings.max_unpacked_bytes)

    def check(chunks: Iterator[Chunk]) -> bool:
        chunk = next(chunks, None)
        if chunk is not None:
            raw_batch(chunk.batch, scorer.model.table_, chunk.start)
        return chunk is not None

    try:
        source = await to_thread.run_sync(open_source, path, bounds)
        scorer.check_names(columns, source.names, "the table")
        chunks = source.chunks()
        while await to_thread.run_sync(check, chunks):
            pass
    except DataFileError as error:
        said = str(error).replace(str(path), "the table").replace(path.name, "table")
        raise RequestError(said, 413 if isinstance(error, TooLargeError) else 422) from None
    return source


def _give_back() -> None:
    """Return the memory that a table took to the system."""
    import_pyarrow().default_memory_pool().release_unused()
