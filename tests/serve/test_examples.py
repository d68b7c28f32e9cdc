from __future__ import annotations

import numpy as np

from socratic import CircuitImageDensity
from socratic.serve.model import served
from tests.serve.conftest import fitted
from tests.serve.running import Site, running


def test_examples_are_pictures_that_the_model_takes(site: Site) -> None:
    examples = site.ask("/v1/examples?model=digits").json["examples"]
    assert [each["name"] for each in examples][9:] == ["a handwritten 9", "a temple", "a flower"]
    pixels = np.array([each["pixels"] for each in examples], dtype=np.uint8)
    assert pixels.shape == (12, 8, 8, 1)
    answers = site.predict(model="digits", images=pixels.tolist()).json["answers"]
    assert [answer["label"] for answer in answers] == fitted("images").predict(pixels).tolist()


def test_tables_have_none(site: Site) -> None:
    assert site.ask("/v1/examples?model=fruit").json == {"examples": []}


def test_they_have_colours_where_the_model_does() -> None:
    images = np.random.default_rng(0).integers(0, 255, (20, 4, 6, 3), dtype=np.uint8)
    with running([served("colours", CircuitImageDensity(n_epochs=1, n_sums=2, random_state=0).fit(images))]) as site:
        example = site.ask("/v1/examples").json["examples"][-1]
        assert np.array(example["pixels"]).shape == (4, 6, 3)
        assert np.ptp(np.array(example["pixels"]), axis=2).max() > 0
        pixels = [[[None, None, None]] * 6] * 4
        assert site.predict(pixels=pixels).error == "pixels must not be null: 'colours' is a density of whole images"
