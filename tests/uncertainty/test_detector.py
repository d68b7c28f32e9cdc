"""The detector: what scores weigh, what their combination is worth, its guarantee; and the shifts it learns from."""

from __future__ import annotations

import json

import numpy as np
import pytest

from socratic.errors import ModelFileError
from socratic.uncertainty.answers import Uncertainty
from socratic.uncertainty.detector import DETECTORS, Detector, Surprise, fit_detector
from socratic.uncertainty.metrics import auroc
from socratic.uncertainty.scores import SCORES, score_rows
from socratic.uncertainty.synthetic import MAX_ROWS, synthetic_shifts

Arrays = dict[str, np.ndarray]


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
    alone = max(auroc(known[name], unknown[name]) for name in SCORES)
    return auroc(detector.score(known), detector.score(unknown)), alone


@pytest.mark.parametrize(("density", "entropy"), [(1.0, 1.0), (1.5, 0.8), (0.7, 1.2)])
def test_combined_beats_both_where_both_know_something(density: float, entropy: float) -> None:
    rng = np.random.default_rng(0)
    detector = fit(rng, density, entropy)
    combined, alone = areas(detector, rng, density, entropy)
    assert combined > alone + 0.01
    assert (detector.weights["log_likelihood"] > detector.weights["entropy"]) == (
        density > entropy
    ) or density == entropy


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
    assert more.weights["again 1"] == pytest.approx(more.weights["log_likelihood"])
    assert more.weights["entropy"] / more.weights["log_likelihood"] > 2.5
    same = sum(more.weights[name] for name in ("log_likelihood", "again 1", "again 2"))
    assert same / more.weights["entropy"] == pytest.approx(
        plain.weights["log_likelihood"] / plain.weights["entropy"], rel=0.2
    )
    assert more.weights["constant"] < 0.1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("density", "entropy"), [(0.0, 1.2), (1.2, 0.0), (-1.0, 1.2)])
def test_combined_hardly_loses_where_one_knows_nothing(density: float, entropy: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    detector = fit(rng, density, entropy)
    combined, alone = areas(detector, rng, max(density, 0.0), entropy)
    assert combined > alone - 0.02
    assert min(detector.worth.values()) < 0.1  # four standard errors of an area
    assert min(detector.weights.values()) < 0.25


def test_weights_are_shares_of_worth() -> None:
    detector = fit(np.random.default_rng(3), 1.0, 0.5, n=5000)
    assert sum(detector.weights.values()) == pytest.approx(1.0)
    share = detector.worth["log_likelihood"] / sum(detector.worth.values())
    assert detector.weights["log_likelihood"] == pytest.approx(share, abs=0.02)
    assert fit(np.random.default_rng(3), 0.0, 0.0).weights["entropy"] == pytest.approx(0.5, abs=0.25)


@pytest.mark.parametrize("kind", DETECTORS)
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
    for name in SCORES:
        detector = fit(rng, 1.0, 1.0, kind=name)
        new = rows(rng, 10)
        np.testing.assert_array_equal(detector.score(new), new[name])
        assert detector.weights == {other: float(other == name) for other in SCORES}
        np.testing.assert_array_equal(detector.p_value({name: new[name]}), detector.p_value(new))


@pytest.mark.parametrize("n", [0, 1, 2, 19])
def test_few_reference_rows_weigh_scores_equally(n: int) -> None:
    rng = np.random.default_rng(6)
    shifted = [rows(rng, n, 3.0, 0.0)]
    detector = fit_detector("combined", rows(rng, n), shifted, rows(rng, 50), np.ones(n), np.ones(50))
    assert detector.weights == {"log_likelihood": 0.5, "entropy": 0.5}
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
    for kind in DETECTORS:
        detector = fit(rng, 1.0, 0.5, kind=kind)
        arrays, config = detector.to_state()
        again = Detector.from_state(arrays, json.loads(json.dumps(config)))
        np.testing.assert_array_equal(again.score(new), detector.score(new))
        np.testing.assert_array_equal(again.p_value(new), detector.p_value(new))
        assert (again.kind, again.worth, again.weights) == (kind, detector.worth, detector.weights)


def test_a_damaged_state_is_refused() -> None:
    arrays, config = fit(np.random.default_rng(10), 1.0, 1.0).to_state()
    for damaged in ({**config, "kind": "best"}, {**config, "tails": {}}, {**config, "weights": None}):
        with pytest.raises(ModelFileError, match="the detector of the model cannot be read"):
            Detector.from_state(arrays, damaged)
    with pytest.raises(ModelFileError, match=r"entropy\.knots"):
        Detector.from_state({name: array for name, array in arrays.items() if name != "entropy.knots"}, config)


def test_surprise_is_the_log_of_a_share_and_goes_on_rising() -> None:
    surprise = Surprise.fit(np.array([1.0, 2.0, 2.0, 3.0]), np.ones(4))
    np.testing.assert_allclose(np.exp(-surprise([0.0, 1.0, 2.0, 3.0])), [1.0, 1.0, 0.8, 0.4])
    above = surprise(np.array([3.0001, 4.0, 5.0, np.inf]))
    assert above[0] == pytest.approx(np.log(5.0), abs=1e-3)
    assert (np.diff(above) > 0).all()
    ties = Surprise.fit(np.zeros(9), np.ones(9))  # such as the entropy of a model that never doubts
    np.testing.assert_allclose(ties([-1.0, 0.0, 0.1, 2.0]), [0.0, 0.0, np.log(10.0) + 0.1, np.log(10.0) + 2.0])


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


@pytest.mark.parametrize("n", [0, 1, 2, 50, MAX_ROWS + 1])
def test_shifts_keep_shape_type_and_codes(n: int) -> None:
    rng = np.random.default_rng(13)
    continuous = np.array([True, False, True, False])
    x = np.where(continuous, rng.normal(size=(n, 4)), rng.integers(0, 3, (n, 4))).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    x[:, 2] = np.nan  # a column that nobody has seen
    before = x.copy()
    for shifted in synthetic_shifts(x, continuous, rng):
        assert shifted.shape == (min(n, MAX_ROWS), 4)
        assert shifted.dtype == np.float32
        codes = shifted[:, ~continuous]
        assert np.isin(codes[~np.isnan(codes)], [0, 1, 2]).all()
        assert np.isnan(shifted[:, 2]).all()
    np.testing.assert_array_equal(x, before)


def test_shifts_keep_columns_and_break_their_ties() -> None:
    rng = np.random.default_rng(14)
    common = rng.normal(size=(MAX_ROWS, 1)) ** 3  # heavy tails: rows differ in size
    x = common + 0.1 * rng.normal(size=(MAX_ROWS, 6)) + 5.0
    splices, shuffles, mixtures = synthetic_shifts(x, np.ones(6, dtype=bool), rng)

    def together(rows: np.ndarray) -> float:
        return float(np.corrcoef(rows[:, 0], rows[:, 1])[0, 1])

    np.testing.assert_array_equal(np.sort(shuffles, axis=0), np.sort(x, axis=0))
    assert abs(together(shuffles)) < 0.2
    assert together(splices) < 0.95 < together(x)
    assert together(mixtures) > 0.95  # keep covariances, and break what is finer
    np.testing.assert_allclose(mixtures.mean(0), x.mean(0), atol=1e-6)
    np.testing.assert_allclose(mixtures.std(0), x.std(0), rtol=0.3)
    assert (mixtures != x).all()


def test_shifts_depend_on_the_generator_alone() -> None:
    x, continuous = np.random.default_rng(15).normal(size=(30, 3)), np.array([True, True, False])
    first, second, other = (synthetic_shifts(x, continuous, np.random.default_rng(seed)) for seed in (1, 1, 2))
    for a, b, c in zip(first, second, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert (a != c).any()


def test_bad_shift_arguments_are_named() -> None:
    rng = np.random.default_rng(16)
    with pytest.raises(ValueError, match=r"x must have the shape \(N, V\); got \(3,\)"):
        synthetic_shifts(np.ones(3), np.ones(3, dtype=bool), rng)
    with pytest.raises(ValueError, match=r"continuous must hold a boolean for each of 3 columns; got float64 of shape"):
        synthetic_shifts(np.ones((4, 3)), np.ones(3), rng)


def test_a_score_is_added_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """New detectors use it; those fitted before are read and asked as before."""
    rng = np.random.default_rng(10)

    def doubt(n: int) -> Uncertainty:
        mean = rng.dirichlet(np.ones(3), n)
        return Uncertainty(mean, mean, rng.random(n), rng.random(n), rng.random(n), np.full(n, np.nan))

    known, shifted, new = doubt(50), doubt(50), doubt(20)
    before = fit_detector(
        "combined", score_rows(known), [score_rows(shifted)], score_rows(known), np.ones(50), np.ones(50)
    )
    asked = before.p_value(score_rows(new))
    monkeypatch.setitem(SCORES, "mutual_information", lambda doubt: doubt.mutual_information)
    after = fit_detector(
        "combined", score_rows(known), [score_rows(shifted)], score_rows(known), np.ones(50), np.ones(50)
    )
    assert set(after.weights) == {"log_likelihood", "entropy", "mutual_information"}
    np.testing.assert_array_equal(Detector.from_state(*before.to_state()).p_value(score_rows(new)), asked)
