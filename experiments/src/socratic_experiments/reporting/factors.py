"""What decides the figures of the TDI paper's circuit: its training, the normalisation of images, and inference."""

from __future__ import annotations

from collections.abc import Sequence

from socratic_experiments.reporting.summaries import (
    PAPERS,
    PAPERS_WITH,
    Record,
    distinct,
    over_seeds,
    select,
    set_title,
    show,
)
from socratic_experiments.reporting.tables import Table

_TRAININGS = {PAPERS: "as printed", PAPERS_WITH: "with dropout"}
_NORMALISED = {None: "training set", "own": "each set"}


def factor_table(records: Sequence[Record], train: str) -> Table:
    """One factor at a time: training, normalisation, and how the circuit is asked, on known and unknown images."""
    found = select(records, experiment="ood", train=train)
    papers = [record for record in found if record["model"] in _TRAININGS]
    sets = distinct(select(papers, role="unknown"), "set")
    rows = []
    for model, training in _TRAININGS.items():
        for variant, normalised in _NORMALISED.items():
            here = select(papers, model=model, variant=variant)
            for method in distinct(here, "method"):
                one = select(here, method=method)
                if over_seeds(one, "entropy") is not None:
                    rows.append([training, normalised, method, *_numbers(one, sets)])
    known = set_title(train)
    headings = ["trained", "normalised by", "method", "accuracy, %", f"entropy, {known}"]
    for name in sets:
        title = set_title(name)
        headings += [f"entropy, {title}", f"paper's AUC, {title}", f"AUROC, {title}"]
    note = (
        "Entropy: the mean over images, in nats. The paper's AUC is the mean entropy of the unknown images in percent "
        "of the largest possible; known images have no part in it. Normalised by the training set's statistics, or "
        "each set by its own, as in the authors' code; dropout in training is of their code, too. Same weights within "
        "a training."
    )
    return Table(f"Factors of the paper's circuit: {known}", headings, rows, 3, note).trimmed()


def _numbers(records: Sequence[Record], sets: Sequence[str]) -> list[str]:
    known = select(records, role="known")
    cells = [show(over_seeds(known, "accuracy"), 1, scale=100), show(over_seeds(known, "entropy"), 2)]
    for name in sets:
        unknown = select(records, role="unknown", set=name)
        cells += [
            show(over_seeds(unknown, "entropy"), 2),
            show(over_seeds(unknown, "paper_auc"), 1),
            show(over_seeds(unknown, "auroc")),
        ]
    return cells
