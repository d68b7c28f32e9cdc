"""The work of ``socratic experiment``: open the data, run, draw, and say what came out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from socratic.cli.console import on_terminal, output, waiting
from socratic.cli.failures import complain
from socratic.estimators.building import choose_device
from socratic.experiments.closeness import run_closeness
from socratic.experiments.ood import run_ood, run_sweep
from socratic.experiments.records import Records
from socratic.experiments.settings import ExperimentSettings
from socratic.experiments.shifted import run_corruption, run_rotation
from socratic.experiments.workbench import Workbench

EXPERIMENTS: dict[str, Callable[..., None]] = {
    "ood": run_ood,
    "sweep": run_sweep,
    "closeness": run_closeness,
    "rotation": run_rotation,
    "corruption": run_corruption,
}
_RUN = ("data", "output", "seeds", "models", "device", "report")
"""Options that do not decide what a figure is, but which are computed, where and from where."""


class Bars:
    """A bar on stderr for each stage; a line for each where nobody watches."""

    def __init__(self) -> None:
        self._advance: Callable[[str], None] = lambda _: None

    @contextmanager
    def stage(self, what: str, total: int) -> Iterator[None]:
        """Show a stage of ``total`` steps while it lasts, then its time."""
        start = time.perf_counter()
        if on_terminal():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            with Progress(
                *columns, TextColumn("{task.fields[note]}"), console=Console(stderr=True), transient=True
            ) as bar:
                task = bar.add_task(what, total=total, note="")
                self._advance = lambda note: bar.update(task, advance=1, note=note)
                yield
        else:
            yield
        self._advance = lambda _: None
        complain(f"{what}, {time.perf_counter() - start:.1f} s")

    def step(self, note: str = "") -> None:
        """One step further."""
        self._advance(note)


def run_experiment(kind: str, options: Mapping[str, Any]) -> None:
    """Run one experiment with checked names of options and write its folder."""
    root: Path = options["output"]
    decisive = {name: value for name, value in options.items() if name not in _RUN}
    settings = ExperimentSettings(**{**decisive, "unknown": tuple(decisive.get("unknown", ()))})
    unusual = [value for value in (settings.normalise, settings.constants) if value not in ("train", "cifar")]
    folder = root / "-".join([kind, Path(settings.train).name, *unusual])
    device = choose_device(options["device"])
    with waiting("reading images"):
        bench = Workbench.open(settings, options.get("data"), root / "models", device, Bars())
    models = options.get("models")
    bench.plan(models, options["seeds"], circuits_only=kind in ("closeness", "sweep"))
    # Only now that all options have proved right: a folder keeps its settings.
    records = Records(folder, {**settings.to_dict(), "images": bench.digest})
    EXPERIMENTS[kind](bench, records, models, options["seeds"])
    written = draw(kind, bench, folder) if options["report"] else None
    if written is not None:
        from rich.markup import escape

        output().print(f"Report: [bold]{escape(str(written))}[/bold]")


def draw(kind: str, bench: Workbench, folder: Path) -> Path | None:
    """The figures and the page of an experiment, if they can be drawn here."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        complain(f"the records are in {folder}; figures need matplotlib: pip install 'socratic[experiments]'")
        return None
    from socratic.experiments.reporting.page import PAGE, write_report
    from socratic.experiments.samples import save_samples

    if kind in ("rotation", "corruption"):
        save_samples(kind, bench.test.images, bench.settings.constants, folder)
    with waiting("drawing"):
        write_report(folder)
    return folder / PAGE
