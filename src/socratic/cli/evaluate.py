"""``socratic evaluate``: how good predictions, doubts and verdicts are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from socratic.cli.failures import UserError, no_such_column
from socratic.cli.refusals import Refusal, print_refusals, refusals

if TYPE_CHECKING:
    import numpy as np
    from rich.table import Table

    from socratic.estimators import Answer
    from socratic.scoring import Scorer
    from socratic.tables.raw import Coded
    from socratic.tables.reading import Source


@dataclass(frozen=True, eq=False)
class Results:
    """The rows of a table as a model sees them, with their classes as numbers if they are known."""

    answer: Answer
    refused: np.ndarray
    classes: np.ndarray | None
    n_dropped: int
    refusals: Sequence[Refusal]  # empty unless asked for

    @property
    def scores(self) -> dict[str, np.ndarray]:
        """Scores (N,), each higher for more unusual rows."""
        doubt = self.answer.uncertainty
        return {"p-value": -doubt.p_value, "entropy": doubt.entropy, "log-likelihood": -doubt.log_likelihood}


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by socratic fit.")],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="A table with known classes, or a folder of images, one subfolder a class."
        ),
    ],
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of a table with the classes.")
    ] = None,
    ood: Annotated[
        Path | None,
        typer.Option(metavar="OTHER", help="A table or folder of images that are unlike the training data."),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Draw plots into a folder, as PNG and SVG.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say why rows were refused: the columns that speak most against them.")
    ] = False,
    drop_missing_target: Annotated[
        bool, typer.Option("--drop-missing-target", help="Leave out rows without a class.")
    ] = False,
    resize: Annotated[
        bool, typer.Option("--resize", help="Resize images to the size that the model was trained on.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Threads to compute with.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
) -> None:
    """Measure predictions and rejection on rows with known classes, and how well other rows are told apart."""
    from socratic.cli.folders import CLASS, open_rows

    source = open_rows(data, by_class=True)
    if data.is_dir():
        if target is not None:
            raise UserError(f"--target is for tables; {data} is a folder of images, and its subfolders are the classes")
        target = CLASS
    if target is None:
        raise UserError("a table needs --target, the column with the classes (see 'socratic evaluate --help')")
    if target not in source.names:
        raise no_such_column(data, [target], source.names)
    other = None if ood is None else open_rows(ood)
    if plots is not None:
        from socratic.cli.plots import prepare

        prepare(plots)
    from socratic.cli.console import output, waiting
    from socratic.cli.scoring import check_columns, load_scorer, warn

    with waiting("reading the model"):
        scorer = load_scorer(model, device, jobs, resize=resize)
    for table in [source] if other is None else [source, other]:
        check_columns(scorer, table)
    known = collect(scorer, source, target, drop_missing_target, explain)
    unknown = None if other is None else collect(scorer, other, None, False, explain)
    warn(scorer)
    console = output()
    console.print(_measures(known, scorer.model.rejection_rate))
    print_refusals(console, known.refusals, "rows")
    if unknown is not None:
        console.print(_detection(known, unknown))
        print_refusals(console, unknown.refusals, "other rows")
    if plots is not None:
        from socratic.cli.plots import draw_all

        for path in draw_all(plots, known, unknown, scorer.model.rejection_rate):
            console.print(f"written {path}", soft_wrap=True)


def collect(
    scorer: Scorer, source: Source, target: str | None, drop_missing_target: bool, explain: bool = False
) -> Results:
    """Score a whole table; what is kept of each row is a few numbers, and why it was refused."""
    from socratic.cli.console import watched
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
        return Results(answer, scorer.model.is_rejected(answer), None, 0, why)
    classes, kept = class_texts(Coded.joined(labels), source.path, target, drop_missing_target)
    answer = answer.take(kept)
    numbers = _class_numbers(scorer, classes, source.path, target)
    why = [refusal for refusal in why if kept[refusal.row]]
    return Results(answer, scorer.model.is_rejected(answer), numbers, int((~kept).sum()), why)


def _class_numbers(scorer: Scorer, labels: Coded, path: Path, target: str) -> np.ndarray:
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


def _measures(known: Results, rate: float) -> Table:
    import numpy as np
    from rich.table import Table

    from socratic.uncertainty.metrics import accuracy, brier_score, expected_calibration_error, risk_coverage

    shares, classes = known.answer.probabilities, known.classes
    assert classes is not None
    own = shares[np.arange(len(classes)), classes]
    correct = shares.argmax(1) == classes
    answered = ~known.refused
    table = Table("measure", "value", box=None, pad_edge=False, header_style="bold")
    table.add_row("rows", f"{len(classes):,}" + (f" ({known.n_dropped:,} left out)" if known.n_dropped else ""))
    table.add_row("accuracy", f"{accuracy(shares, classes):.4f}")
    table.add_row("log-loss", f"{-np.log(np.maximum(own, np.finfo(float).tiny)).mean():.4f}")
    table.add_row("Brier score", f"{brier_score(shares, classes):.4f}")
    table.add_row("calibration error (ECE)", f"{expected_calibration_error(shares, classes):.4f}")
    for name in ("p-value", "entropy"):
        area = risk_coverage(known.scores[name], correct).area
        table.add_row(f"area under risk-coverage, by {name}", f"{area:.4f}")
    table.add_row("refused", f"{known.refused.mean():.4f} (asked for at most {rate:g} of familiar rows)")
    table.add_row("accuracy on answered rows", f"{correct[answered].mean():.4f}" if answered.any() else "none answered")
    return table


def _detection(known: Results, unknown: Results) -> Table:
    from rich.table import Table

    from socratic.uncertainty.metrics import aupr, auroc, fpr_at_95

    title = f"telling {len(unknown.refused):,} other rows apart"
    table = Table("score", "AUROC", "AUPR", "FPR95", title=title, box=None, pad_edge=False, header_style="bold")
    for name, scores in known.scores.items():
        pair = scores, unknown.scores[name]
        table.add_row(name, *(f"{measure(*pair):.4f}" for measure in (auroc, aupr, fpr_at_95)))
    table.add_row("refused", f"{unknown.refused.mean():.1%} of them", "", "")
    return table
