"""A guard: the answers are the model's, the refusals its own."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from socratic import CircuitDensity, CircuitGuard, CircuitImageDensity
from socratic.errors import CalibrationWarning
from socratic.estimators.guard import CIRCUIT_SCORES, GUARD_SCORES
from socratic.uncertainty import auroc
from socratic.uncertainty.conformal import on_grid
from tests.estimators.test_classifier import mixed_frame
from tests.estimators.test_guarded import halves

QUICK = CircuitDensity(n_epochs=5, n_sums=4, n_repetitions=3)
Rows = tuple[Any, np.ndarray]


def generated(n: int, seed: int) -> Rows:
    """Four classes."""
    x, y = make_classification(
        6000, 8, n_informative=6, n_classes=4, n_clusters_per_class=1, class_sep=1.5, random_state=5
    )
    order = np.random.default_rng(seed).permutation(len(x))[:n]
    return x[order], y[order]


def logistic(x: Any, y: np.ndarray, seed: int = 0) -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(x, y)


def forest(x: Any, y: np.ndarray, seed: int = 0) -> Any:
    return RandomForestClassifier(50, random_state=seed).fit(x, y)


def of_a_frame(x: Any, y: np.ndarray) -> Any:
    """A model of mixed columns that refuses categories it does not know."""
    numbers = x.select_dtypes("number").columns.tolist()
    others = [name for name in x if name not in numbers]
    encoder = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="error")), others),
    )
    return make_pipeline(encoder, LogisticRegression(max_iter=2000)).fit(x, y)


def digit_images() -> tuple[np.ndarray, np.ndarray]:
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.images))
    return np.round(digits.images * (255 / 16)).astype(np.uint8)[order], digits.target[order]


def network(images: np.ndarray, labels: np.ndarray, seed: int, n_steps: int = 150) -> torch.nn.Module:
    """A small network of images (N, 8, 8), trained."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )
    x, y = torch.as_tensor(images).float(), torch.as_tensor(labels)
    adam = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(n_steps):
        adam.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        adam.step()
    return torch.nn.Sequential(model, torch.nn.Softmax(1)).eval()


@pytest.fixture(scope="module")
def guard() -> CircuitGuard:
    x, y = generated(1200, 0)
    return CircuitGuard(logistic(x[:500], y[:500]), density=QUICK, random_state=0).fit(x[500:], unseen=True)


@pytest.mark.parametrize("make", [logistic, forest])
def test_answers_are_those_of_the_model(make: Callable[..., Any]) -> None:
    x, y = generated(900, 1)
    names = np.array(["north", "east", "south", "west"])[y]
    model = make(x[:400], names[:400])
    guard = CircuitGuard(model, density=QUICK, random_state=0).fit(x[400:], unseen=True)
    assert guard.classes_.tolist() == ["east", "north", "south", "west"]
    np.testing.assert_array_equal(guard.predict(x), model.predict(x))
    np.testing.assert_array_equal(guard.predict_proba(x), model.predict_proba(x))
    assert guard.score(x, names) == model.score(x, names)
    answered = ~guard.reject(x)
    np.testing.assert_array_equal(guard.predict_or_reject(x)[answered], model.predict(x)[answered])
    assert set(guard.predict_or_reject(x)[~answered]) == {None}


def test_every_refusal_follows_from_the_scores(guard: CircuitGuard) -> None:
    x = np.vstack([generated(300, 2)[0], generated(50, 3)[0] * 3.0])
    p_value = guard.p_value(x)
    np.testing.assert_array_equal(guard.reject(x), p_value <= 0.05)
    order = np.argsort(guard.score_samples(x))
    assert (np.diff(p_value[order]) >= 0).all()  # the more familiar, the larger
    assert guard.reject(x[300:]).mean() > 0.8
    assert sum(guard.detector_.weights.values()) == pytest.approx(1.0)
    assert tuple(guard.detector_.weights) == GUARD_SCORES


@pytest.mark.parametrize("detector", ["log_likelihood", "profile", "entropy"])
def test_one_score_can_decide_alone(detector: str) -> None:
    x, y = generated(900, 1)
    model = logistic(x[:400], y[:400])
    guard = CircuitGuard(model, detector=detector, density=QUICK, random_state=0).fit(x[400:], unseen=True)
    scores = guard.score_samples(x)
    expected = {
        "log_likelihood": lambda: guard.density_.score_samples(x) + guard.density_.table_.log_scale.sum(),  # no units
        "profile": lambda: -guard.profile_.score(guard.density_.circuit_, next(guard.density_._batches(x))),
        "entropy": lambda: (model.predict_proba(x) * np.log(model.predict_proba(x))).sum(1),
    }[detector]()
    np.testing.assert_allclose(scores, on_grid(expected), rtol=1e-9)


def test_a_mixed_frame_goes_to_the_model_as_it_is() -> None:
    frame, labels = mixed_frame(700)
    model = of_a_frame(frame[:300], labels[:300])
    guard = CircuitGuard(model, density=QUICK, random_state=0).fit(frame[300:], unseen=True)
    np.testing.assert_array_equal(guard.predict_proba(frame), model.predict_proba(frame))
    assert guard.feature_names_in_.tolist() == list(frame.columns)
    assert guard.reject(frame[300:]).mean() < 0.15
    strange = frame[300:350].assign(**{name: frame[name].mean() * 20 for name in frame.select_dtypes("float")})
    assert guard.reject(strange).mean() > 0.9


@pytest.mark.slow
def test_a_network_of_images_on_its_own_tensors() -> None:
    images, labels = digit_images()
    model = network(images[:900], labels[:900], 0)
    small = CircuitImageDensity(n_epochs=5, n_sums=6)
    guard = CircuitGuard(model, density=small, random_state=0).fit(images[:900], held_out=images[900:1300])
    assert guard.classes_.tolist() == list(range(10))
    with torch.no_grad():
        expected = model(torch.as_tensor(images[1300:]).float()).double().numpy()
    np.testing.assert_array_equal(guard.predict_proba(images[1300:]), expected)
    np.testing.assert_array_equal(guard.predict(images[1300:]), expected.argmax(1))
    assert guard.score(images[1300:], labels[1300:]) > 0.9
    assert guard.reject(images[1300:]).mean() < 0.1
    assert guard.reject(np.random.default_rng(0).permuted(images[1300:], axis=1)).mean() > 0.8
    np.testing.assert_array_equal(guard.p_value(torch.as_tensor(images[1300:])), guard.p_value(images[1300:]))
    assert not hasattr(guard, "n_features_in_")


SETS: dict[str, Callable[[], Rows]] = {
    "wine": lambda: load_wine(return_X_y=True),
    "generated": lambda: generated(1600, 0),
    "digits": lambda: load_digits(return_X_y=True),
}


def areas(rows: Rows, make: Callable[..., Any], unknown: int, seed: int) -> tuple[float, float]:
    """AUROC of the guard and of 1 - the model's largest probability, where a class was held out of training."""
    x, y = rows
    known = np.random.default_rng(seed).permutation(np.flatnonzero(y != unknown))
    train, held_out, test = np.split(known, [len(known) // 2, 3 * len(known) // 4])
    model = make(x[train], y[train], seed)
    guard = CircuitGuard(model, random_state=seed).fit(x[train], held_out=x[held_out])
    new = x[y == unknown]
    alone = [1.0 - model.predict_proba(part).max(1) for part in (x[test], new)]
    return auroc(-guard.score_samples(x[test]), -guard.score_samples(new)), auroc(*alone)


@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
@pytest.mark.slow
@pytest.mark.parametrize("make", [forest, logistic])
@pytest.mark.parametrize("name", SETS)
def test_a_class_nobody_trained_on_stands_out_more_than_to_the_model_alone(name: str, make: Callable[..., Any]) -> None:
    rows = SETS[name]()
    found = np.array([areas(rows, make, unknown, seed) for unknown in (0, 1, 2) for seed in (0, 1, 2)])
    guarded, alone = found.mean(0)
    print(f"{name}, {make.__name__}: guard {guarded:.3f}, model alone {alone:.3f}")
    assert guarded > alone - 0.01
    assert name == "digits" or guarded > alone


def fresh_share(x: np.ndarray, y: np.ndarray, seed: int, apart: bool) -> float:
    """The share of fresh rows that is refused."""
    order = np.random.default_rng(seed).permutation(len(x))
    train, guarding, fresh = np.split(order, [300, 600])
    guard = CircuitGuard(forest(x[train], y[train]), density=QUICK, random_state=seed)
    guard = guard.fit(x[train], held_out=x[guarding]) if apart else guard.fit(x[guarding], unseen=True)
    return guard.reject(x[fresh]).mean()


@pytest.mark.slow
@pytest.mark.parametrize("apart", [True, False])
def test_no_more_familiar_rows_are_refused_than_promised(apart: bool) -> None:
    x, y = generated(6000, 0)
    shares = [fresh_share(x, y, seed, apart) for seed in range(20)]
    print(f"refused: {np.mean(shares):.4f}")
    assert np.mean(shares) <= 0.05 + 3 * np.std(shares) / np.sqrt(len(shares))
    assert np.mean(shares) > 0.03


@pytest.mark.slow
def test_copies_of_rows_do_not_break_the_promise() -> None:
    x, y = generated(6000, 0)
    shares = []
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(len(x))
        repeated = np.repeat(order[300:600], 4)
        guard = CircuitGuard(forest(x[order[:300]], y[order[:300]]), density=QUICK, random_state=seed)
        shares.append(guard.fit(x[repeated], unseen=True).reject(x[order[600:]]).mean())
    assert np.mean(shares) <= 0.05 + 3 * np.std(shares) / np.sqrt(len(shares))


@pytest.mark.slow
def test_with_too_few_rows_it_says_so() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    model = logistic(x[:300], y[:300])
    guard = CircuitGuard(model, density=QUICK, random_state=0)
    with pytest.warns(CalibrationWarning, match="no rows were held out to calibrate on"):
        guard.fit(x[300:315], unseen=True)
    assert not guard.calibrated_
    with pytest.warns(CalibrationWarning, match=r"40 rows were .*rejection_rate=0\.01 needs at least 99"):
        guard.set_params(rejection_rate=0.01).fit(x[300:340], unseen=True)
    with pytest.warns(CalibrationWarning, match="no row is refused"):
        assert not guard.reject(x[380:]).any()
    guard.set_params(calibration_fraction=0.0)
    with pytest.warns(CalibrationWarning, match="no rows were held out to calibrate on"):
        guard.fit(x[300:380], unseen=True)
    with pytest.raises(ValueError, match="held_out must hold at least 20 rows; got n_samples = 10"):
        guard.fit(x[300:], held_out=x[:10])
    with pytest.raises(ValueError, match="X must hold at least 5 rows; got n_samples = 4"):
        guard.fit(x[:4], unseen=True)


def test_rows_for_which_the_model_gives_nan_are_refused() -> None:
    x, _ = generated(600, 0)

    def model(rows: np.ndarray) -> np.ndarray:
        return np.where(np.abs(rows[:, :1]) > 50.0, np.nan, halves(rows))

    guard = CircuitGuard(model, density=QUICK, random_state=0).fit(x, unseen=True)
    few = x[:3].copy()
    few[1, 0] = 60.0
    assert guard.p_value(few)[1] == pytest.approx(guard.detector_.calibration.p_value([np.inf])[0])
    assert guard.predict_or_reject(few)[1] is None
    x[:, 0] += 60.0
    with pytest.raises(ValueError, match=r"model must give probabilities of all rows .*; got NaN for 40 of 40 rows"):
        guard.fit(x, unseen=True)


@pytest.mark.parametrize("answer", [[1.0], [1.0, 0.0], [0.5, 0.5]])
def test_a_model_that_says_nothing_leaves_the_circuit_to_decide(answer: list[float]) -> None:
    x, _ = generated(600, 0)
    model = CircuitGuard(lambda rows: np.tile(answer, (len(rows), 1)), density=QUICK, random_state=0)
    guard = model.fit(x, unseen=True)
    assert guard.reject(generated(2000, 1)[0]).mean() < 0.1
    assert guard.reject(3.0 * x).mean() > 0.8
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        guard.reject(x[:0])


def test_a_model_that_answers_otherwise_than_before_is_refused(guard: CircuitGuard) -> None:
    x, _ = generated(600, 0)
    other = CircuitGuard(halves, density=QUICK, random_state=0).fit(x, unseen=True)
    other.model = lambda rows: np.full((len(rows), 3), 1 / 3)
    with pytest.raises(ValueError, match="for each of 2 classes, as it did when the guard was fitted; got 3"):
        other.p_value(x)
    other.model = lambda rows: halves(rows)[:5]
    with pytest.raises(ValueError, match=r"of the shape \(600, C\); got \(5, 2\)"):
        other.predict_proba(x)


def test_the_models_own_errors_come_through() -> None:
    x, y = generated(600, 0)
    with pytest.raises(NotFittedError):
        CircuitGuard(LogisticRegression()).fit(x, unseen=True)
    guard = CircuitGuard(logistic(x[:200], y[:200]), density=QUICK, random_state=0).fit(x[200:], unseen=True)
    holes = np.where(np.random.default_rng(0).random(x.shape) < 0.1, np.nan, x)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        guard.p_value(holes)
    tolerant = make_pipeline(SimpleImputer(), LogisticRegression(max_iter=2000)).fit(holes[:200], y[:200])
    again = CircuitGuard(tolerant, density=QUICK, random_state=0).fit(holes[200:], unseen=True)
    assert again.reject(holes).mean() < 0.15


def test_rare_categories_among_held_out_rows_alone_are_no_trouble() -> None:
    frame, labels = mixed_frame(600)
    frame["colour"] = [f"rare {place}" if place % 100 == 7 else value for place, value in enumerate(frame["colour"])]
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["colour"]))
    model = make_pipeline(encoder, LogisticRegression()).fit(frame, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guard = CircuitGuard(model, density=QUICK, random_state=0).fit(frame, unseen=True)
    assert len(guard.density_.table_.columns[3].categories) < frame["colour"].nunique()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": 7}, "model must be a fitted classifier with predict_proba, or a callable"),
        ({"density": LogisticRegression()}, "density must be a CircuitDensity, a CircuitImageDensity or None; got"),
        ({"density": CircuitImageDensity()}, r"density must be a CircuitDensity for tables; got CircuitImageDensity\("),
        (
            {"detector": "mutual_information"},
            "detector must be one of 'combined', 'log_likelihood', 'typicality', 'profile', 'entropy'",
        ),
        ({"rejection_rate": 1.0}, r"rejection_rate must be a number in \[0, 1\)"),
    ],
)
def test_wrong_arguments_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CircuitGuard(**{"model": halves, **settings}).fit(generated(100, 0)[0], unseen=True)


def test_images_need_a_density_of_images() -> None:
    with pytest.raises(ValueError, match="density must be a CircuitImageDensity for images; got CircuitDensity"):
        CircuitGuard(halves, density=QUICK).fit(np.zeros((30, 4, 4), dtype=np.uint8), unseen=True)
    with pytest.raises(ValueError, match="images must hold bytes"):
        CircuitGuard(halves).fit(np.zeros((30, 4, 4)), unseen=True)


def test_clones_and_copies_guard_the_same_model(guard: CircuitGuard) -> None:
    x, y = generated(400, 4)
    copy = clone(guard)
    assert copy.model is guard.model
    assert copy.density is not guard.density
    assert repr(copy.density) == repr(guard.density)
    assert not hasattr(copy, "density_")
    scores = cross_val_score(guard, x, y, cv=2, params={"unseen": True})
    assert scores.mean() == pytest.approx(guard.score(x, y), abs=0.02)
    again = pickle.loads(pickle.dumps(guard))
    np.testing.assert_array_equal(again.p_value(x), guard.p_value(x))


def test_equal_seeds_give_equal_guards_and_labels_change_nothing(guard: CircuitGuard) -> None:
    x, y = generated(1200, 0)
    before = pickle.dumps(guard.model)
    again = clone(guard).fit(x[500:], y[500:], unseen=True)
    np.testing.assert_array_equal(again.score_samples(x), guard.score_samples(x))
    assert pickle.dumps(guard.model) == before


def test_a_frame_in_another_order_of_rows_gives_the_same_guard() -> None:
    x, _ = generated(300, 0)
    frame = pd.DataFrame(x, columns=[f"c{place}" for place in range(x.shape[1])])
    guards = [
        CircuitGuard(halves, density=QUICK, random_state=0).fit(part, unseen=True) for part in (frame, frame[::-1])
    ]
    np.testing.assert_array_equal(guards[0].p_value(frame), guards[1].p_value(frame))


def test_rows_that_the_model_may_know_are_compared_by_the_circuit_alone_and_it_says_so() -> None:
    x, y = generated(900, 1)
    model = forest(x[:600], y[:600])
    guard = CircuitGuard(model, density=QUICK, random_state=0)
    with pytest.warns(CalibrationWarning) as told:
        guard.fit(x[:600])
    assert [str(each.message) for each in told] == [
        "the guard leaves out the model's entropy, which is smaller on rows that the model was trained on than on any "
        "others, and goes by its circuit alone: give such rows as held_out, or say unseen=True if the model was not "
        "trained on X"
    ]
    assert told[0].filename == __file__
    assert tuple(guard.detector_.weights) == CIRCUIT_SCORES
    guard.model = lambda rows: np.full((len(rows), 4), 0.25)
    p_value = guard.p_value(x[600:])
    guard.model = model
    np.testing.assert_array_equal(guard.p_value(x[600:]), p_value)


@pytest.mark.parametrize("said", [{"unseen": True}, {"held_out": slice(300, 600)}])
def test_rows_that_are_new_to_the_model_bring_its_doubt_in(said: dict[str, Any]) -> None:
    x, y = generated(900, 1)
    guard = CircuitGuard(forest(x[600:], y[600:]), density=QUICK, random_state=0)
    told = {name: x[value] if isinstance(value, slice) else value for name, value in said.items()}
    assert tuple(guard.fit(x[:300], **told).detector_.weights) == GUARD_SCORES
    assert guard.set_params(detector="entropy").fit(x[:300], **told).detector_.kind == "entropy"


@pytest.mark.parametrize("detector", CIRCUIT_SCORES)
def test_a_score_of_the_circuit_needs_nothing_of_the_kind(detector: str) -> None:
    x, y = generated(600, 1)
    guard = CircuitGuard(forest(x, y), detector=detector, density=QUICK, random_state=0).fit(x)
    assert guard.detector_.weights[detector] == 1.0


def test_entropy_alone_is_refused_on_rows_that_the_model_may_know() -> None:
    x, y = generated(600, 1)
    with pytest.raises(
        ValueError,
        match="detector='entropy' must be calibrated on rows that the model was not trained on: give such rows as "
        "held_out, or say unseen=True",
    ):
        CircuitGuard(forest(x, y), detector="entropy", density=QUICK).fit(x)


def test_a_row_without_an_answer_is_refused_also_by_the_circuit_alone() -> None:
    x, _ = generated(600, 0)

    def model(rows: np.ndarray) -> np.ndarray:
        return np.where(np.abs(rows[:, :1]) > 50.0, np.nan, halves(rows))

    guard = CircuitGuard(model, detector="profile", density=QUICK, random_state=0).fit(x)
    guard.model = lambda rows: np.full((len(rows), 2), np.nan)
    assert guard.reject(x).all()
    assert np.isneginf(guard.score_samples(x)).all()


@pytest.mark.filterwarnings("ignore:the guard leaves out")
@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [300, 900])
def test_no_more_familiar_rows_are_refused_by_a_guard_fitted_where_its_model_was(n_rows: int) -> None:
    x, y = load_digits(return_X_y=True)
    shares = []
    for seed in range(8):
        train, fresh = np.split(np.random.default_rng(seed).permutation(len(x)), [n_rows])
        guard = CircuitGuard(forest(x[train], y[train], seed), density=QUICK, random_state=seed).fit(x[train])
        shares.append(guard.reject(x[fresh]).mean())
    error = np.std(shares, ddof=1) / np.sqrt(len(shares))
    print(f"{n_rows} rows: {np.mean(shares):.4f} refused, standard error {error:.4f}")
    assert np.mean(shares) <= 0.06
