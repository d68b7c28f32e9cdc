"""The reference of a server's paths, as a browser shows it."""

from __future__ import annotations

import pytest

from tests.browser.conftest import OpenPage, overflow, violations
from tests.serve.running import Site


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_the_reference(site: Site, open_page: OpenPage, scheme: str) -> None:
    page = open_page(f"{site.url}/docs", viewport={"width": 360, "height": 640}, color_scheme=scheme)
    assert page.get_by_role("heading", name="How to ask").is_visible()
    assert overflow(page) <= 0
    assert violations(page) == []
