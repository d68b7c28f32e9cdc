"""Imports go one way, also those inside functions, and ``import socratic`` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import socratic

PACKAGE = Path(socratic.__file__).parent
CORE = [
    "errors",
    "files",
    "signing",
    "model_files",
    "workers",
    "pages",
    "notebook",
    "tracing",
    "shortcuts",
    "draws",
    "memory",
    "numerics",
    "kernels",
    "families",
    "structure",
    "circuit",
    "inference",
]
# What each part may import besides itself: in the core, the parts before it.
MAY_IMPORT: dict[str, set[str]] = {
    **{part: set(CORE[:place]) for place, part in enumerate(CORE)},
    "images": {"errors"},
    "uncertainty": {"errors", "notebook", "numerics", "inference"},
    "interop": {*CORE},
    "drawing": {*CORE},
    "learning": {*CORE},
    "tables": {*CORE},
    "estimators": {*CORE, "images", "uncertainty", "learning", "tables"},
    "loading": {"errors", "model_files", "circuit", "estimators"},
    "scoring": {*CORE, "images", "uncertainty", "learning", "tables", "estimators", "loading"},
    "scale": {*CORE, "tables", "estimators", "loading", "scoring"},
    "serve": {"", *CORE, "images", "uncertainty", "tables", "estimators", "loading", "scoring"},
    "export": {*CORE, "images", "uncertainty", "learning", "tables", "estimators"},
    # "": the package itself, for its version.
    "cli": {
        "",
        *CORE,
        "images",
        "uncertainty",
        "learning",
        "tables",
        "estimators",
        "loading",
        "scoring",
        "scale",
        "export",
        "serve",
    },
    "__main__": {"cli"},
}
# torch calls a module's `forward`: the one query that is a method of circuits, too.
UPWARD = ("circuit/base.py", "socratic.inference.likelihood")


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports_of(path: Path) -> list[str]:
    """Modules that ``path`` imports, also inside functions; imports for type checkers alone do not count."""
    modules: list[str] = []
    nodes: list[ast.AST] = [ast.parse(path.read_text())]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relative to itself"
            modules.append(node.module or "")
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            nodes += ast.iter_child_nodes(node)
    return [module for module in modules if module.split(".")[0] == "socratic"]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    place = path.relative_to(PACKAGE)
    part = place.with_suffix("").parts[0]
    if part == "__init__":
        return
    for module in imports_of(path):
        if (place.as_posix(), module) == UPWARD:
            continue
        assert part_of(module) in {part, *MAY_IMPORT[part]}, f"{path.name} imports {module}"


def test_every_part_has_its_place() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert parts - {"__init__"} == MAY_IMPORT.keys()


def test_the_rules_have_no_circle() -> None:
    TopologicalSorter(MAY_IMPORT).prepare()  # raises if they had


def test_the_package_does_not_know_its_experiments() -> None:
    assert [path.name for path in PACKAGE.rglob("*.py") if "socratic_experiments" in path.read_text()] == []


def test_import_is_light() -> None:
    code = "import sys, socratic; print(sorted({'torch', 'numpy', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_other_libraries_are_imported_only_when_used() -> None:
    code = "import sys, socratic.interop; print(sorted({'spflow', 'cirkit'} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


@pytest.mark.slow
def test_clusters_are_imported_only_when_used() -> None:
    code = "import sys, socratic.scale; print(sorted({'dask', 'distributed', 'ray', 'pyspark'} & set(sys.modules)))"
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
    long = {path.name: n for path in PACKAGE.rglob("*.py") if (n := len(path.read_text().splitlines())) > 500}
    assert not long
