"""The models of a server, and the one way from a request to their answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from socratic.serve.batching import Batcher
from socratic.serve.metrics import Metrics
from socratic.serve.model import Options, Record, ServedModel
from socratic.serve.problems import RequestError, listed, unknown_name
from socratic.serve.replies import aside
from socratic.serve.settings import Settings
from socratic.serve.watching import Watches
from socratic.tables.names import repeated

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Service:
    """What all paths of a server share.

    Attributes
    ----------
    models : dict of str to ServedModel
    settings : Settings
    metrics : Metrics
    watches : Watches
        What is known of drift.
    batcher : Batcher
    ready : bool
        Whether requests are answered: from the start of the server to its end.
    """

    def __init__(self, models: Sequence[ServedModel], settings: Settings) -> None:
        self.models = {model.name: model for model in models}
        if not models:
            raise ValueError("models must hold at least one model to serve")
        if (twice := repeated(model.name for model in models)) is not None:
            raise ValueError(f"models must have different names; {twice!r} is there twice: give one as NAME=FILE")
        for name in self.models:
            if not _NAME.fullmatch(name):
                raise ValueError(f"names of models are letters, digits, '.', '_' and '-'; got {name!r}: give NAME=FILE")
        self.settings = settings
        self.metrics = Metrics()
        self.watches = Watches(models, settings.drift_window, settings.drift_folder)
        self.batcher = Batcher(settings.wait_ms, settings.rows_together, self.metrics.count_together, self.watches)
        self.ready = False

    def model(self, name: str | None) -> ServedModel:
        """The model of a name; the only one, if none is given."""
        if name is None:
            if len(self.models) > 1:
                raise RequestError(f"model must be named: {listed(list(self.models))}")
            return next(iter(self.models.values()))
        if name not in self.models:
            error = unknown_name("", "model", name, self.models)
            error.status = 404
            raise error
        return self.models[name]

    def check_count(self, model: ServedModel, n_rows: int) -> None:
        """Raise if a request asks about too many rows or images; before any of them is looked at."""
        most = self.settings.max_rows
        if not n_rows:
            raise RequestError(f"{model.takes} must hold at least one; got none")
        if n_rows > most:
            raise RequestError(f"{model.takes} must hold at most {most}; got {n_rows}: send fewer at a time", 413)

    def check_reply(self, model: ServedModel, n_rows: int, options: Options) -> None:
        """Raise if a reply would be too long; before there is one."""
        most, each = self.settings.max_reply_values, model.n_values(options)
        if n_rows * each > most:
            remedy = "ask for fewer reasons, or no heat" if options.explain else "ask a model of fewer classes"
            remedy = f"send at most {most // each} {model.takes} at a time" if each <= most else remedy
            raise RequestError(f"the reply would hold {n_rows * each} values, more than {most}; {remedy}", 413)

    async def answer(self, model: ServedModel, asked: Any, options: Options) -> list[Record]:
        """The records of rows or images, which are answered together with those of other requests."""
        n_rows = len(asked)
        self.check_count(model, n_rows)
        self.check_reply(model, n_rows, options)
        model.variant(options)  # raises if the model cannot be asked like this
        checked = await aside(n_rows * model.width, model.check, asked)
        take = self.watches.taker(model, options)
        records: list[Record] = await self.batcher.answer(
            (model.name, options), checked, n_rows, lambda parts: model.answer_all(parts, options, take)
        )
        self.metrics.count_answers(model.name, [record["verdict"] for record in records])
        return records
