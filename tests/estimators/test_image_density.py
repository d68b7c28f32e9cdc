"""A density of images."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone

import socratic
from socratic import CircuitImageDensity
from tests.estimators.test_image_classifier import coloured

IMAGES, _ = coloured(120, 8, 8)


@pytest.fixture(scope="module")
def model() -> CircuitImageDensity:
    return CircuitImageDensity(n_epochs=3, n_sums=4, random_state=0).fit(IMAGES)


def test_densities_are_those_of_the_circuit_in_grey_levels(model: CircuitImageDensity) -> None:
    assert model.circuit_.n_classes == 1
    rows = model.encoder_(model.encoder_.bytes_of(IMAGES))
    with torch.no_grad():
        expected = model.circuit_.log_likelihood(rows)[:, 0].numpy() - model.encoder_.log_scale
    np.testing.assert_allclose(model.score_samples(IMAGES), expected, rtol=1e-6)
    assert model.score(IMAGES) == pytest.approx(expected.mean(), rel=1e-6)


def test_images_like_those_it_learned_are_likelier_than_their_pixels_in_another_order(
    model: CircuitImageDensity,
) -> None:
    fresh = coloured(200, 8, 8)[0][120:]
    shuffled = np.random.default_rng(0).permuted(fresh.reshape(len(fresh), 64, 3), axis=1).reshape(fresh.shape)
    assert model.score_samples(fresh).min() > model.score_samples(shuffled).max()


def test_equal_seeds_give_equal_densities(model: CircuitImageDensity) -> None:
    np.testing.assert_array_equal(clone(model).fit(IMAGES).score_samples(IMAGES), model.score_samples(IMAGES))


def test_it_comes_back_from_a_file(model: CircuitImageDensity, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = socratic.load(tmp_path / "model")
    assert isinstance(loaded, CircuitImageDensity)
    assert vars(loaded).keys() == vars(model).keys()
    np.testing.assert_array_equal(loaded.score_samples(IMAGES), model.score_samples(IMAGES))


def test_images_of_another_size_are_refused(model: CircuitImageDensity) -> None:
    with pytest.raises(ValueError, match=re.escape("images must have the shape (N, 8, 8, 3); got (5, 4, 8, 3)")):
        model.score_samples(IMAGES[:5, :4])
