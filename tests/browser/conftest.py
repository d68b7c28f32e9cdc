"""Pages in a real browser: Debian's Chromium without a window, driven by Playwright."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from sklearn.datasets import load_digits, load_iris

from socratic import CircuitClassifier, CircuitImageClassifier
from socratic.serve.model import served
from tests.serve.running import Site, running

OpenPage = Callable[..., Any]
"""Opens an address and gives Playwright's page; settings such as ``viewport`` are those of a browser context."""
Picture = Callable[..., None]
"""Takes a picture of a page, under a name; settings are those of Playwright's ``screenshot``."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", metavar="FOLDER", type=Path, help="write the pictures of the documentation there")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test with a browser is slow."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Of the package alone: as long as it is there, no other test of the process could run a loop of asyncio."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra serve-tests")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("needs Debian's package chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])  # tests may run as root
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def site() -> Iterator[Site]:
    """A server of digits, which is what it shows first, and of irises."""
    images, labels = load_digits(return_X_y=True)
    pixels = (images.reshape(-1, 8, 8) * (255 / 16)).round().astype(np.uint8)
    digits = CircuitImageClassifier(n_epochs=12, random_state=0).fit(pixels, labels)
    x, y = load_iris(return_X_y=True, as_frame=True)
    names = y.map(dict(enumerate(["setosa", "versicolor", "virginica"])))
    irises = CircuitClassifier(random_state=0).fit(x, names)
    with running([served("digits", digits), served("irises", irises)]) as site:
        yield site


@pytest.fixture
def open_page(forgiving_page: OpenPage, complaints: list[str]) -> Iterator[OpenPage]:
    """Pages of which none may complain, or ask for anything from elsewhere."""
    yield forgiving_page
    assert complaints == []


@pytest.fixture
def complaints() -> list[str]:
    """What the pages of a test complained about."""
    return []


@pytest.fixture
def forgiving_page(browser: Any, complaints: list[str]) -> Iterator[OpenPage]:
    """Pages that may complain."""
    contexts = []

    def open_it(url: str, **settings: Any) -> Any:
        context = browser.new_context(**settings)
        contexts.append(context)
        context.set_default_timeout(15_000)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: None if _is_near(asked.url) else complaints.append(f"asks {asked.url}"))
        page.goto(url)
        return page

    yield open_it
    for context in contexts:
        context.close()


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Picture:
    """Takes a picture of a page for the documentation, if the tests are run for that."""
    folder: Path | None = request.config.getoption("screenshots", None)

    def take(page: Any, name: str, **settings: Any) -> None:
        if folder is not None:
            page.evaluate("document.activeElement.blur()")
            content = io.BytesIO(page.screenshot(**settings))
            few_colours = PIL.Image.open(content).convert("RGB").quantize(128, dither=PIL.Image.Dither.NONE)
            few_colours.save(folder / f"{name}.png", optimize=True)

    return take


def _is_near(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "data:", "blob:"))


def violations(page: Any) -> list[str]:
    """What axe-core finds that keeps people from using a page: its serious and critical violations."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['html']}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def overflow(page: Any) -> int:
    """Pixels by which a page is wider than its window: above 0 it has to be scrolled sideways."""
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))
