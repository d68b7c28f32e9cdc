"""Programs run within the process of a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Outcome:
    """What a program ended with."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


def runner(main: Callable[[Sequence[str]], None], capsys: pytest.CaptureFixture[str]) -> Run:
    """A call of ``main`` with any arguments, and its outcome: its exit code and what it printed."""

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(int(stop.value.code or 0), captured.out, captured.err)

    return call
