"""The sections of a report: what each experiment measures, and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from socratic_experiments.reporting.shift_tables import (
    closeness_table,
    corruption_details,
    corruption_table,
    rotation_table,
    sweep_table,
)
from socratic_experiments.reporting.summaries import Record
from socratic_experiments.reporting.tables import (
    Table,
    cause_table,
    ood_tables,
    operating_table,
    paper_table,
    trains_of,
)


class Section(NamedTuple):
    """A title, and what the numbers mean."""

    title: str
    words: str


SECTIONS = {
    "ood": Section(
        "Known and unknown images",
        "Every row of a known test set and of unknown sets gets a score: the entropy of the mean class posterior, "
        "-log p(x), or the detector's. AUROC and AUPR tell how well the scores separate the two. FPR95: known rows "
        "flagged when 95 % of the unknown ones are. Detected at 5 %: unknown rows flagged when 5 % of the known ones "
        "are. The paper's AUC, of its Table 1: the area under the share of unknown rows flagged over all thresholds, "
        "in percent. It grows with entropy, even where known rows are flagged as well.",
    ),
    "rotation": Section("Turned images", "Test images turned by 0 to 90 degrees. Entropy in nats, the mean over rows."),
    "corruption": Section(
        "Corrupted images",
        "Test images with 15 common corruptions in severities 1 to 5. Accuracy: the mean over corruptions, at "
        "severities 0 (none), 3 and 5.",
    ),
    "closeness": Section(
        "Close to dropout",
        "How far estimates of dropout by one pass are from what sampling converges to, on the same weights.",
    ),
    "sweep": Section("Dropout rate", "AUROC over the dropout rate at inference."),
}


def tables_of(records: Sequence[Record], experiment: str) -> list[Table]:
    """The tables of one experiment that have rows."""
    found: list[Table] = []
    for train in trains_of(records, experiment):
        if experiment == "ood":
            found += [*ood_tables(records, train), cause_table(records, train)]
        elif experiment == "rotation":
            found.append(rotation_table(records, train))
        elif experiment == "corruption":
            found += [corruption_table(records, train), corruption_details(records, train)]
        elif experiment == "closeness":
            found.append(closeness_table(records, train))
        elif experiment == "sweep":
            found.append(sweep_table(records, train))
    if experiment == "ood":
        found += [paper_table(records), operating_table(records)]
    return [one for one in found if one.rows]
