"""What the TDI paper claims of its circuit, beside what came out for that circuit trained as printed."""

from __future__ import annotations

from collections.abc import Sequence

from socratic_experiments.reporting.evidence import IN_PART, VARIANTS, Claim
from socratic_experiments.reporting.shift_claims import corruption_claims, rotation_claims
from socratic_experiments.reporting.summaries import PAPERS, Record, plain, select, usual
from socratic_experiments.reporting.tables import Table
from socratic_experiments.reporting.unknown_claims import unknown_claims


def claims(records: Sequence[Record]) -> list[Claim]:
    """The paper's claims that the records can speak to."""

    def found(experiment: str, train: str) -> list[Record]:
        here = select(records, model=PAPERS, experiment=experiment)
        return [record for record in here if plain(record["train"]) == train]

    return [
        *unknown_claims(usual(found("ood", "svhn"))),
        *rotation_claims(usual(found("rotation", "mnist"))),
        *corruption_claims(found("corruption", "svhn")),
    ]


def claims_table(records: Sequence[Record]) -> Table:
    """All claims and verdicts."""
    note = (
        f"Of the circuit trained as printed. TDI stands for {' / '.join(VARIANTS)}: the text does not say which "
        "covariance its experiments used; the better of the two decides. Where the text gives no constants of "
        f"corruptions, both sets count. {IN_PART.capitalize()}: for some of what is named and not for all, or less "
        'than claimed. What follows "here" is our way to measure.'
    )
    rows = [list(claim) for claim in claims(records)]
    return Table("The paper's claims", ["claim", "where", "here", "verdict"], rows, 4, note)
