"""``socratic evaluate``: how good predictions, doubts and verdicts are."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from socratic.cli.failures import UserError, no_such_column
from socratic.cli.measure_tables import Sheet, others_sheet, print_sheet, sheets
from socratic.cli.options import Device, DropMissingTarget, Jobs, Resize, Target
from socratic.cli.parsing import check_writable
from socratic.cli.refusals import Refusal, refusal_sheets, refusals
from socratic.errors import import_extra
from socratic.pages import write_page

if TYPE_CHECKING:
    import numpy as np

    from socratic.cli.measures import Results
    from socratic.estimators import Answer
    from socratic.scoring import ClassScorer
    from socratic.tables.raw import Coded
    from socratic.tables.reading import Source

STDOUT = Path("-")


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by socratic fit.")],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="A table with known classes, or a folder of images, one subfolder a class."
        ),
    ],
    target: Target = None,
    ood: Annotated[
        Path | None,
        typer.Option(metavar="OTHER", help="A table or folder of images that are unlike the training data."),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Draw plots into a folder, as PNG and SVG.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write everything into one web page, with plots.")
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every number as JSON; - writes it to stdout, in place of tables."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say why rows were refused: the columns that speak most against them.")
    ] = False,
    drop_missing_target: DropMissingTarget = False,
    resize: Resize = False,
    jobs: Jobs = None,
    device: Device = "auto",
) -> None:
    """Measure predictions, doubts and verdicts on rows with known classes, and how well other rows are told apart."""
    from socratic.cli.folders import open_rows

    source = open_rows(data, by_class=True)
    target = _target(data, target, source)
    other = None if ood is None else open_rows(ood)
    outputs = Outputs(plots, report, json)
    outputs.prepare(data, model, *([] if ood is None else [ood]))
    from socratic.cli.console import output, waiting
    from socratic.cli.measures import measure, measure_others
    from socratic.cli.scoring import check_columns, load_class_scorer, warn

    with waiting("reading the model"):
        scorer = load_class_scorer(model, device, jobs, resize=resize)
    for table in [source] if other is None else [source, other]:
        check_columns(scorer, table)
    known = collect(scorer, source, target, drop_missing_target, explain)
    unknown = None if other is None else collect(scorer, other, None, False, explain)
    warn(scorer.model, scorer.unknown)
    measures = measure(known, scorer.model)
    shown = [*sheets(measures), *refusal_sheets(known.refusals, "rows")]
    if unknown is not None:
        measures["others"] = measure_others(known, unknown)
        shown += [others_sheet(measures["others"]), *refusal_sheets(unknown.refusals, "other rows")]
    console = output(quiet=json == STDOUT)
    for sheet in shown:
        print_sheet(console, sheet)
    for path in outputs.write(data.name, measures, shown, known, unknown):
        console.print(f"written {path}", soft_wrap=True)


class Outputs(NamedTuple):
    """What is written beside what is printed, and where to."""

    plots: Path | None
    report: Path | None
    json: Path | None

    def prepare(self, *inputs: Path) -> None:
        """Raise unless everything can be written; before anything takes its time."""
        for path in (self.report, self.json):
            if path is not None and path != STDOUT:
                check_writable(path, *inputs)
        if self.report is not None:
            import_extra("matplotlib", "plots", "--report")
        if self.plots is not None:
            from socratic.cli.plots import prepare

            prepare(self.plots)

    def write(
        self, name: str, measures: dict[str, Any], shown: Sequence[Sheet], known: Results, unknown: Results | None
    ) -> list[Path]:
        """Write it, and return the files."""
        written = []
        if self.plots is not None:
            from socratic.cli.plots import draw_all

            written += draw_all(self.plots, known, unknown)
        if self.report is not None:
            from socratic.cli.evaluation_page import evaluation_page
            from socratic.cli.plots import plots_of

            write_page(self.report, evaluation_page(name, shown, plots_of(known, unknown)))
            written.append(self.report)
        if self.json == STDOUT:
            print(as_json(measures), end="")
        elif self.json is not None:
            write_page(self.json, as_json(measures))
            written.append(self.json)
        return written


def as_json(measures: dict[str, Any]) -> str:
    """Measures as JSON."""
    return dumps(measures, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _target(data: Path, target: str | None, source: Source) -> str:
    """The column with the classes."""
    from socratic.cli.folders import CLASS

    if data.is_dir():
        if target is not None:
            raise UserError(f"--target is for tables; {data} is a folder of images, and its subfolders are the classes")
        return CLASS
    if target is None:
        raise UserError("a table needs --target, the column with the classes (see 'socratic evaluate --help')")
    if target not in source.names:
        raise no_such_column(data, [target], source.names)
    return target


def collect(
    scorer: ClassScorer, source: Source, target: str | None, drop_missing_target: bool, explain: bool = False
) -> Results:
    """Score a whole table; what is kept of each row is a few numbers, and why it was refused."""
    from socratic.cli.console import watched
    from socratic.cli.measures import Results
    from socratic.cli.training_table import class_texts
    from socratic.estimators import Answer
    from socratic.tables.batches import texts
    from socratic.tables.raw import Coded

    parts: list[Answer] = []
    labels: list[Coded] = []
    why: list[Refusal] = []
    for chunk in watched(source, f"reading {source.path.name}"):
        parts.append(scorer.answer(chunk.batch, chunk.start))
        if explain:
            why += refusals(scorer, chunk, scorer.model.is_rejected(parts[-1]))
        if target is not None:
            labels.append(texts(chunk.batch.column(target)))
    answer = Answer.concatenate(parts)
    if target is None:
        return Results(answer, scorer.model.verdicts(answer), None, 0, why)
    classes, kept = class_texts(Coded.joined(labels), source.path, target, drop_missing_target)
    answer = answer.take(kept)
    numbers = _class_numbers(scorer, classes, source.path, target)
    why = [refusal for refusal in why if kept[refusal.row]]
    return Results(answer, scorer.model.verdicts(answer), numbers, int((~kept).sum()), why)


def _class_numbers(scorer: ClassScorer, labels: Coded, path: Path, target: str) -> np.ndarray:
    from socratic.tables.categories import Categories
    from socratic.tables.cells import shorten

    known = scorer.model.classes_.tolist()
    places = Categories(known).find_all(labels.values)
    strange = labels.map(places < 0, False)
    if strange.any():
        example = labels.values[labels.codes[int(strange.argmax())]]
        some = ", ".join(str(label) for label in known[:8]) + (", ..." if len(known) > 8 else "")
        raise UserError(
            f"{path}: the target {target!r} holds {shorten(example)} ({strange.sum()} such rows), which is no class of "
            f"the model ({some}); leave these rows out, or give them as --ood"
        )
    return labels.map(places, -1)
