"""The name to install by: the one that pip knows, in every file that tells how to install something."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from socratic.errors import MissingExtraError, import_extra

ROOT = Path(__file__).parents[1]
COMMAND = re.compile(r"pip install [^\n]*?[\"'` ]([\w-]*)\[([\w,-]+)\\?\]")
REQUIREMENT = re.compile(r"\"(socratic[\w-]*)\\?\[([\w,-]+)\\?\]\"")
EXTRAS = re.compile(r"^([\w-]+) = \[", re.MULTILINE)
"""tomllib comes with Python 3.11."""


def extras_of(project: Path) -> tuple[str, set[str]]:
    """The name of a distribution, and the extras that it has."""
    text = project.read_text(encoding="utf-8")
    (name,) = re.findall(r"^name = \"(.*)\"$", text, re.MULTILINE)
    section = text.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    return name, set(EXTRAS.findall(section))


def test_every_file_names_the_distribution_and_an_extra_that_it_has() -> None:
    known = dict(map(extras_of, (ROOT / "pyproject.toml", ROOT / "experiments" / "pyproject.toml")))
    assert set(known) == {"socratic-circuits", "socratic-experiments"}
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True, capture_output=True, check=True).stdout.split()
    named = []
    for file in files:
        if Path(file).suffix not in {".md", ".py", ".toml", ".rst", ".html", ".yml"}:
            continue
        for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
            found = [*COMMAND.findall(line), *REQUIREMENT.findall(line)]
            named += [(file, *one) for one in found if one[0].strip(". ")]
    assert len(named) > 20
    wrong = [one for one in named if not set(one[2].split(",")) <= known.get(one[1], set())]
    assert not wrong


def test_messages_name_the_distribution() -> None:
    with pytest.raises(MissingExtraError, match=r'pip install "socratic-circuits\[serve\]"'):
        import_extra("no_such_module", "serve", "serving")
