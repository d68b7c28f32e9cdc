"""Why rows were refused, as ``socratic evaluate --explain`` prints it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from socratic.cli.console import short
from socratic.cli.measure_tables import Sheet

if TYPE_CHECKING:
    import numpy as np

    from socratic.scoring import ClassScorer
    from socratic.tables.reading import Chunk
    from socratic.uncertainty.reasons import Reason

_SHOWN_PARTS, _SHOWN_ROWS = 10, 5


class Refusal(NamedTuple):
    """A refused row, and the columns or regions that speak most against it, most first."""

    row: int  # from 0
    name: str  # to find it by: its number from 1, or the path of an image
    parts: list[str]
    words: str  # the same with their values and how surprising they are


def refusals(scorer: ClassScorer, chunk: Chunk, refused: np.ndarray) -> list[Refusal]:
    """Why the rows of a chunk that are ``refused`` (n,) are so."""
    from socratic.cli.folders import PATH
    from socratic.scoring import N_REASONS
    from socratic.tables.cells import shorten

    rows = refused.nonzero()[0]
    if not len(rows):
        return []
    batch = chunk.batch.take(rows)
    of_images = scorer.names == [PATH]
    names = batch.column(PATH).to_pylist() if of_images else [f"row {chunk.start + row + 1:,}" for row in rows]

    def in_words(place: int, reason: Reason) -> str:
        value = "" if of_images else f" {shorten(batch.column(reason.name)[place].as_py())}"
        return f"{short(reason.name)}{value} ({reason.excess:+.1f})"

    found = []
    for place, reasons in enumerate(scorer.explain(batch, chunk.start).top(N_REASONS)):
        against = [reason for reason in reasons if reason.excess > 0.0]
        words = "; ".join(in_words(place, reason) for reason in against) or "no single one"
        found.append(Refusal(chunk.start + int(rows[place]), names[place], [one.name for one in against], words))
    return found


def refusal_sheets(found: Sequence[Refusal], what: str) -> list[Sheet]:
    """How often each part is a reason, and the first rows with theirs; nothing, if there are no rows."""
    from socratic.scoring import N_REASONS

    if not found:
        return []
    first = Counter(refusal.parts[0] for refusal in found if refusal.parts)
    top = Counter(name for refusal in found for name in refusal.parts)
    most = sorted(top, key=lambda name: (-first[name], -top[name]))[:_SHOWN_PARTS]
    parts = [(short(name), *(f"{count[name] / len(found):.1%}" for count in (first, top))) for name in most]
    examples = [(refusal.name, refusal.words) for refusal in found[:_SHOWN_ROWS]]
    return [
        Sheet(f"why {len(found):,} {what} were refused", ("reason", "first", f"among the top {N_REASONS}"), parts),
        Sheet("", ("refused", "reasons (nats more surprising than usual)"), examples),
    ]
