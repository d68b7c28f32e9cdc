"""The playground of a real server in a real browser: pictures, tables, keyboard, phone, and those who wish it ill."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pandas as pd
import PIL.Image
import pytest
from sklearn.datasets import load_sample_image

from socratic import CircuitClassifier, CircuitDensity, CircuitImageDensity, CircuitOutlierDetector
from socratic.serve.model import served
from tests.browser.conftest import OpenPage, Picture, overflow, violations
from tests.serve.running import Site, running

UNKNOWN_PICTURE = "I don't know this picture."
TOKEN = "a-token-that-is-long-enough"
HOSTILE = "<img src=x onerror=\"document.title='hit'\">"
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


def wait_for(page: Any, words: str) -> None:
    """Wait until the model says some words."""
    page.locator(".verdict-words", has_text=words).wait_for()


def shares(page: Any) -> list[float]:
    """The class probabilities that the bars show, in percent."""
    numbers = page.locator(".bar-number").all_inner_texts()
    return [float(re.match(r"[\d.]+", number)[0]) for number in numbers]  # type: ignore[index]


def choose(page: Any, name: str) -> None:
    page.get_by_label("Model", exact=True).select_option(name)
    page.get_by_role("heading", name="The row").wait_for()


def stroke(page: Any, *places: tuple[float, float]) -> None:
    """Draw a line through places of the canvas, from 0 to 1 in both directions."""
    box = page.locator(".picture-card canvas.picture").bounding_box()
    points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in places]
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point, steps=4)
    page.mouse.up()


def test_draw_a_digit(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.url)
    wait_for(page, "It is 3.")
    assert sum(shares(page)) == pytest.approx(100.0, abs=1.0)
    page.get_by_role("button", name="Empty").click()
    stroke(page, (0.53, 0.06), (0.53, 0.94))
    page.locator(".bar.best .bar-label", has_text="1").wait_for()
    before = shares(page)
    page.get_by_text("Cover", exact=True).first.click()  # a pen
    stroke(page, (0.1, 0.8), (0.9, 0.8))
    page.get_by_text("Missing pixels are marginalised").wait_for()
    assert page.locator(".pill").count() == 0
    assert shares(page) != before
    page.get_by_text("Wipe").click()
    stroke(page, (0.1, 0.8), (0.9, 0.8))
    page.locator(".pill").wait_for()


def test_an_empty_picture_is_no_question(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.url)
    wait_for(page, "It is 3.")
    page.get_by_role("row", name="Monte Carlo dropout, 100 passes").wait_for()
    page.get_by_role("img", name=re.compile("^Turn: ")).wait_for()
    page.get_by_role("button", name="Empty").click()
    wait_for(page, "The picture is empty.")
    for shown in (".bar", ".pill", ".gauge", ".reasons li", ".curve svg", ".compare tbody tr"):
        page.locator(shown).first.wait_for(state="detached")
    assert violations(page) == []
    page.get_by_role("slider", name="Cover").fill("50")  # half of it is missing, and half empty
    page.get_by_text("Missing pixels are marginalised").wait_for()
    page.get_by_role("slider", name="Cover").fill("0")
    wait_for(page, "The picture is empty.")
    page.get_by_role("button", name="Show a handwritten 0").click()
    wait_for(page, "It is 0.")
    page.get_by_role("row", name="Monte Carlo dropout, 100 passes").wait_for()


def test_turn_it_and_the_verdict_changes(site: Site, open_page: OpenPage, picture: Picture) -> None:
    page = open_page(site.url, viewport={"width": 1160, "height": 1300})
    wait_for(page, "It is 3.")
    page.locator(".pill", has_text="familiar").wait_for()
    page.get_by_role("row", name="Monte Carlo dropout, 100 passes").wait_for()
    page.get_by_role("slider", name="Turn").fill("40")
    wait_for(page, UNKNOWN_PICTURE)
    page.locator(".pill", has_text="✕ unfamiliar").wait_for()
    curve = page.get_by_role("img", name=re.compile("^Turn: 3 from 0° to .*, refused from "))
    assert curve.locator("rect").count() > 5
    assert page.locator(".reasons li").count() == 3
    assert violations(page) == []
    page.wait_for_load_state("networkidle")
    picture(page, "playground")
    page.get_by_role("slider", name="Blur").fill("1")
    page.get_by_role("img", name=re.compile("^Blur: ")).wait_for()
    page.get_by_role("slider", name="Noise").fill("30")
    page.get_by_role("img", name=re.compile("^Noise: ")).wait_for()


def test_five_ways_to_doubt(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.url)
    rows = page.locator(".compare tbody tr")
    rows.nth(4).wait_for()
    times = [float(text.split()[0]) for text in page.locator(".compare td.time").all_inner_texts()]
    assert len(times) == 5
    assert times[4] == max(times)
    with page.expect_response("**/v1/compare") as reply:
        page.get_by_role("slider", name="Dropout rate").fill("0")
    ways = {way["name"]: way["probabilities"] for way in reply.value.json()["ways"]}
    for way in ("TDI, exact", "Monte Carlo dropout, 100 passes"):  # without dropout, there is nothing to doubt
        assert [each["std"] for each in ways[way]] == pytest.approx([0.0] * 10, abs=1e-6)


def png(pixels: np.ndarray) -> bytes:
    content = io.BytesIO()
    PIL.Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


def test_upload_any_picture(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.url)
    wait_for(page, "It is 3.")
    flower = {"name": "flower.png", "mimeType": "image/png", "buffer": png(load_sample_image("flower.jpg"))}
    page.locator("#file").set_input_files(files=[flower])
    wait_for(page, UNKNOWN_PICTURE)
    page.locator("#file").set_input_files(files=[{**flower, "name": HOSTILE, "buffer": b"no picture"}])
    page.get_by_role("alert").wait_for()
    assert page.get_by_role("alert").inner_text() == f"{HOSTILE} is no picture that this browser can read."
    page.get_by_role("button", name="Show a handwritten 0").click()
    wait_for(page, "It is 0.")
    assert page.locator("#trouble").text_content() == ""


def test_a_table(site: Site, open_page: OpenPage, picture: Picture) -> None:
    page = open_page(site.url, viewport={"width": 1160, "height": 900})
    choose(page, "irises")
    length = page.get_by_role("spinbutton", name="petal length (cm)")
    length.fill("1.4")
    page.get_by_role("spinbutton", name="petal width (cm)").fill("0.2")
    page.get_by_role("spinbutton", name="sepal length (cm)").fill("5.0")
    page.get_by_role("spinbutton", name="sepal width (cm)").fill("3.4")
    wait_for(page, "It is setosa.")
    length.fill("12")
    wait_for(page, "I don't know this row.")
    field = page.get_by_role("group", name="petal length (cm)")
    field.get_by_text("speaks against the row").wait_for()
    page.get_by_text("there are no sums to drop from").first.wait_for()
    page.wait_for_load_state("networkidle")
    picture(page, "playground-table")
    with page.expect_request(
        lambda request: request.url.endswith("/predict") and '"reasons"' in request.post_data
    ) as asked:
        field.get_by_label("unknown").check()
    assert asked.value.post_data_json["rows"][0]["petal length (cm)"] is None
    wait_for(page, "It is setosa.")
    page.get_by_role("button", name="All unknown").click()
    page.wait_for_function("document.querySelectorAll('.bar').length === 3")
    field.get_by_label("petal length (cm), as a slider").fill("5.5")
    assert not field.get_by_label("unknown").is_checked()
    page.get_by_role("img", name=re.compile(r"^petal length \(cm\): ")).wait_for()
    assert violations(page) == []


def tab_to(page: Any, condition: str) -> None:
    """Press the tab key until the element that has the focus is the wanted one."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(f"document.activeElement.matches({condition!r})"):
            return
    raise AssertionError(f"no tab leads to {condition}")


def test_by_keyboard_alone(site: Site, open_page: OpenPage) -> None:
    page = open_page(site.url)
    wait_for(page, "It is 3.")
    tab_to(page, "canvas")
    before = page.evaluate("document.activeElement.toDataURL()")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.toDataURL()") != before
    tab_to(page, "#file")
    tab_to(page, "#knob-turn")
    for _ in range(5):
        page.keyboard.press("PageUp")
    wait_for(page, UNKNOWN_PICTURE)
    tab_to(page, "button[aria-label='Show a handwritten 0']")
    page.keyboard.press("Enter")
    tab_to(page, "#dropout")
    page.locator("#spoken", has_text="It looks most like").wait_for()  # what screen readers say
    for _ in range(60):
        page.keyboard.press("Shift+Tab")
        if page.evaluate("document.activeElement.id") == "model":
            break
    page.keyboard.press("ArrowDown")
    page.get_by_role("heading", name="The row").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(site: Site, open_page: OpenPage, scheme: str) -> None:
    page = open_page(site.url, **PHONE, color_scheme=scheme)
    wait_for(page, "It is 3.")
    page.locator(".compare tbody tr").nth(4).wait_for()
    assert overflow(page) <= 0
    assert violations(page) == []
    page.locator(".picture-card canvas.picture").tap()
    page.get_by_role("button", name="Show a handwritten 6").tap()
    page.locator("#below", has_text="It is 6.").wait_for()  # in sight wherever the page is scrolled to
    choose(page, "irises")
    page.locator(".bar").nth(2).wait_for()
    assert overflow(page) <= 0
    assert violations(page) == []


def test_names_are_text_and_nothing_else(open_page: OpenPage) -> None:
    rng = np.random.default_rng(0)
    y = np.where(rng.random(200) < 0.5, HOSTILE, "</script>" + HOSTILE)
    numbers = rng.standard_normal(200) + 3.0 * (y == HOSTILE)
    frame = pd.DataFrame({HOSTILE: numbers, f"b{HOSTILE}": np.where(rng.random(200) < 0.5, HOSTILE, "'\"><b>x")})
    with running([served("odd", CircuitClassifier(random_state=0).fit(frame, y))]) as site:
        page = open_page(site.url, **PHONE)
        page.locator(".bar-label", has_text=HOSTILE).first.wait_for()
        page.locator(".field-name", has_text=HOSTILE).first.wait_for()
        page.get_by_role("spinbutton", name=HOSTILE).first.fill("99")
        wait_for(page, "I don't know this row.")
        page.locator(".curve svg").wait_for()
        assert page.title() == "socratic playground"
        assert page.locator("img").count() == 1  # the brand
        assert page.locator("main b").count() == 0
        assert overflow(page) <= 0


def test_models_without_classes(open_page: OpenPage) -> None:
    rng = np.random.default_rng(0)
    detector = CircuitOutlierDetector(random_state=0).fit(pd.DataFrame({"a": rng.standard_normal(200)}))
    images = rng.integers(0, 255, (40, 4, 6, 3), dtype=np.uint8)
    density = CircuitImageDensity(n_epochs=1, n_sums=2, random_state=0).fit(images)
    with running([served("odd", detector), served("colours", density)]) as site:
        page = open_page(site.url)
        wait_for(page, "I know such rows.")
        page.get_by_role("spinbutton", name="a", exact=True).fill("30")
        wait_for(page, "I don't know this row.")
        page.get_by_role("img", name=re.compile("^a: refused from ")).wait_for()
        page.get_by_label("Model", exact=True).select_option("colours")
        page.get_by_role("heading", name="The picture").wait_for()
        wait_for(page, "This is how likely it is.")
        assert page.get_by_text("Cover").count() == 0  # a density is of whole images
        before = page.get_by_text("log p(x) = ").inner_text()
        stroke(page, (0.2, 0.2), (0.8, 0.8))
        page.wait_for_function("before => !document.body.innerText.includes(before)", arg=before)


def test_a_token_is_asked_for_and_an_end_is_told_of(forgiving_page: OpenPage) -> None:
    x = pd.DataFrame({"a": np.random.default_rng(0).standard_normal(200)})
    with running([served("numbers", CircuitDensity(n_epochs=1, random_state=0).fit(x))], token=TOKEN) as guarded:
        page = forgiving_page(guarded.url)
        field = page.get_by_label("This server needs its token")
        field.fill("wrong")
        page.get_by_role("button", name="Open").click()
        page.get_by_text("This is not the token of the server.").wait_for()
        field.fill(TOKEN)
        page.get_by_role("button", name="Open").click()
        wait_for(page, "This is how likely it is.")
        assert not field.is_visible()
        assert violations(page) == []
    page.get_by_role("button", name="All unknown").click()
    page.get_by_text("The server cannot be reached.").wait_for()
