from __future__ import annotations

import base64
import io
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from socratic import CircuitImageClassifier
from socratic.serve.model import ANSWER_FIELDS, served
from tests.serve.conftest import fitted
from tests.serve.running import Site

PLAIN = ("entropy", "mutual_information", "log_likelihood", "p_value")


def one(site: Site, **request: Any) -> dict[str, Any]:
    reply = site.predict(**request)
    assert reply.status == 200, reply.body
    (answer,) = reply.json["answers"]
    return dict(answer)


def test_answers_are_those_of_the_estimator(site: Site, rows: list[dict[str, Any]]) -> None:
    model = fitted("forest")
    reply = site.predict(model="fruit", rows=rows)
    answers = reply.json["answers"]
    x = pd.DataFrame(rows)
    expected = model.answer(x)
    assert [answer["label"] for answer in answers] == model.predict(x).tolist()
    assert [answer["verdict"] for answer in answers] == model.verdict(x).tolist()
    for name in PLAIN:
        np.testing.assert_allclose([a[name] for a in answers], getattr(expected.uncertainty, name), rtol=1e-9)
    shares = [[each["probability"] for each in answer["probabilities"]] for answer in answers]
    deviations = [[each["std"] for each in answer["probabilities"]] for answer in answers]
    np.testing.assert_allclose(shares, expected.probabilities, rtol=1e-9)
    np.testing.assert_allclose(deviations, expected.uncertainty.std, rtol=1e-9)
    np.testing.assert_allclose([a["risk"] for a in answers], model.risks(expected), rtol=1e-9)
    assert [answer["ambiguous"] for answer in answers] == (model.risks(expected) > 0.3).tolist()
    assert all(tuple(answer) == ANSWER_FIELDS for answer in answers)


def test_fields_that_are_left_out_are_marginalised(site: Site, rows: list[dict[str, Any]]) -> None:
    partial = {"weight": rows[0]["weight"]}
    with_nulls = {**dict.fromkeys(rows[0]), **partial}
    assert one(site, model="fruit", rows=[partial]) == one(site, model="fruit", rows=[with_nulls])
    frame = pd.DataFrame([with_nulls]).astype({"weight": float, "length": float})
    expected = fitted("forest").uncertainty(frame).log_likelihood[0]
    assert one(site, model="fruit", rows=[partial])["log_likelihood"] == pytest.approx(expected, rel=1e-9)
    assert one(site, model="fruit", rows=[{}])["verdict"] == "familiar"


def test_values_never_seen_count_against_their_row(site: Site, rows: list[dict[str, Any]]) -> None:
    strange = one(site, model="fruit", rows=[{**rows[0], "colour": "<b>blue</b>"}], reasons=2)
    assert strange["unseen"] == ["colour"]
    assert strange["reasons"][0] == {"name": "colour", "excess": None, "p_value": pytest.approx(0, abs=0.1)}
    assert one(site, model="fruit", rows=[rows[0]])["unseen"] == []
    for nothing in ("", " ", "NaN", "NA", "null"):  # as in tables
        assert one(site, model="fruit", rows=[{"colour": nothing}]) == one(site, model="fruit", rows=[{}])


def test_reasons_are_those_of_the_estimator(site: Site, rows: list[dict[str, Any]]) -> None:
    heavy = {**rows[0], "weight": 900.0}
    answer = one(site, model="fruit", rows=[heavy], reasons=3)
    (expected,) = fitted("forest").explain(pd.DataFrame([heavy])).top(3)
    assert answer["reasons"][0]["name"] == "weight"
    assert [reason["name"] for reason in answer["reasons"]] == [reason.name for reason in expected]
    assert answer["verdict"] == "unfamiliar"
    assert answer["unfamiliar"] is True
    assert one(site, model="fruit", rows=[heavy])["reasons"] is None


def test_a_request_may_choose_rate_and_risk(site: Site, rows: list[dict[str, Any]]) -> None:
    verdicts = {
        rate: [a["verdict"] for a in site.predict(model="fruit", rows=rows, rejection_rate=rate).json["answers"]]
        for rate in (0.0, 0.5)
    }
    assert verdicts[0.0].count("unfamiliar") == 0
    assert 8 <= verdicts[0.5].count("unfamiliar") <= 32
    careful = site.predict(model="fruit", rows=rows, risk=0.001).json
    assert {a["verdict"] for a in careful["answers"]} <= {"ambiguous", "unfamiliar"}
    assert "every row is ambiguous" in careful["notes"][0]


def test_a_request_may_choose_doubt(site: Site, rows: list[dict[str, Any]]) -> None:
    reply = site.predict(model="trees", rows=rows[:3], doubt="dropout", dropout=0.3).json
    model = fitted("trees")
    before = model.doubt, model.dropout_
    try:
        model.doubt, model.dropout_ = "dropout", 0.3
        expected = model.uncertainty(pd.DataFrame(rows[:3]))
    finally:
        model.doubt, model.dropout_ = before
    found = [[each["std"] for each in answer["probabilities"]] for answer in reply["answers"]]
    np.testing.assert_allclose(found, expected.std, rtol=1e-9)
    assert "calibrated for doubt='weights'" in reply["notes"][0]


def test_detectors_and_densities_have_no_label(site: Site, rows: list[dict[str, Any]]) -> None:
    x = pd.DataFrame(rows)
    odd = site.predict(model="odd", rows=rows).json["answers"]
    np.testing.assert_allclose([a["p_value"] for a in odd], fitted("detector").p_value(x), rtol=1e-9)
    assert [a["verdict"] == "familiar" for a in odd] == (fitted("detector").predict(x) == 1).tolist()
    assert {a["label"] for a in odd} == {None}
    density = site.predict(model="density", rows=rows).json["answers"]
    np.testing.assert_allclose([a["log_likelihood"] for a in density], fitted("density").score_samples(x), rtol=1e-9)
    assert {(a["label"], a["p_value"], a["verdict"]) for a in density} == {(None, None, None)}


def png(pixels: np.ndarray) -> str:
    import PIL.Image

    content = io.BytesIO()
    PIL.Image.fromarray(pixels).save(content, "PNG")
    return base64.b64encode(content.getvalue()).decode()


def test_images(site: Site) -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, (8, 8), dtype=np.uint8)
    expected = fitted("images").answer(image[None])
    for request in ({"image": png(image)}, {"pixels": image.tolist()}):
        answer = one(site, model="digits", **request)
        assert answer["log_likelihood"] == pytest.approx(expected.uncertainty.log_likelihood[0], rel=1e-5)
        assert answer["label"] == int(expected.probabilities.argmax())
    large = png(rng.integers(0, 255, (20, 30), dtype=np.uint8))
    assert one(site, model="digits", image=large, resize=True, reasons=1)["reasons"][0]["name"].startswith("rows ")
    assert site.predict(model="digits", image=large).error == (
        "image has 20 x 30 pixels, and the model was trained on 8 x 8; resize it, or send resize: true"
    )


def test_several_images(site: Site) -> None:
    images = np.random.default_rng(1).integers(0, 255, (3, 8, 8), dtype=np.uint8)
    answers = site.predict(model="digits", images=images.tolist()).json["answers"]
    expected = fitted("images").uncertainty(images).log_likelihood
    np.testing.assert_allclose([answer["log_likelihood"] for answer in answers], expected, rtol=1e-5)


def test_heat(site: Site) -> None:
    image = np.random.default_rng(0).integers(0, 255, (8, 8), dtype=np.uint8)
    answer = one(site, model="digits", pixels=image.tolist(), heat=True)
    np.testing.assert_allclose(answer["heat"], fitted("images").explain(image[None]).heat[0], rtol=1e-4)
    assert answer["reasons"] is None
    assert one(site, model="digits", pixels=image.tolist())["heat"] is None


def test_missing_pixels_are_marginalised(site: Site) -> None:
    model = fitted("images")
    image = np.random.default_rng(0).integers(0, 255, (8, 8), dtype=np.uint8)
    pixels: Any = image.tolist()
    pixels[5] = [None] * 8
    answer = one(site, model="digits", pixels=pixels, reasons=2, heat=True)
    x = model.encoder_(model.encoder_.bytes_of(image[None, ..., None]))
    x[:, 40:48] = np.nan
    expected = model.answer_rows(x)
    assert [each["probability"] for each in answer["probabilities"]] == pytest.approx(
        expected.probabilities[0], rel=1e-4
    )
    assert [each["std"] for each in answer["probabilities"]] == pytest.approx(expected.uncertainty.std[0], rel=1e-4)
    for name in ("log_likelihood", "p_value", "risk", "unfamiliar", "ambiguous", "verdict", "reasons", "heat"):
        assert answer[name] is None  # familiar images miss no pixels
    nothing = one(site, model="digits", pixels=[[None] * 8] * 8)
    shares = [each["probability"] for each in nothing["probabilities"]]
    assert shares == pytest.approx(model.class_prior_, abs=1e-5)
    whole, partly = site.predict(model="digits", images=[image.tolist(), pixels]).json["answers"]
    assert whole["p_value"] is not None
    assert partly["p_value"] is None


def test_a_wavelet_misses_its_whole_block() -> None:
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 255, (60, 4, 4, 3), dtype=np.uint8), rng.integers(0, 2, 60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CircuitImageClassifier(n_epochs=1, n_sums=2, wavelet_levels=1, random_state=0).fit(images, labels)
    masked = np.ma.array(images[:1], mask=False)
    masked[0, 1, 2] = np.ma.masked
    missing = served("colours", model).encode(masked).isnan().reshape(3, 4, 4).numpy()
    expected = np.zeros((4, 4), dtype=bool)
    expected[:2, 2:] = True
    assert all(np.array_equal(channel, expected) for channel in missing)


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        ({"rows": [{"wieght": 1.0}]}, 422, "rows[0]: there is no column 'wieght'; did you mean 'weight'?"),
        ({"rows": [{}, {"<script>": 1}]}, 422, "rows[1]: there is no column '<script>'; known are 'weight', 'length'"),
        (
            {"rows": [{"weight": "150"}]},
            422,
            "column 'weight' takes a number, or null; got '150' (write numbers",
        ),
        ({"rows": [{"weight": True}]}, 422, "column 'weight' takes a number, or null; got True"),
        ({"rows": [{"weight": [1]}]}, 422, "column 'weight' takes a number, or null; got [1]"),
        ({"rows": [{"weight": 10**400}]}, 422, "column 'weight' takes finite numbers; got 1000"),
        (
            {"rows": [{"weight": float("nan")}]},
            422,
            "column 'weight' takes finite numbers; got nan: correct it",
        ),
        ({"rows": [{"weight": float("inf")}]}, 422, "column 'weight' takes finite numbers; got inf"),
        ({"rows": [{"colour": 3}]}, 422, "column 'colour' takes text, or null; got 3"),
        ({"rows": [{"colour": "\ud800"}]}, 422, "column 'colour' holds half of a surrogate pair"),
        ({"rows": [{"organic": "true"}]}, 422, "column 'organic' takes true or false, or null; got 'true'"),
        ({"rows": [3]}, 422, "rows.0: Input should be a valid dictionary"),
        ({"rows": []}, 422, "rows must hold at least one; got none"),
        ({"rows": [{}] * 1001}, 413, "rows must hold at most 1000; got 1001: send fewer at a time"),
        ({}, 422, "one of rows, image, pixels and images must be there; got none of them"),
        ({"rows": [{}], "image": ""}, 422, "one of rows, image, pixels and images must be there; got rows and image"),
        ({"image": "AAAA"}, 422, "model 'fruit' answers rows of a table; send rows, without an image or resize"),
        ({"rows": [{}], "rate": 0.1}, 422, "there is no field 'rate'; known are 'model', 'rows'"),
        ({"rows": [{}], "rejection_rate": "0.1"}, 422, "rejection_rate: Input should be a valid number"),
        ({"rows": [{}], "rejection_rate": 1.0}, 422, "rejection_rate: Input should be less than 1"),
        ({"rows": [{}], "doubt": "all"}, 422, "doubt: Input should be 'weights' or 'dropout'"),
        ({"rows": [{}], "dropout": 0.1}, 422, "dropout is for doubt='dropout'; got doubt='weights': send both"),
        ({"rows": [{}], "doubt": "dropout"}, 422, "doubt='dropout' is for circuits with sums to drop from"),
        ({"rows": [{}], "model": "fruits"}, 404, "there is no model 'fruits'; did you mean 'fruit'?"),
        ({"rows": [{}], "model": None}, 422, "model must be named: 'fruit', 'trees', 'odd', 'density', 'digits'"),
        ({"rows": [{}], "model": "odd", "risk": 0.1}, 422, "risk is not for this model: 'odd' is an outlier detector"),
        ({"rows": [{}], "model": "digits"}, 422, "model 'digits' answers images; send image, or pixels"),
        ({"image": "no base64!", "model": "digits"}, 422, "image must be a file in base64; it holds something else"),
        ({"image": "AAAA", "model": "digits"}, 422, "image is damaged or none of PNG, JPEG"),
        ({"pixels": [[1, 2], [3]], "model": "digits"}, 422, "pixels must be lists of rows of pixels"),
        ({"pixels": [[0.5] * 8] * 8, "model": "digits"}, 422, "each a whole number from 0 to 255"),
        ({"pixels": [[None, True]], "model": "digits"}, 422, "each a whole number from 0 to 255, or null"),
        ({"pixels": [[None, [1]]], "model": "digits"}, 422, "each a whole number from 0 to 255, or null"),
        ({"images": [[[1]], [[1, 2]]], "model": "digits"}, 422, "images must have one shape; got (1, 1) and (1, 2)"),
        ({"images": [], "model": "digits"}, 422, "images must hold at least one; got none"),
        ({"rows": [{}], "heat": True}, 422, "heat is for images, and 'fruit' answers rows of a table; send reasons"),
        ({"pixels": [[1]], "model": "digits"}, 422, "images must have the shape (N, 8, 8, 1) and hold bytes"),
    ],
)
def test_requests_that_cannot_be_answered(site: Site, request_: dict[str, Any], status: int, message: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reply = site.predict(**{"model": "fruit", **request_})
    assert (reply.status, message in reply.error) == (status, True), reply.body


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"rows": [' + b"[" * 5000, b"\xff\xfe", b"1e999"])
def test_bodies_that_are_no_request(site: Site, body: bytes) -> None:
    reply = site.ask("/v1/predict", body)
    assert reply.status in (400, 422)
    assert "Traceback" not in reply.error


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonp"])
def test_bodies_of_other_types(site: Site, kind: str) -> None:
    reply = site.ask("/v1/predict", b'{"model": "fruit", "rows": [{}]}', content_type=kind)
    assert (reply.status, reply.error) == (415, f"the content type must be application/json; got {kind!r}")
    for right in ("application/json; charset=utf-8", "Application/JSON", "application/problem+json"):
        assert site.ask("/v1/predict", b'{"model": "fruit", "rows": [{}]}', content_type=right).status == 200


def test_options_that_do_not_exist(site: Site) -> None:
    for path in ("/v1/model?modle=fruit", "/v1/drift?modle=fruit", "/v1/examples?modle=digits"):
        reply = site.ask(path)
        assert (reply.status, reply.error) == (422, "there is no option 'modle'; did you mean 'model'?")
    assert site.ask("/v1/predict?rejection_rate=0.5", {"model": "fruit", "rows": [{}]}).status == 422


def test_models_describe_themselves(site: Site) -> None:
    assert site.ask("/v1/models").json == {"models": ["fruit", "trees", "odd", "density", "digits"]}
    fruit = site.ask("/v1/model?model=fruit").json
    assert (fruit["kind"], fruit["takes"], fruit["classes"]) == ("classifier", "rows", ["apple", "pear"])
    columns = {column["name"]: column for column in fruit["columns"]}
    assert columns["weight"]["takes"] == ["number"]
    assert columns["colour"]["categories"] == ["green", "red", "yellow"]
    assert columns["organic"]["takes"] == ["boolean"]
    assert columns["label id"]["left_out"]
    assert columns["colour"]["typical"] in ("green", "red")
    low, high = columns["weight"]["range"]
    assert low < 120.0 < columns["weight"]["typical"] < 210.0 < high
    assert site.ask("/v1/model?model=digits").json["image_shape"] == [8, 8, 1]
    assert site.ask("/v1/model?model=nothing").status == 404


@pytest.mark.parametrize("name", ["fruit", "trees", "odd"])
@pytest.mark.parametrize("value", [1e39, 1e100, 1.7e308])
def test_numbers_that_are_out_of_range_are_refused_as_unfamiliar(
    site: Site, rows: list[dict[str, Any]], name: str, value: float
) -> None:
    """Their squares are infinite: what cannot be computed of them must not stop the answer."""
    reply = site.ask("/v1/predict", {"model": name, "rows": [{**rows[0], "weight": value}]})
    assert reply.status == 200, reply.body
    assert reply.json["answers"][0]["verdict"] == "unfamiliar"
