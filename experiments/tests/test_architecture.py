"""The experiments use what every user of the package has: public names, those in ``__all__`` of a module."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import socratic_experiments

PACKAGE = Path(socratic_experiments.__file__).parent


def names_from_socratic(path: Path) -> list[tuple[str, str]]:
    """Module and name of everything that ``path`` imports from the package."""
    found: list[tuple[str, str]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "socratic":
            found += [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names if alias.name.startswith("socratic.")]
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_public_names_are_used(path: Path) -> None:
    for module, name in names_from_socratic(path):
        assert name in getattr(importlib.import_module(module), "__all__", ()), f"{path.name}: {module}.{name}"
