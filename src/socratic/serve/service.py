"""The models of a server, and the one way from a request to their answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from socratic.serve.batching import Batcher
from socratic.serve.metrics import Metrics
from socratic.serve.model import Options, Record, ServedModel
from socratic.serve.problems import RequestError, listed, unknown_name
from socratic.serve.settings import Settings
from socratic.serve.watching import Watches

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
        if len(self.models) < len(models):
            names = [model.name for model in models]
            twice = next(name for name in names if names.count(name) > 1)
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

    async def answer(self, model: ServedModel, asked: Any, options: Options) -> list[Record]:
        """The records of rows or images, which are answered together with those of other requests."""
        n_rows, most = len(asked), self.settings.max_rows
        if not n_rows:
            raise RequestError(f"{model.takes} must hold at least one; got none")
        if n_rows > most:
            raise RequestError(f"{model.takes} must hold at most {most}; got {n_rows}: send fewer at a time", 413)
        checked = model.check(asked)
        model.variant(options)  # raises if the model cannot be asked like this
        take = self.watches.taker(model, options)
        records: list[Record] = await self.batcher.answer(
            (model.name, options), checked, n_rows, lambda parts: model.answer_all(parts, options, take)
        )
        self.metrics.count_answers(model.name, [record["verdict"] for record in records])
        return records
