from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from socratic.serve import Client, ServiceError
from tests.serve.conftest import fitted, make_fruit
from tests.serve.running import Site
from tests.serve.test_v1 import png


def test_predictions(site: Site, rows: list[dict[str, Any]]) -> None:
    heavy = {**rows[0], "weight": 900.0, "colour": "blue"}
    first, strange = Client(site.url).predict([rows[0], heavy], model="fruit", reasons=2)
    expected = fitted("forest").answer(pd.DataFrame([rows[0]]))
    assert first.label == fitted("forest").predict(pd.DataFrame([rows[0]]))[0]
    assert list(first.probabilities) == ["apple", "pear"]
    assert list(first.stds.values()) == pytest.approx(expected.uncertainty.std[0].tolist(), rel=1e-9)
    assert first.p_value == pytest.approx(expected.uncertainty.p_value[0])
    assert (strange.verdict, strange.unfamiliar, strange.unseen) == ("unfamiliar", True, ("colour",))
    assert strange.reasons[0].name == "colour"
    assert len(strange.reasons) == 2
    assert Client(site.url).predict([rows[0]], model="density")[0].label is None


def test_images(site: Site) -> None:
    import base64

    image = np.random.default_rng(0).integers(0, 255, (8, 8), dtype=np.uint8)
    found = Client(site.url).predict_image(base64.b64decode(png(image)), model="digits", rejection_rate=0.9)
    assert found.label == fitted("images").predict(image[None])[0]


def test_tables(site: Site, tmp_path: Path) -> None:
    frame, _ = make_fruit(25, seed=3)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    client = Client(site.url)
    client.predict_table(tmp_path / "rows.csv", tmp_path / "answers.csv", model="fruit", prefix="my_")
    found = pd.read_csv(tmp_path / "answers.csv")
    assert found["my_label"].tolist() == fitted("forest").predict(frame).tolist()
    frame.assign(note="=1+1").to_csv(tmp_path / "notes.csv", index=False)
    client.predict_table(tmp_path / "notes.csv", tmp_path / "harmless.csv", model="fruit", harmless=True)
    assert set(pd.read_csv(tmp_path / "harmless.csv")["note"]) == {"'=1+1"}
    with pytest.raises(ServiceError, match="model must be named"):
        client.predict_table(tmp_path / "rows.csv", tmp_path / "none.csv")
    assert not (tmp_path / "none.csv").exists()
    with pytest.raises(ValueError, match=r"must both end in \.csv or both in \.parquet; got"):
        client.predict_table(tmp_path / "rows.csv", tmp_path / "answers.parquet")


def test_models(site: Site) -> None:
    client = Client(site.url + "/")
    assert client.is_ready()
    assert client.models()[0] == "fruit"
    assert client.model("digits")["image_shape"] == [8, 8, 1]


def test_what_goes_wrong(site: Site) -> None:
    with pytest.raises(ServiceError, match="there is no column 'wieght'") as caught:
        Client(site.url).predict([{"wieght": 1.0}], model="fruit")
    assert (caught.value.status, caught.value.retry_after) == (422, None)
    nobody = Client("http://127.0.0.1:9", timeout=2.0)
    assert not nobody.is_ready()
    with pytest.raises(ServiceError, match=r"http://127\.0\.0\.1:9 was not reached"):
        nobody.models()
    with pytest.raises(ValueError, match="url must begin with http:// or https://; got 'file:///etc/passwd'"):
        Client("file:///etc/passwd")


def test_the_client_needs_nothing_but_python() -> None:
    code = "import sys, socratic.serve; print(sorted({'torch', 'numpy', 'fastapi', 'pydantic'} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"
