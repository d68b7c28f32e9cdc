from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_sample_image

import socratic
from socratic import CircuitImageClassifier
from socratic.errors import CalibrationWarning

Sets = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def digits() -> Sets:
    """Digits to train and to test on, and patches of a photograph, as bytes (N, 8, 8)."""
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.images))
    images, labels = np.round(found.images * (255 / 16)).astype(np.uint8)[order], found.target[order]
    grey = load_sample_image("china.jpg").mean(2).astype(np.uint8)
    patches = np.stack([grey[8 * place : 8 * place + 8, 8 * place : 8 * place + 8] for place in range(50)])
    return {
        "train": images[:1200],
        "labels": labels[:1200],
        "test": images[1200:],
        "truth": labels[1200:],
        "patches": patches,
    }


@pytest.fixture(scope="module")
def model(digits: Sets) -> CircuitImageClassifier:
    return CircuitImageClassifier(n_epochs=15, random_state=0).fit(digits["train"], digits["labels"])


def coloured(n: int = 300, height: int = 12, width: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Warm and cold images with a smooth pattern."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, n)
    y, x = np.mgrid[:height, :width]
    waves = np.sin(y / 3 + rng.uniform(0, 6, (n, 1, 1))) + np.cos(x / 4 + rng.uniform(0, 6, (n, 1, 1)))
    tint = np.where(labels[:, None, None, None], [40, 0, -40], [-40, 0, 40])
    return (127 + 30 * waves[..., None] + tint).clip(0, 255).astype(np.uint8), np.array(["cold", "warm"])[labels]


def test_it_reads_digits_and_refuses_what_is_none(model: CircuitImageClassifier, digits: Sets) -> None:
    assert model.score(digits["test"], digits["truth"]) > 0.9
    assert model.calibrated_
    assert model.reject(digits["test"]).mean() < 0.1
    assert model.reject(digits["patches"]).mean() > 0.9


def test_answers_have_their_shapes(model: CircuitImageClassifier, digits: Sets) -> None:
    few = digits["test"][:7]
    doubt = model.uncertainty(few)
    assert model.predict_proba(few).shape == doubt.mean.shape == doubt.std.shape == (7, 10)
    np.testing.assert_allclose(model.predict_proba(few).sum(1), 1.0, atol=1e-6)
    assert doubt.entropy.shape == doubt.mutual_information.shape == doubt.p_value.shape == (7,)
    np.testing.assert_array_equal(doubt.log_likelihood, model.score_samples(few))
    np.testing.assert_array_equal(model.reject(few), doubt.p_value <= 0.05)
    assert model.image_shape_ == (8, 8, 1)


def test_refused_images_get_the_label_for_it(digits: Sets) -> None:
    model = CircuitImageClassifier(n_epochs=3, rejected_label="?", random_state=0)
    answers = model.fit(digits["train"], digits["labels"]).predict_or_reject(digits["patches"])
    np.testing.assert_array_equal(answers == "?", model.reject(digits["patches"]))
    assert (answers == "?").any()


def test_grey_images_may_have_an_axis_for_their_channel(model: CircuitImageClassifier, digits: Sets) -> None:
    few = digits["test"][:5]
    np.testing.assert_array_equal(model.predict_proba(few), model.predict_proba(few[..., None]))
    np.testing.assert_array_equal(model.predict_proba(few), model.predict_proba(list(few)))


def test_images_asked_one_by_one_or_together_get_the_same_answer(model: CircuitImageClassifier, digits: Sets) -> None:
    few = digits["test"][:5]
    alone = np.concatenate([model.uncertainty(image[None]).p_value for image in few])
    np.testing.assert_allclose(alone, model.uncertainty(few).p_value, atol=1e-3)


def test_densities_are_in_grey_levels(digits: Sets) -> None:
    """Twice the contrast spreads the same images over twice the levels: each pixel's density is halved."""
    dark = digits["train"][:400] // 2
    models = [
        CircuitImageClassifier(n_epochs=2, random_state=0, max_shift=0).fit(images, digits["labels"][:400])
        for images in (dark, 2 * dark)
    ]
    first, second = (model.score_samples(images[:50]) for model, images in zip(models, (dark, 2 * dark), strict=True))
    np.testing.assert_allclose(first - second, 64 * np.log(2), rtol=0.01)


def test_coloured_images_are_read_as_wavelets() -> None:
    images, labels = coloured()
    model = CircuitImageClassifier(n_epochs=10, n_sums=4, random_state=0).fit(images, labels)
    assert (model.sizes_.wavelet_levels, model.sizes_.max_shift, model.image_shape_) == (2, 0, (12, 12, 3))
    assert model.encoder_.levels == 2
    assert model.score(images, labels) > 0.95
    assert set(model.predict(images[:20])) <= {"cold", "warm"}
    assert model.reject(255 - images).mean() > model.reject(images).mean()


@pytest.mark.parametrize(("side", "levels"), [(12, 2), (10, 1), (9, 0)])
def test_sides_decide_how_often_they_are_halved(side: int, levels: int) -> None:
    images, labels = coloured(40, side, 12)
    with pytest.warns(CalibrationWarning):
        model = CircuitImageClassifier(n_epochs=1, n_sums=2, random_state=0).fit(images, labels)
    assert model.sizes_.wavelet_levels == levels


def test_the_same_seed_gives_the_same_model(digits: Sets) -> None:
    def probabilities(seed: int) -> np.ndarray:
        model = CircuitImageClassifier(n_epochs=2, random_state=seed, n_sums=4)
        return model.fit(digits["train"][:300], digits["labels"][:300]).predict_proba(digits["test"][:5])

    first, again, other = probabilities(1), probabilities(1), probabilities(2)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_model_from_its_file_answers_the_same(model: CircuitImageClassifier, digits: Sets, tmp_path: Path) -> None:
    model.save(tmp_path / "model.socratic")
    again = socratic.load(tmp_path / "model.socratic")
    assert isinstance(again, CircuitImageClassifier)
    few = digits["test"][:9]
    for name in ("predict", "predict_proba", "score_samples", "reject"):
        np.testing.assert_array_equal(getattr(again, name)(few), getattr(model, name)(few))
    np.testing.assert_array_equal(again.uncertainty(few).std, model.uncertainty(few).std)
    assert again.get_params() == model.get_params()
    assert again.sizes_ == model.sizes_
    assert again.calibrated_


def test_scikit_learn_can_clone_it_and_set_its_settings() -> None:
    model = CircuitImageClassifier(n_sums=5, max_noise=3.0)
    assert clone(model).get_params() == model.get_params()
    assert clone(model).set_params(n_sums=6).n_sums == 6


def test_a_circuit_can_be_looked_at_before_it_is_trained() -> None:
    circuit = CircuitImageClassifier().build_circuit((28, 28, 1), n_classes=10)
    assert circuit.n_features == 784
    assert circuit.n_parameters == 2_092_032
    random = CircuitImageClassifier(structure="random", n_sums=4).build_circuit((8, 8, 3), n_classes=2)
    assert random.n_features == 192


def test_few_images_are_said_not_to_be_calibrated(digits: Sets) -> None:
    with pytest.warns(CalibrationWarning, match="no rows were held out to calibrate on"):
        model = CircuitImageClassifier(n_epochs=1, n_sums=2, random_state=0).fit(
            digits["train"][:60], digits["labels"][:60]
        )
    assert not model.calibrated_
    with pytest.warns(CalibrationWarning):
        assert model.reject(digits["test"]).shape == (597,)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((30, 8, 8)), np.arange(30) % 2, "images must hold bytes, uint8 from 0 to 255; got float64"),
        (np.zeros((30, 64), dtype=np.uint8), np.arange(30) % 2, "images must have the shape (N, H, W) or (N, H, W, C)"),
        (np.zeros((30, 8, 8), dtype=np.uint8), np.zeros(30), "only one class is present; got 0.0 alone"),
        (np.zeros((30, 8, 8), dtype=np.uint8), np.arange(29) % 2, "inconsistent numbers of samples: [30, 29]"),
        (np.zeros((30, 8, 8), dtype=np.uint8), np.linspace(0, 1, 30), "Unknown label type: continuous"),
    ],
    ids=["type", "shape", "classes", "length", "numbers"],
)
def test_what_cannot_be_learned_from_is_refused(images: np.ndarray, labels: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        CircuitImageClassifier().fit(images, labels)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"structure": "learnspn"}, "structure must be one of 'spatial', 'random'; got 'learnspn'"),
        ({"wavelet_levels": 1.5}, "wavelet_levels must be a whole number of at least 0; got 1.5"),
        ({"wavelet_levels": 4}, "levels must be such that the image's sides are multiples of 16; got 8 x 8 pixels"),
        ({"max_shift": -1}, "max_shift must be a whole number of at least 0; got -1"),
        ({"max_noise": -1.0}, "max_noise must be a number of at least 0; got -1.0"),
        ({"patch_size": 0}, "patch_size must be a whole number of at least 1; got 0"),
        ({"n_epochs": "many"}, "n_epochs must be one of 'auto'; got 'many'"),
        ({"leaf_dropout": 1.0}, "leaf_dropout must be a number in [0, 1); got 1.0"),
        ({"calibration_fraction": "all"}, "calibration_fraction must be one of 'auto'; got 'all'"),
        ({"min_variance": 3.0}, "a bounded variance needs 0 < min_variance < max_variance; got 3.0 and 2.0"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str, digits: Sets) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        CircuitImageClassifier(**settings).fit(digits["train"][:200], digits["labels"][:200])


def test_images_of_another_shape_are_refused(model: CircuitImageClassifier) -> None:
    with pytest.raises(ValueError, match=re.escape("images must have the shape (N, 8, 8, 1); got (2, 8, 9, 1)")):
        model.predict(np.zeros((2, 8, 9), dtype=np.uint8))
    with pytest.raises(ValueError, match=re.escape("images must have the shape (N, 8, 8, 1); got (2, 8, 8, 3)")):
        model.predict(np.zeros((2, 8, 8, 3), dtype=np.uint8))
