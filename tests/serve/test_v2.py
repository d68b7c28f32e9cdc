from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from socratic.serve.tensors import packed, unpacked
from tests.serve.conftest import fitted
from tests.serve.running import Reply, Site

Rows = list[dict[str, Any]]


def tensor(name: str, kind: str, values: list[Any], *more: int) -> dict[str, Any]:
    return {"name": name, "datatype": kind, "shape": [len(values), *more], "data": values}


def columns(rows: Rows) -> list[dict[str, Any]]:
    kinds = {"weight": "FP64", "length": "FP64", "colour": "BYTES", "organic": "BOOL"}
    return [tensor(name, kind, [row[name] for row in rows]) for name, kind in kinds.items()]


def infer(site: Site, model: str = "fruit", **request: Any) -> Reply:
    return site.ask(f"/v2/models/{model}/infer", request)


def outputs(reply: Reply) -> dict[str, Any]:
    assert reply.status == 200, reply.body
    return {each["name"]: np.array(each["data"]).reshape(each["shape"]) for each in reply.json["outputs"]}


def test_answers_are_those_of_v1(site: Site, rows: Rows) -> None:
    found = outputs(infer(site, id="seven", inputs=columns(rows)))
    answers = site.predict(model="fruit", rows=[{**row, "label id": None} for row in rows]).json["answers"]
    for name in ("label", "entropy", "p_value", "risk", "verdict", "log_likelihood"):
        assert found[name].tolist() == [answer[name] for answer in answers]
    shares = [[each["probability"] for each in answer["probabilities"]] for answer in answers]
    assert found["probabilities"].tolist() == shares
    assert infer(site, id="seven", inputs=columns(rows)).json["id"] == "seven"


def test_some_outputs_and_other_rates(site: Site, rows: Rows) -> None:
    request = {"inputs": columns(rows), "outputs": [{"name": "verdict"}], "parameters": {"rejection_rate": 0.0}}
    found = outputs(infer(site, **request))
    assert set(found) == {"verdict"}
    assert "unfamiliar" not in found["verdict"]


def test_one_tensor_for_all_columns(site: Site) -> None:
    """As clients send an array: booleans are 0 and 1, and NaN, which JSON has as null, is missing."""
    values = [[150.0, None, None, 1, None], [None, 7.0, None, 0, None]]
    request = {"name": "rows", "datatype": "FP64", "shape": [2, 5], "data": values}
    found = outputs(infer(site, inputs=[request]))
    answers = site.predict(
        model="fruit", rows=[{"weight": 150.0, "organic": True}, {"length": 7.0, "organic": False}]
    ).json["answers"]
    assert found["log_likelihood"].tolist() == [answer["log_likelihood"] for answer in answers]


def test_images_and_densities(site: Site, rows: Rows) -> None:
    images = np.random.default_rng(0).integers(0, 255, (3, 8, 8), dtype=np.uint8)
    request = {"name": "images", "datatype": "UINT8", "shape": [3, 8, 8, 1], "data": images.ravel().tolist()}
    found = outputs(infer(site, "digits", inputs=[request]))
    assert found["label"].tolist() == fitted("images").predict(images).tolist()
    metadata = site.ask("/v2/models/digits").json
    assert metadata["inputs"] == [{"name": "images", "datatype": "UINT8", "shape": [-1, 8, 8, 1]}]
    density = outputs(infer(site, "density", inputs=columns(rows)))
    assert set(density) == {"log_likelihood", "log_std", "p_value", "verdict"}


def test_metadata(site: Site) -> None:
    assert site.ask("/v2").json["extensions"] == ["binary_tensor_data"]
    assert site.ask("/v2/health/live").status == site.ask("/v2/health/ready").status == 200
    assert site.ask("/v2/models/fruit/ready").json == {"name": "fruit", "ready": True}
    inputs = {each["name"]: each["datatype"] for each in site.ask("/v2/models/fruit").json["inputs"]}
    assert inputs == {"weight": "FP64", "length": "FP64", "colour": "BYTES", "organic": "BOOL", "label id": "BYTES"}


def binary(document: dict[str, Any], *contents: bytes) -> tuple[bytes, str]:
    head = json.dumps(document).encode()
    return b"".join([head, *contents]), str(len(head))


def test_bytes_in_and_out(site: Site) -> None:
    weights, colours = packed("FP32", [150.0, None]), packed("BYTES", ["red", "green"])
    inputs = [
        {"name": "weight", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": len(weights)}},
        {"name": "colour", "datatype": "BYTES", "shape": [2, 1], "parameters": {"binary_data_size": len(colours)}},
    ]
    wanted = [{"name": "p_value", "parameters": {"binary_data": True}}, {"name": "label"}]
    body, length = binary({"inputs": inputs, "outputs": wanted}, weights, colours)
    reply = site.ask("/v2/models/fruit/infer", body, Inference_Header_Content_Length=length)
    n_json = int(reply.headers["inference-header-content-length"])
    p_value, label = json.loads(reply.body[:n_json])["outputs"]
    assert p_value["parameters"] == {"binary_data_size": 16}
    expected = site.predict(model="fruit", rows=[{"weight": 150.0, "colour": "red"}, {"colour": "green"}]).json
    assert unpacked("FP64", reply.body[n_json:], "") == [answer["p_value"] for answer in expected["answers"]]
    assert label["data"] == [answer["label"] for answer in expected["answers"]]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "inputs: List should have at least 1 item"),
        ([tensor("wieght", "FP64", [1.0]), tensor("length", "FP64", [1.0])], "there is no column 'wieght'"),
        ([tensor("x", "FP64", [1.0])], "input 'x' must name a column, or have the shape (N, 5) for all of them"),
        ([tensor("weight", "BYTES", ["150"])], "column 'weight' takes a number, or null; got '150'"),
        ([tensor("weight", "FP64", [1.0], 2)], "input 'weight': the shape [1, 2] has 2 entries; got 1"),
        ([tensor("weight", "FP16", [1.0])], "input 'weight': the datatype must be BOOL or FP32 or FP64"),
        ([tensor("weight", "INT8", [128])], "INT8 are whole numbers from -128 to 127; got 128"),
        ([tensor("weight", "UINT8", [-1])], "UINT8 are whole numbers from 0 to 255; got -1"),
        ([tensor("weight", "INT64", [1.5])], "got 1.5"),
        ([tensor("weight", "INT64", [float("nan")])], "got nan"),
        ([tensor("weight", "FP64", [{}])], "column 'weight' takes a number, or null; got {}"),
        ([tensor("weight", "FP64", [1.0]), tensor("length", "FP64", [1.0, 2.0])], "as many rows as each other"),
        ([tensor("weight", "FP64", [1.0]), tensor("weight", "FP64", [1.0])], "input 'weight' must be there once"),
        ([{**tensor("weight", "FP64", []), "shape": [10**9]}], "inputs must have at most 1000 rows"),
        ([{**tensor("weight", "FP64", []), "shape": [-1]}], "the shape [-1] is negative or too large"),
        ([{**tensor("weight", "FP64", [1.0]), "parameters": {"binary_data_size": 9}}], "a length within the body"),
    ],
)
def test_inputs_that_cannot_be_answered(site: Site, inputs: list[Any], message: str) -> None:
    reply = infer(site, inputs=inputs)
    assert reply.status in (400, 413, 422)
    assert message in reply.error


def test_bodies_that_are_no_request(site: Site, rows: Rows) -> None:
    path = "/v2/models/fruit/infer"
    assert site.ask(path, b"{").error == "the body is no JSON"
    assert site.ask(path, b"{}", Inference_Header_Content_Length="99").status == 400
    body, length = binary({"inputs": columns(rows)}, b"more")
    reply = site.ask(path, body, Inference_Header_Content_Length=length)
    assert reply.error == "4 bytes follow the last input, which none of them has"
    assert infer(site, inputs=columns(rows), outputs=[{"name": "labels"}]).error == (
        "there is no output 'labels'; did you mean 'label'?"
    )
    assert infer(site, inputs=columns(rows), parameters={"doubt": "all"}).status == 422
    assert infer(site, "nothing", inputs=columns(rows)).status == 404


def test_texts_that_end_too_early() -> None:
    with pytest.raises(ValueError, match="input 'a': its bytes end within an entry"):
        unpacked("BYTES", b"\x05\x00\x00\x00abc", "input 'a'")
    with pytest.raises(ValueError, match="an entry is not UTF-8 text"):
        unpacked("BYTES", b"\x01\x00\x00\x00\xff", "input 'a'")
    with pytest.raises(ValueError, match="3 bytes are no FP32 entries of 4 bytes each"):
        unpacked("FP32", b"abc", "input 'a'")


@pytest.mark.slow
def test_an_unmodified_client_of_triton(site: Site, rows: Rows) -> None:
    http = pytest.importorskip("tritonclient.http")
    client = http.InferenceServerClient(site.url.removeprefix("http://"))
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("fruit")
    assert client.get_model_metadata("fruit")["platform"] == "socratic"
    for is_binary in (True, False):
        inputs = []
        for name, kind, dtype in (
            ("weight", "FP64", np.float64),
            ("colour", "BYTES", object),
            ("organic", "BOOL", bool),
        ):
            values = np.array([row[name] for row in rows], dtype=dtype).reshape(-1, 1)
            inputs.append(http.InferInput(name, list(values.shape), kind))
            inputs[-1].set_data_from_numpy(values, binary_data=is_binary)
        asked = [{name: row[name] for name in ("weight", "colour", "organic")} for row in rows]
        expected = site.predict(model="fruit", rows=asked).json["answers"]
        wanted = [
            http.InferRequestedOutput(name, binary_data=is_binary) for name in ("label", "p_value", "probabilities")
        ]
        for result in (client.infer("fruit", inputs), client.infer("fruit", inputs, outputs=wanted)):
            labels = [label.decode() if isinstance(label, bytes) else label for label in result.as_numpy("label")]
            assert labels == [answer["label"] for answer in expected]
            assert result.as_numpy("p_value").tolist() == [answer["p_value"] for answer in expected]
            assert result.as_numpy("probabilities").shape == (len(rows), 2)
    client.close()
