"""The sections of a report: what each experiment measures, and its tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from socratic_experiments.reporting.claims import claims_table
from socratic_experiments.reporting.factors import factor_table
from socratic_experiments.reporting.shift_tables import (
    closeness_table,
    corruption_details,
    corruption_table,
    rotation_table,
    sweep_table,
)
from socratic_experiments.reporting.summaries import Record, select, usual
from socratic_experiments.reporting.tables import (
    Table,
    cause_table,
    doubt_table,
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
    "paper": Section(
        "The paper's circuit, trained as printed",
        "The circuit of the TDI paper with the training that its text describes: S = I = 20, D = R = 5, Adam at a "
        "constant rate of 0.001, 200 epochs, batches of 200, no dropout in training; dropout of 0.2 (MNIST) and 0.1 "
        "(SVHN) at inference. What the text leaves open, the bounds of variances, the start of leaves and the prior of "
        "classes, is as in the authors' code. Some training images are held out to calibrate rejection.",
    ),
    "ood": Section(
        "Known and unknown images",
        "Every row of a known test set and of unknown sets gets a score: the entropy of the mean class posterior, "
        "-log p(x), or the detector's. AUROC and AUPR tell how well the scores separate the two. FPR95: known rows "
        "flagged when 95 % of the unknown ones are. Detected at 5 %: unknown rows flagged when 5 % of the known ones "
        "are. The paper's AUC, of its Table 1: the area under the share of unknown rows flagged over all thresholds, "
        "in percent. It grows with entropy, even where known rows are flagged as well. AURC: share of errors among "
        "the known rows that are answered, the least doubtful first, on average over how many are; AUGRC: the same as "
        "a share of all rows.",
    ),
    "doubt": Section(
        "Doubt from data",
        "AUROC of each score of a classifier, and of the detector that combines them with weights learnt from held-out "
        "images and synthetic shifts of them, against far sets and near ones (classes that were left out of training). "
        "Mutual information and the deviation of log p(x) are over the distribution of the weights that the training "
        "images leave, in one pass. Networks are judged by their entropy, alone and together with a circuit that "
        "learned their inputs. Refused: known test images at a rejection rate of 5 %.",
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


def tables_of(records: Sequence[Record], section: str) -> list[Table]:
    """The tables of one section that have rows."""
    if section == "paper":
        factors = [factor_table(records, train) for train in trains_of(records, "ood")]
        found = [claims_table(records), *factors, paper_table(usual(records)), operating_table(usual(records))]
    else:
        found = [table for train in trains_of(records, section) for table in _TABLES[section](records, train)]
    return [one for one in found if one.rows]


def _of_ood(records: Sequence[Record], train: str) -> list[Table]:
    return [*ood_tables(usual(records), train), cause_table(usual(records), train)]


def _of_corruption(records: Sequence[Record], train: str) -> list[Table]:
    details = corruption_details(usual(records), train)
    variants = dict.fromkeys(record.get("variant") for record in select(records, experiment="corruption", train=train))
    return [*(corruption_table(records, train, variant) for variant in variants), details]


_TABLES: dict[str, Callable[[Sequence[Record], str], list[Table]]] = {
    "ood": _of_ood,
    "doubt": lambda records, train: [doubt_table(records, train)],
    "rotation": lambda records, train: [rotation_table(records, train)],
    "corruption": _of_corruption,
    "closeness": lambda records, train: [closeness_table(records, train)],
    "sweep": lambda records, train: [sweep_table(records, train)],
}
