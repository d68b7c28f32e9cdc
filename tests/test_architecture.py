"""Imports go one way, and ``import socratic`` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import socratic

PACKAGE = Path(socratic.__file__).parent
CORE = ["errors", "files", "numerics", "distributions", "families", "structure", "circuit", "inference"]
# What each part may import besides itself: in the core, the parts before it.
MAY_IMPORT: dict[str, set[str]] = {
    **{part: set(CORE[:place]) for place, part in enumerate(CORE)},
    "pages": {"errors", "files"},
    "data": {"errors"},
    "shifts": {"errors"},
    "uncertainty": {"errors", "numerics", "inference"},
    "interop": {*CORE},
    "drawing": {*CORE},
    "learning": {*CORE},
    "estimators": {*CORE, "data", "uncertainty", "learning"},
    # "": the package itself, for its version.
    "experiments": {"", *CORE, "data", "shifts", "uncertainty", "learning", "estimators", "pages"},
    "cli": {"", *CORE, "data", "shifts", "uncertainty", "learning", "estimators", "pages", "experiments"},
}


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def top_level_imports(path: Path) -> list[str]:
    """Modules imported when ``path`` is: imports inside functions and for type checkers do not count."""
    found = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return [module for module in found if module.startswith("socratic")]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    part = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if part == "__init__":
        return
    for module in top_level_imports(path):
        assert part_of(module) in {part, *MAY_IMPORT[part]}, f"{path.name} imports {module}"


def test_every_part_has_its_place() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.name != "__pycache__" and path.suffix in ("", ".py")}
    assert parts - {"__init__"} == MAY_IMPORT.keys()


def test_the_rules_have_no_circle() -> None:
    TopologicalSorter(MAY_IMPORT).prepare()  # raises if they had


def test_import_is_light() -> None:
    code = "import sys, socratic; print(sorted({'torch', 'numpy', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_other_libraries_are_imported_only_when_used() -> None:
    code = "import sys, socratic.interop; print(sorted({'spflow', 'cirkit'} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_graphviz_is_imported_only_when_used() -> None:
    code = "import sys, socratic.drawing; print('graphviz' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "False"


def test_every_public_name_is_there() -> None:
    for name in socratic.__all__:
        assert getattr(socratic, name) is not None
        assert name in dir(socratic)
    with pytest.raises(AttributeError, match="module 'socratic' has no attribute 'nonsense'"):
        _ = socratic.nonsense


def test_files_stay_small() -> None:
    long = {path.name: n for path in PACKAGE.rglob("*.py") if (n := len(path.read_text().splitlines())) > 400}
    assert not long
