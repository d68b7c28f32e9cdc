"""What results say in plain words: sentences chosen from the numbers by simple rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from socratic_experiments.reporting.claims import claims
from socratic_experiments.reporting.evidence import DOES_NOT, HOLDS, IN_PART
from socratic_experiments.reporting.paper import ACCURACY_TARGETS, AUROC_TARGETS, CORRUPTION_TARGET
from socratic_experiments.reporting.shift_tables import (
    FOLLOWS,
    largest_accuracy_change,
    rises_to,
    severity_correlations,
)
from socratic_experiments.reporting.summaries import (
    EXACT,
    INDEPENDENT,
    NO_DROPOUT,
    PAPERS,
    PAPERS_WITH,
    TDI,
    WITH_DROPOUT,
    Record,
    Series,
    alone,
    difference,
    distinct,
    of,
    over_seeds,
    plain,
    select,
    series_of,
    set_title,
    usual,
)
from socratic_experiments.reporting.tables import trains_of


def statements(records: Sequence[Record]) -> list[str]:
    """Sentences on everything that the records tell."""
    paper, records = _paper(records), usual(records)
    said = [paper, *(_measure(records, train) for train in trains_of(records, "ood"))]
    said += [_across(records, train) for train in trains_of(records, "ood")]
    said += [_accuracy(records, train) for train in trains_of(records, "training")]
    for train in trains_of(records, "ood"):
        found = select(records, experiment="ood", train=train, role="unknown")
        for name in distinct(found, "set"):
            here = select(found, set=name)
            where = f"{set_title(train)} against {set_title(name)}"
            said += [
                _best(here, where, AUROC_TARGETS.get((plain(train), plain(name)))),
                _causes(here, where),
                _sampling(here, where),
                _below_chance(here, where),
            ]
    said += [_rotation(records, train) for train in trains_of(records, "rotation")]
    said += [_corruption(records, train) for train in trains_of(records, "corruption")]
    said += [_closeness(records, train) for train in trains_of(records, "closeness")]
    return [sentence for sentence in said if sentence]


def _accuracy(records: Sequence[Record], train: str) -> str:
    found = select(records, experiment="training", train=train)
    target = ACCURACY_TARGETS.get(plain(train))
    stats = {model: over_seeds(select(found, model=model), "accuracy") for model in distinct(found, "model")}
    circuits = [(one.mean, model) for model, one in stats.items() if one is not None and "circuit" in model]
    if not circuits:
        return ""
    value, model = max(circuits)
    end = "" if target is None else f", {'at least' if value >= target else 'below'} the {100 * target:.0f} % aimed at"
    return (
        f"The best circuit on {set_title(train)} ({model}) answers {100 * value:.1f} % of the test images rightly{end}."
    )


def _best(here: Sequence[Record], where: str, target: float | None) -> str:
    areas = [(area.mean, one) for one in series_of(here) if (area := over_seeds(of(here, one), "auroc"))]
    circuits = [pair for pair in areas if "circuit" in pair[1][0]]
    networks = [pair for pair in areas if "circuit" not in pair[1][0]]
    if not circuits:
        return ""
    best = _first_best(circuits)
    parts = [f"the best circuit is {_named(*best)}"]
    if networks:
        parts.append(f"the best network is {_named(*_first_best(networks))}")
    end = ""
    if target is not None:
        end = f" The AUROC of {target:g} aimed at is {'reached' if best[0] >= target else 'not reached'}."
    return f"{where}: {'; '.join(parts)}.{end}"


def _first_best(areas: Sequence[tuple[float, Series]]) -> tuple[float, Series]:
    """The largest area as printed, and whose it is: of equal ones the first in the table."""
    return max(areas, key=lambda pair: round(pair[0], 3))


def _named(area: float, series: Series) -> str:
    return f"{series[0]}, {series[1]} with an AUROC of {area:.3f}"


def _causes(here: Sequence[Record], where: str) -> str:
    """The two causes of a gain: inference on the same weights, and training."""
    base, bare = alone(WITH_DROPOUT, here), alone(NO_DROPOUT, here)
    parts = []
    if base is not None and (moved := difference(select(here, model=base[0], method=TDI), of(here, base), "auroc")):
        parts.append(f"on one set of weights {TDI} moves AUROC by {moved.text(signed=True)}")
    if base is not None and bare is not None and (moved := difference(of(here, base), of(here, bare), "auroc")):
        seeds = " (one seed)" if moved.n == 1 else ""
        parts.append(f"training with dropout moves that of the circuit alone by {moved.text(signed=True)}{seeds}")
    return f"{where}: {'; '.join(parts)}." if parts else ""


def _paper(records: Sequence[Record]) -> str:
    """How many of the paper's claims hold for its circuit, and what its measure cannot see."""
    found = claims(records)
    if not found:
        return ""
    counts = Counter(claim.verdict for claim in found)
    told = ", ".join(f"{verdict}: {counts[verdict]}" for verdict in (HOLDS, IN_PART, DOES_NOT))
    return f"{len(found)} claims of the TDI paper, on its own circuit trained as printed. {told.capitalize()}."


def _measure(records: Sequence[Record], train: str) -> str:
    """What the paper's measure gains on the same weights, on unknown and on known images alike."""
    found = select(records, experiment="ood", train=train, model=PAPERS)
    base = alone(PAPERS, found)
    if base is None:
        return ""
    sampled = next((one for one in distinct(found, "method") if one.startswith("Monte Carlo")), None)
    parts = []
    for method in [one for one in (INDEPENDENT, EXACT, sampled) if one is not None]:
        pairs = [
            (over_seeds(of(here, base), "paper_auc"), over_seeds(select(here, method=method), "paper_auc"))
            for here in _by_set(found)
        ]
        moves = [f"{before.mean:.0f} -> {after.mean:.0f}" for before, after in pairs if before and after]
        if moves:
            parts.append(f"{', '.join(moves)} by {method}")
    if not parts:
        return ""
    sets = ", ".join(set_title(str(here[0]["set"])) for here in _by_set(found))
    return (
        f"{set_title(train)}, {PAPERS}: the paper's AUC, mean entropy in percent of the largest, without and with "
        f"dropout inference on one set of weights, known images first ({sets}): {'; '.join(parts)}."
    )


def _across(records: Sequence[Record], train: str) -> str:
    """The gain in the paper's measure from a training without dropout to one with it, and what of it is training."""
    found = select(records, experiment="ood", train=train)
    ways = [one for one in (alone(PAPERS, found), alone(PAPERS_WITH, found), (PAPERS_WITH, EXACT)) if one is not None]
    parts = []
    for here in _by_set(select(found, role="unknown")):
        areas = [area.mean for one in ways if (area := over_seeds(of(here, one), "paper_auc"))]
        if len(areas) == 3:
            first, trained, asked = areas
            title = set_title(str(here[0]["set"]))
            parts.append(f"{first:.0f} -> {asked:.0f} on {title}, {asked / first:.1f} times ({trained:.0f} alone)")
    if not parts:
        return ""
    return (
        f"{set_title(train)}: the paper's AUC of the circuit trained without dropout, alone, and of that trained with "
        f"dropout, by {EXACT}: {'; '.join(parts)}; in brackets the second without TDI."
    )


def _by_set(found: Sequence[Record]) -> list[list[Record]]:
    """The records of each set, the known one first."""
    return [select(found, role=role, set=name) for role in ("known", "unknown") for name in _sets(found, role)]


def _sets(found: Sequence[Record], role: str) -> list[str]:
    return distinct(select(found, role=role), "set")


def _sampling(here: Sequence[Record], where: str) -> str:
    methods = distinct(select(here, model=WITH_DROPOUT), "method")
    sampled = next((method for method in methods if method.startswith("Monte Carlo")), None)
    if sampled is None:
        return ""
    ours, others = (select(here, model=WITH_DROPOUT, method=method) for method in (TDI, sampled))
    gap = difference(ours, others, "auroc")
    return "" if gap is None else f"{where}: {TDI} and {sampled} differ by {gap.text(signed=True)} in AUROC."


def _below_chance(here: Sequence[Record], where: str) -> str:
    areas = {one: over_seeds(of(here, one), "auroc") for one in series_of(here)}
    below = [f"{one[0]}, {one[1]} ({area.mean:.3f})" for one, area in areas.items() if area and area.mean < 0.5]
    if not below:
        return ""
    return f"{where}: unknown images look more familiar than known ones, by an AUROC below 0.5, to {_listed(below)}."


def _rotation(records: Sequence[Record], train: str) -> str:
    found = select(records, experiment="rotation", train=train, model=WITH_DROPOUT)
    rises = {method: rises_to(select(found, method=method), 45) for method in distinct(found, "method")}
    yes = [method for method, answer in rises.items() if answer]
    no = [method for method, answer in rises.items() if answer is False]
    parts = [f"rises with every step to 45 degrees by {_listed(yes)}"] if yes else []
    parts += [f"does not always rise to 45 degrees by {_listed(no)}"] if no else []
    if not parts:
        return ""
    change = largest_accuracy_change(select(records, experiment="rotation", train=train), (WITH_DROPOUT, TDI))
    end = "" if change is None else f" {TDI} changes accuracy by at most {100 * change:.2f} points at any angle."
    return f"{set_title(train)} turned: mean entropy of the circuit {' and '.join(parts)}.{end}"


def _corruption(records: Sequence[Record], train: str) -> str:
    everything = select(records, experiment="corruption", train=train)
    found = select(everything, model=WITH_DROPOUT)
    parts = []
    for model in distinct(everything, "model"):
        base = alone(model, everything)
        for series in [one for one in ((model, TDI), base) if one is not None]:
            one = of(everything, series)
            if over_seeds(one, "entropy") and (series == (model, TDI) or "circuit" not in model):
                values = severity_correlations(one)
                count = sum(value >= FOLLOWS for value in values.values())
                parts.append(f"{count} of {len(values)} by {series[0]}, {series[1]}")
    if not parts:
        return ""
    said = "; ".join(parts)
    return (
        f"{set_title(train)} corrupted: mean entropy follows the severity (Spearman at least {FOLLOWS}) for {said}; "
        f"{CORRUPTION_TARGET} were aimed at.{_not_followed(select(found, method=TDI))}"
    )


def _not_followed(found: Sequence[Record]) -> str:
    """The corruptions whose severity entropy does not follow, with what they do to accuracy."""
    missed = [name for name, value in severity_correlations(found).items() if not value >= FOLLOWS]
    parts = []
    for name in missed:
        levels = [over_seeds(select(found, shift=name, level=level), "accuracy") for level in (0, 1, 5)]
        told = " -> ".join("?" if level is None else f"{100 * level.mean:.0f}" for level in levels)
        parts.append(f"{name} ({told})")
    if not parts:
        return ""
    return f" Not by {TDI}: {', '.join(parts)}; in brackets the accuracy at severities 0, 1 and 5, in %."


def _closeness(records: Sequence[Record], train: str) -> str:
    """Where exact moments help, and where the step from them to the posterior fails."""
    found = select(records, experiment="closeness", train=train)
    parts = []
    for model in distinct(found, "model"):
        for masks in distinct(found, "masks"):
            here = select(found, model=model, masks=masks)
            exact, plain_ = (
                over_seeds(select(here, method=name), "error_mean") for name in ("TDI exact", "circuit alone")
            )
            if exact is not None and plain_ is not None:
                parts.append(
                    (exact.mean < plain_.mean, f"{model}, {masks} masks ({exact.mean:.3f}, {plain_.mean:.3f})")
                )
    better, worse = ([text for closer, text in parts if closer is wanted] for wanted in (True, False))
    said = []
    if better:
        said.append(f"closer to Monte Carlo dropout than the circuit alone is for {_listed(better)}")
    if worse:
        said.append(f"further from it for {_listed(worse)}")
    if not said:
        return ""
    end = "errors of the mean in brackets"
    return f"{set_title(train)}: the posterior that exact TDI leads to is {' and '.join(said)}; {end}."


def _listed(names: Sequence[str]) -> str:
    return "; ".join(names)
