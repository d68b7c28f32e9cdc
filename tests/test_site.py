"""The documentation site: complete, and built without a warning."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from docs.live.build import PACKAGE, build

import socratic

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
ENTRY = re.compile(r"^\.\. auto\w+:: (?P<name>[\w.]+)$", re.MULTILINE)
PACKAGES = ["", ".circuit", ".drawing", ".estimators", ".export", ".families", ".images", ".inference", ".interop"]
PACKAGES += [".learning", ".learning.structure", ".scale", ".serve", ".structure", ".uncertainty"]


def configuration() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_configuration", DOCS / "conf.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def value_of(dotted: str) -> object:
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_reference_has_every_public_name_once() -> None:
    public: dict[int, str] = {}
    for package in PACKAGES:
        module = importlib.import_module(f"socratic{package}")
        public |= {id(getattr(module, name)): f"{module.__name__}.{name}" for name in module.__all__}
    modules = {id(value_of(f"socratic.{name}")) for name in ("families", "images", "interop", "__version__")}
    listed = [name for page in sorted((DOCS / "api").glob("*.rst")) for name in ENTRY.findall(page.read_text())]
    found = [id(value_of(name)) for name in listed]
    assert sorted(name for name in listed if found.count(id(value_of(name))) > 1) == []
    assert sorted(name for key, name in public.items() if key not in {*found, *modules}) == []
    assert sorted(name for name, key in zip(listed, found, strict=True) if key not in public) == []


def test_names_are_listed_where_users_find_them() -> None:
    top = set(socratic.__all__)
    listed = [name for page in (DOCS / "api").glob("*.rst") for name in ENTRY.findall(page.read_text())]
    homes = {id(getattr(socratic, name)) for name in top}
    assert [name for name in listed if id(value_of(name)) in homes and name.count(".") > 1] == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = configuration().navigation((DOCS / "index.md").read_text(encoding="utf-8")).split()
    pages = [
        page.relative_to(DOCS).with_suffix("")
        for kind in ("*.md", "api/*.rst", "notebooks/*.md")
        for page in DOCS.glob(kind)
    ]
    assert sorted({page.as_posix() for page in pages} - {"index"} - set(navigation)) == []


def test_the_live_page_takes_the_place_of_its_picture(tmp_path: Path) -> None:
    index, embedded = (DOCS / "index.md").read_text(encoding="utf-8"), configuration().embedded
    assert embedded(index, tmp_path) == index
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / "index.html").touch()
    live = embedded(index, tmp_path)
    assert live.count('src="live/index.html"') == 1
    assert "<noscript>\n\n![A page with a drawn letter" in live


def test_without_npm_there_is_no_live_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not build(tmp_path / "live")
    assert not (tmp_path / "live").exists()
    assert capsys.readouterr().out == (
        f"the site is built without the live page: {PACKAGE} could not be had from npm (npm is not installed)\n"
    )


@pytest.mark.slow
def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("myst_nb", reason='needs pip install "socratic-circuits[docs]"')
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    done = subprocess.run(
        [*command, "-d", str(tmp_path / "trees"), str(DOCS), str(tmp_path / "site")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for notebook in DOCS.glob("notebooks/*.md"):
        page = (tmp_path / "site" / "notebooks" / notebook.stem).with_suffix(".html").read_text(encoding="utf-8")
        assert 'class="cell_output' in page, notebook
        assert "<img" in page, notebook
