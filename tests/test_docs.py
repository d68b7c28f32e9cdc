"""The documentation is true: every Python block in README.md and docs/ runs, every relative link leads to a file."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import socratic

ROOT = Path(__file__).resolve().parents[1]
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if page.exists()]
LONG = {
    *("classifier.md", "export.md", "forests.md", "guard.md", "images.md", "inpainting.md", "monte-carlo.md"),
    *("reasons.md", "rejection.md", "uncertainty.md", "verdicts.md"),
}
"""Pages whose blocks train or sample for several seconds."""

FENCE = re.compile(r"^(?P<ticks>`{3,})(?P<language>[^`\s]*)[^`]*$")
ANY_PYTHON_FENCE = re.compile(r"^[ \t>]*(?:`{3,}|~{3,})[ \t]*\{?\.?py(?:thon|con)?3?\b", re.IGNORECASE | re.MULTILINE)
LINK = re.compile(r"\]\(\s*<?(?P<target>[^)\s>]+)")
CODE = re.compile(r"`(?P<code>[^`\n]+)`")
DOTTED = re.compile(r"(?:socratic|socratic_experiments|examples|benchmarks|tests)(?:\.\w+)+")
EXTERNAL = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//|#)", re.IGNORECASE)


@dataclass(frozen=True)
class Block:
    """The code of a fenced block, and the number of its first line."""

    language: str
    line: int
    code: str


def fenced_blocks(text: str) -> tuple[list[Block], str]:
    """The fenced blocks of a page, and the page without them."""
    blocks: list[Block] = []
    prose: list[str] = []
    lines = enumerate(text.splitlines(), start=1)
    for number, line in lines:
        opening = FENCE.match(line)
        if opening is None:
            prose.append(line)
            continue
        code: list[str] = []
        for _, inner in lines:
            if inner.rstrip() == opening["ticks"]:
                break
            code.append(inner)
        else:
            raise ValueError(f"the block that opens in line {number} is never closed")
        blocks.append(Block(opening["language"], number + 1, "\n".join(code) + "\n"))
    return blocks, "\n".join(prose)


def python_blocks(text: str) -> list[Block]:
    """The Python blocks of a page; an error if any is written in a way that would escape the tests."""
    blocks = [block for block in fenced_blocks(text)[0] if block.language == "python"]
    announced = len(ANY_PYTHON_FENCE.findall(text))
    if announced != len(blocks):
        raise ValueError(
            f"{announced} Python fences but {len(blocks)} blocks to run: open each by an unindented ```python"
        )
    return blocks


def run(page: Path, blocks: list[Block]) -> dict[str, Any]:
    """Run the blocks in order in one namespace, and return it; a failure names the file, the line and the block."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks:
        failure = run_block(page, block, namespace)
        if failure is not None:
            pytest.fail(failure, pytrace=False)
    return namespace


def run_block(page: Path, block: Block, namespace: dict[str, Any]) -> str | None:
    """Run one block; return where and how it failed, or None."""
    try:
        # Empty lines before the code make the traceback's line numbers those of the page.
        exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), namespace)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(page)] or [block.line]
        line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(page) else lines[-1]
        reason = "".join(traceback.format_exception_only(error)).strip()
        return f"{page}:{line}, in the block from line {block.line}: {reason}"
    return None


def broken_links(page: Path, text: str) -> list[str]:
    """The relative links of a page that lead to no file."""
    targets = [match["target"] for match in LINK.finditer(fenced_blocks(text)[1])]
    local = [target for target in targets if not EXTERNAL.match(target)]
    return [target for target in local if not (page.parent / target.partition("#")[0]).exists()]


def missing_names(text: str) -> list[str]:
    """What stands in `code` outside of blocks, names a file, test, module, function or command, and does not exist."""
    found = [match["code"] for match in CODE.finditer(fenced_blocks(text)[1])]
    return [code for code in found if not _exists(code)]


def _exists(code: str) -> bool:
    """Whether a name leads somewhere; what is no name passes."""
    path, _, test = code.partition("::")
    if test:
        return (ROOT / path).is_file() and test in _functions(ROOT / path)
    words = code.split()
    if words[0] == "socratic-experiments":
        return words[1] in _experiments()
    if words[:2] == ["python", "-m"]:
        return _resolves(words[2])
    if DOTTED.fullmatch(code):
        return _resolves(code)
    return len(words) > 1 or "/" not in code or (ROOT / code).exists()


def _functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}


def _experiments() -> set[str | None]:
    from socratic_experiments.app import app

    return {command.name or getattr(command.callback, "__name__", None) for command in app.registered_commands}


def _resolves(dotted: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    try:
        importlib.import_module(dotted)
    except ModuleNotFoundError:
        module, _, name = dotted.rpartition(".")
        return bool(module) and _resolves(module) and hasattr(importlib.import_module(module), name)
    return True


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (page.name in LONG), id=name_of(page)) for page in PAGES]
)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    blocks = python_blocks(page.read_text(encoding="utf-8"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        after = run(page, blocks)
    if page.name == "README.md":
        check_what_the_readme_says(after)


def check_what_the_readme_says(after: dict[str, Any]) -> None:
    """At most 5 % of familiar rows are refused, up to what chance does to one calibration; unfamiliar ones are."""
    model, new = after["model"], after["new"]
    assert model.calibrated_
    assert model.reject(new).mean() <= 0.05 + 3 * (0.05 * 0.95 / model.n_calibration_) ** 0.5
    assert model.reject(new * 3).mean() > 0.95


@pytest.mark.slow
def test_the_readme_is_right_on_average() -> None:
    block = python_blocks((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    assert "random_state=1)" in block.code
    shares = []
    for seed in range(10):
        after = run(
            ROOT / "README.md", [replace(block, code=block.code.replace("random_state=1)", f"random_state={seed})"))]
        )
        shares.append(after["model"].reject(after["new"]).mean())
    assert sum(shares) / len(shares) <= 0.05


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_to_files(page: Path) -> None:
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


def test_what_the_page_on_the_paper_names_exists() -> None:
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    assert missing_names(text) == []
    assert text.count("::test_") > 30


DEFAULTS = {
    "classifier.md": socratic.CircuitClassifier,
    "density.md": socratic.CircuitDensity,
    "guard.md": socratic.CircuitGuard,
    "learned-structures.md": socratic.learn_spn,
    "outlier-detector.md": socratic.CircuitOutlierDetector,
}
"""Pages with a table of defaults, and what has them."""


def tables_of_defaults(text: str) -> list[tuple[str, str]]:
    """The parameters in the tables of a page that have a column of defaults, and the default that it tells of each."""
    found = []
    for table in re.findall(r"^\| (?:parameter|argument) \| default \|.*\n\|[- |]*\n((?:\|.*\n)+)", text, re.MULTILINE):
        for row in table.splitlines():
            names, told = (cell.strip().replace("`", "") for cell in row.split("|")[1:3])
            values = re.sub(r"\(.*?\)", "", told).split(",")  # in brackets is what "auto" comes to
            each = names.split(", ")
            values = values if len(values) == len(each) else values * len(each)
            found += [(name, value.strip()) for name, value in zip(each, values, strict=True)]
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tables_of_defaults_are_those_of_signatures(page: Path) -> None:
    told = tables_of_defaults(page.read_text(encoding="utf-8"))
    assert bool(told) == (page.name in DEFAULTS)
    parameters = inspect.signature(DEFAULTS[page.name]).parameters if told else {}
    for name, value in told:
        default = parameters[name].default
        assert default == (ast.literal_eval(value) if value else inspect.Parameter.empty), name


def test_every_structure_is_in_the_table_of_structures() -> None:
    from socratic.estimators.building import STRUCTURES

    section = (ROOT / "docs" / "classifier.md").read_text(encoding="utf-8").partition("## Structures")[2]
    assert sorted(re.findall(r'^\| "([\w-]+)" \|', section.partition("\n## ")[0], re.MULTILINE)) == sorted(
        set(STRUCTURES) - {"auto"}
    )


def test_pages_are_found() -> None:
    assert ROOT / "docs" / "index.md" in PAGES


def test_index_links_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = {match["target"] for match in LINK.finditer(index)}
    assert {page.name for page in PAGES if page.parent.name == "docs"} - {"index.md"} <= linked


@pytest.mark.parametrize(
    ("fence", "language"),
    [("~~~", "python"), ("  ```", "python"), ("> ```", "python"), ("```", "Python"), ("```", "py"), ("```", "python3")],
)
def test_python_that_would_not_run_is_reported(fence: str, language: str) -> None:
    with pytest.raises(ValueError, match="1 Python fences but 0 blocks"):
        python_blocks(f"text\n\n{fence}{language}\n1 / 0\n{fence}\n")


def test_unclosed_block_is_reported() -> None:
    with pytest.raises(ValueError, match="opens in line 3 is never closed"):
        python_blocks("text\n\n```python\n1 / 0\n")


@pytest.mark.parametrize(("code", "line"), [("1 / 0", 8), ("x = (", 8), ("def f():\n    1 / 0\n\nf()", 9)])
def test_failure_names_file_and_line(code: str, line: int, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    blocks = python_blocks(f"text\n\n```python\nx = 1\n```\n\n```python\n{code}\n```\n")
    with pytest.raises(pytest.fail.Exception, match=rf"page\.md:{line}, in the block from line 8"):
        run(page, blocks)


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "here.md").touch()
    text = "[a](here.md#part) [b](gone.md) [c](https://example.org) [d](#part)\n\n```python\nx = d[0](1)\n```\n"
    assert broken_links(tmp_path / "page.md", text) == ["gone.md"]


def test_names_that_lead_nowhere_are_found() -> None:
    there = "`socratic.tdi` `tests/test_docs.py` `tests/test_docs.py::test_pages_are_found` `python -m examples.digits`"
    there += " `socratic-experiments ood --train svhn` `A / B` `entropy` `socratic.inference.posterior`"
    gone = [
        "socratic.tdj",
        "socratic.gone.tdi",
        "docs/gone.md",
        "docs/gone.py::test_a",
        "tests/test_docs.py::test_gone",
    ]
    gone += ["socratic-experiments gone", "python -m examples.gone"]
    assert missing_names(there) == []
    assert missing_names(" ".join(f"`{name}`" for name in gone)) == gone
