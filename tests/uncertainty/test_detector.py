"""The detector: what scores weigh, what their combination is worth, and its guarantee."""

from __future__ import annotations

import json
from dataclasses import fields

import numpy as np
import pytest

from socratic.errors import ModelFileError
from socratic.uncertainty.answers import Uncertainty
from socratic.uncertainty.detector import DETECTORS, MIN_REFERENCE, Detector, fit_detector
from socratic.uncertainty.metrics import auroc

Arrays = dict[str, np.ndarray]
NAMES = ("log_likelihood", "entropy")


def rows(rng: np.random.Generator, n: int, density: float = 0.0, entropy: float = 0.0) -> Arrays:
    """Scores of n rows, moved by so many deviations; on scales as different as those of real scores."""
    return {
        "log_likelihood": 1000.0 + 50.0 * (rng.normal(size=n) + density),
        "entropy": np.exp(rng.normal(size=n) + entropy),
    }


def fit(rng: np.random.Generator, density: float, entropy: float, n: int = 300, kind: str = "combined") -> Detector:
    shifted = [rows(rng, n, density * size, entropy * size) for size in (0.5, 1.0, 1.5)]
    return fit_detector(kind, rows(rng, n), shifted, rows(rng, 2 * n), np.ones(n), np.ones(2 * n))


def areas(detector: Detector, rng: np.random.Generator, density: float, entropy: float) -> tuple[float, float]:
    """AUROC of the detector and of the better score alone."""
    known, unknown = rows(rng, 4000), rows(rng, 4000, density, entropy)
    alone = max(auroc(known[name], unknown[name]) for name in NAMES)
    return auroc(detector.score(known), detector.score(unknown)), alone


@pytest.mark.parametrize(("density", "entropy"), [(1.0, 1.0), (1.5, 0.8), (0.7, 1.2)])
def test_combined_beats_both_where_both_know_something(density: float, entropy: float) -> None:
    rng = np.random.default_rng(0)
    detector = fit(rng, density, entropy)
    combined, alone = areas(detector, rng, density, entropy)
    assert combined > alone + 0.01
    if density != entropy:
        assert (detector.weights["log_likelihood"] > detector.weights["entropy"]) == (density > entropy)


def test_rounding_hardly_moves_p_values_of_a_model_that_is_very_sure() -> None:
    """Entropies over twenty orders of magnitude, many of them rounding alone, as those of kernels on digits."""
    rng = np.random.default_rng(0)

    def rounded(scores: Arrays) -> Arrays:
        noise = {name: 4e-16 * rng.normal(size=len(values)) for name, values in scores.items()}
        return {name: values + noise[name] * (1.0 + np.abs(values)) for name, values in scores.items()}

    def sure(n: int, shift: float = 0.0) -> Arrays:
        log_likelihood = rng.normal(60.0, 15.0, n) + shift
        return {"log_likelihood": log_likelihood, "entropy": np.exp(rng.uniform(-46.0, -1.0, n) + shift)}

    shifted = [rounded(sure(300, size)) for size in (5.0, 15.0)]
    detector = fit_detector("combined", rounded(sure(300)), shifted, rounded(sure(300)))
    new = sure(2000)
    apart = np.abs(detector.p_value(rounded(new)) - detector.p_value(rounded(new)))
    assert apart.max() < 1.5 / 300


def test_scores_that_say_the_same_share_their_weight() -> None:
    """However often a score is repeated, in whatever units, the combination hardly changes."""

    def repeated(scores: Arrays) -> Arrays:
        again = {f"again {number}": number * scores["log_likelihood"] - 3.0 for number in (1, 2)}
        return {**scores, **again, "constant": np.ones(len(scores["entropy"]))}

    rng = np.random.default_rng(0)
    parts = [rows(rng, 300), *(rows(rng, 300, size, size) for size in (0.5, 1.0)), rows(rng, 600)]
    ones = np.ones(300), np.ones(600)
    plain = fit_detector("combined", parts[0], parts[1:3], parts[3], *ones)
    many = [repeated(part) for part in parts]
    more = fit_detector("combined", many[0], many[1:3], many[3], *ones)
    assert more.weights["again 1"] == pytest.approx(more.weights["log_likelihood"], rel=1e-4)
    same = sum(more.weights[name] for name in ("log_likelihood", "again 1", "again 2"))
    assert same / more.weights["entropy"] == pytest.approx(
        plain.weights["log_likelihood"] / plain.weights["entropy"], rel=0.2
    )
    new = rows(rng, 500, 1.0, 1.0)
    assert np.corrcoef(plain.score(new), more.score(repeated(new)))[0, 1] > 0.999


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("density", "entropy"), [(0.0, 1.2), (1.2, 0.0), (-1.0, 1.2)])
def test_combined_hardly_loses_where_one_knows_nothing(density: float, entropy: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    detector = fit(rng, density, entropy)
    combined, alone = areas(detector, rng, max(density, 0.0), entropy)
    assert combined > alone - 0.02
    assert min(detector.weights.values()) < 0.25


def test_weights_are_shares_and_noise_has_none() -> None:
    """A score that says nothing of the shifts, and one that is lower for them, have no weight."""

    def more(n: int, size: float) -> Arrays:
        noise = {"noise": rng.normal(size=n), "wrong": rng.normal(size=n) - size}
        return {**rows(rng, n, size, size), **noise}

    rng = np.random.default_rng(3)
    ones = np.ones(2000)
    detector = fit_detector("combined", more(2000, 0.0), [more(2000, 1.0)], more(2000, 0.0), ones, ones)
    assert sum(detector.weights.values()) == pytest.approx(1.0)
    assert min(detector.weights.values()) >= 0.0
    assert detector.weights["noise"] < 0.06
    assert detector.weights["wrong"] < 1e-6
    assert detector.weights["log_likelihood"] == pytest.approx(detector.weights["entropy"], abs=0.1)


def test_every_shift_counts_alike() -> None:
    """However many rows one of them has."""
    rng = np.random.default_rng(3)
    reference, ones = rows(rng, 1000), np.ones(1000)
    few, many = rows(rng, 200, 1.5, 0.0), rows(rng, 200, 0.0, 1.5)
    times = {name: np.tile(scores, 9) for name, scores in many.items()}
    plain, repeated = (fit_detector("combined", reference, [few, s], reference, ones, ones) for s in (many, times))
    assert repeated.weights == pytest.approx(plain.weights, abs=1e-3)


def test_the_weights_are_the_minimum_of_the_loss() -> None:
    """A change of any weight, and of the offsets with it, makes the regularised log-loss no smaller."""
    from scipy.optimize import minimize_scalar

    rng = np.random.default_rng(3)
    reference, shift = rows(rng, 400), rows(rng, 400, 0.8, 0.4)
    detector = fit_detector("combined", reference, [shift], reference, np.ones(400), np.ones(400))
    known, unknown = (
        np.stack([np.minimum(detector.surprises[name](part[name]), 50.0) for name in NAMES], 1)
        for part in (reference, shift)
    )

    def loss(weights: np.ndarray) -> float:
        def at(offset: float) -> float:
            inside, outside = known @ weights - offset, unknown @ weights - offset
            fit = np.logaddexp(0.0, inside).mean() + np.logaddexp(0.0, -outside).mean()
            return float(fit + (0.03 + 1.0 / 400.0) * ((weights - 0.3) ** 2).sum())

        return float(minimize_scalar(at).fun)

    shares = np.array([detector.weights[name] for name in NAMES])
    scale = minimize_scalar(lambda size: loss(size * shares), bounds=(0.0, 9.0), method="bounded").x
    best = loss(scale * shares)
    for step in ([0.02, 0.0], [0.0, 0.02], [0.02, -0.02], [-0.02, 0.02], [-0.02, 0.0], [0.0, -0.02]):
        assert loss(scale * shares + step) >= best - 1e-6


def test_a_two_sided_score_finds_rows_that_are_too_likely() -> None:
    def of(n: int, centre: float, spread: float) -> Arrays:
        unlikely = centre + spread * rng.normal(size=n)
        return {"log_likelihood": unlikely, "typicality": unlikely}

    rng = np.random.default_rng(4)
    ones, shifts = np.ones(400), [of(400, -4.0, 0.1), of(400, 3.0, 1.0)]
    detector = fit_detector("combined", of(400, 0.0, 1.0), shifts, of(400, 0.0, 1.0), ones, ones)
    assert detector.weights["typicality"] > 0.7
    assert (detector.p_value(of(50, -5.0, 0.1)) <= 0.05).all()
    assert (detector.p_value(of(50, 5.0, 0.1)) <= 0.05).all()
    assert np.median(detector.p_value(of(50, 0.0, 0.1))) > 0.5
    alone = fit_detector("typicality", of(400, 0.0, 1.0), shifts, of(400, 0.0, 1.0), ones, ones)
    assert alone.weights == {"log_likelihood": 0.0, "typicality": 1.0}
    assert (alone.p_value(of(50, -5.0, 0.1)) <= 0.05).all()


@pytest.mark.parametrize("kind", ["combined", *NAMES])
def test_known_rows_are_rejected_as_often_as_promised(kind: str) -> None:
    rng = np.random.default_rng(4)
    rejected = []
    for _ in range(400):
        shifted = [rows(rng, 25, 1.0, 1.0)]
        detector = fit_detector(kind, rows(rng, 25), shifted, rows(rng, 39), np.ones(25), np.ones(39))
        rejected.append((detector.p_value(rows(rng, 20)) <= 0.1).mean())
    # The combined score of usual rows may be tied, never that of unusual ones: the promise is kept exactly.
    assert abs(np.mean(rejected) - 0.1) <= 4 * np.std(rejected) / np.sqrt(len(rejected))


def test_a_single_score_is_used_as_it_is() -> None:
    rng = np.random.default_rng(5)
    for name in NAMES:
        detector = fit(rng, 1.0, 1.0, kind=name)
        new = rows(rng, 10)
        np.testing.assert_array_equal(detector.score(new), new[name])
        assert detector.weights == {other: float(other == name) for other in NAMES}
        np.testing.assert_array_equal(detector.p_value({name: new[name]}), detector.p_value(new))


@pytest.mark.parametrize("n", [0, 1, 2, MIN_REFERENCE - 1])
def test_few_reference_rows_weigh_the_first_scores_equally(n: int) -> None:
    rng = np.random.default_rng(6)
    shifted = [rows(rng, n, 3.0, 0.0)]
    detector = fit_detector("combined", rows(rng, n), shifted, rows(rng, 50), np.ones(n), np.ones(50))
    assert detector.weights == {"log_likelihood": 0.5, "entropy": 0.5}
    more = [{**scores, "profile": scores["entropy"]} for scores in (rows(rng, n), shifted[0], rows(rng, 50))]
    other = fit_detector("combined", more[0], more[1:2], more[2], np.ones(n), np.ones(50))
    assert other.weights == {"log_likelihood": 0.5, "entropy": 0.5, "profile": 0.0}
    far = detector.p_value(rows(rng, 5, 100.0, 5.0))
    assert (far < 0.1).all()


def test_without_rows_at_all_nothing_is_unusual() -> None:
    rng = np.random.default_rng(7)
    detector = fit_detector("combined", rows(rng, 0), [], rows(rng, 0), np.ones(0), np.ones(0))
    np.testing.assert_array_equal(detector.p_value(rows(rng, 3, 9.0, 9.0)), [1.0, 1.0, 1.0])
    known, unknown = rows(rng, 50), rows(rng, 50, 5.0, 5.0)
    assert auroc(detector.score(known), detector.score(unknown)) > 0.9


def test_weights_are_proportions() -> None:
    """All weights times five is no more evidence, and rows of weight 0 have no say."""
    rng = np.random.default_rng(8)
    reference, calibration, shifted = rows(rng, 60), rows(rng, 80), [rows(rng, 60, 1.0, 0.5)]
    counts = [np.where(np.arange(n) % 3 == 0, 0.0, 5.0) for n in (60, 80)]
    weighted = fit_detector("combined", reference, shifted, calibration, *counts)
    kept = [
        {name: values[count > 0] for name, values in scores.items()}
        for scores, count in zip((reference, calibration), counts, strict=True)
    ]
    ones = [np.ones(int((count > 0).sum())) for count in counts]
    plain = fit_detector("combined", kept[0], shifted, kept[1], *ones)
    new = rows(rng, 200, 0.5, 0.5)
    assert weighted.weights == pytest.approx(plain.weights)
    np.testing.assert_allclose(weighted.score(new), plain.score(new))
    np.testing.assert_allclose(weighted.p_value(new), plain.p_value(new))


def test_round_trip() -> None:
    rng = np.random.default_rng(9)
    new = rows(rng, 100, 1.0, 1.0)
    for kind in ("combined", *NAMES):
        detector = fit(rng, 1.0, 0.5, kind=kind)
        arrays, config = detector.to_state()
        again = Detector.from_state(arrays, json.loads(json.dumps(config)))
        np.testing.assert_array_equal(again.score(new), detector.score(new))
        np.testing.assert_array_equal(again.p_value(new), detector.p_value(new))
        assert (again.kind, again.weights) == (kind, detector.weights)


def test_a_damaged_state_is_refused() -> None:
    arrays, config = fit(np.random.default_rng(10), 1.0, 1.0).to_state()
    for damaged in ({**config, "kind": "best"}, {**config, "weights": None}):
        with pytest.raises(ModelFileError, match="the detector of the model cannot be read"):
            Detector.from_state(arrays, damaged)
    for missing in ("entropy.knots", "entropy.tail"):
        with pytest.raises(ModelFileError, match=missing):
            Detector.from_state({name: array for name, array in arrays.items() if name != missing}, config)


def test_infinite_scores_are_the_most_unusual() -> None:
    rng = np.random.default_rng(11)
    detector = fit(rng, 1.0, 1.0)
    odd = {"log_likelihood": np.array([np.inf, -np.inf, np.nan]), "entropy": np.array([0.1, 0.1, 0.1])}
    smallest = 1.0 / (len(detector.calibration.scores) + 1.0)
    p_values = detector.p_value(odd)
    assert p_values[0] == p_values[2] == smallest
    assert p_values[1] > 0.5
    reference = rows(rng, 50)
    reference["log_likelihood"][:3] = np.inf
    detector = fit_detector("combined", reference, [reference], reference, np.ones(50), np.ones(50))
    assert np.isfinite(detector.score(rows(rng, 20, 9.0, 9.0))).all()


def test_errors_name_the_argument() -> None:
    rng = np.random.default_rng(12)
    known, ones = rows(rng, 30), np.ones(30)
    with pytest.raises(ValueError, match="kind must be one of 'combined', 'log_likelihood', 'entropy'; got 'best'"):
        fit_detector("best", known, [], known, ones, ones)
    with pytest.raises(ValueError, match=r"calibration must hold scores named .*; 'entropy' is missing"):
        fit_detector("combined", known, [], {"log_likelihood": ones}, ones, ones)
    with pytest.raises(ValueError, match=r"the weights of reference\['log_likelihood'\] must have the shape \(30,\)"):
        fit_detector("combined", known, [], known, np.ones(4), ones)
    with pytest.raises(ValueError, match=r"scores must hold scores named .*; 'log_likelihood' is missing"):
        fit_detector("combined", known, [], known, ones, ones).score({"entropy": ones})


def test_a_new_score_is_for_new_detectors() -> None:
    """Those fitted before are read and asked as before."""
    rng = np.random.default_rng(10)

    def doubt(n: int) -> Uncertainty:
        mean = rng.dirichlet(np.ones(3), n)
        scores = {field.name: rng.random(n) for field in fields(Uncertainty)}
        unusualness = rng.random((n, len(DETECTORS) - 1))
        return Uncertainty(**{**scores, "mean": mean, "std": mean, "unusualness": unusualness})

    known, shifted, new = (doubt(n).scores() for n in (50, 50, 20))
    before = fit_detector("combined", known, [shifted], known, np.ones(50), np.ones(50))
    assert ("combined", *before.weights) == DETECTORS
    asked = before.p_value(new)
    more = [{**scores, "spread": rng.random(len(scores["entropy"]))} for scores in (known, shifted)]
    after = fit_detector("combined", more[0], more[1:], more[0], np.ones(50), np.ones(50))
    assert after.weights.keys() == {*before.weights, "spread"}
    np.testing.assert_array_equal(
        Detector.from_state(*before.to_state()).p_value({**new, "spread": np.ones(20)}), asked
    )


def test_scores_that_help_with_no_shift_keep_their_start() -> None:
    rng = np.random.default_rng(9)
    known, none = ({name: rng.exponential(size=200) * size for name in NAMES} for size in (1.0, 0.0))
    detector = fit_detector("combined", known, [none], known, np.ones(200), np.ones(200))
    assert sum(detector.weights.values()) == pytest.approx(1.0)
    assert (detector.p_value(known) > 0.0).all()
