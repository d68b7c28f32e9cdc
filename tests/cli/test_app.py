"""The program as a whole: help, versions, options, processes."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import pytest

import socratic
from tests.cli.conftest import Run, assert_one_line, finished, launch

COMMANDS = ["fit", "predict", "score", "evaluate", "info", "demo"]


def test_help_imports_nothing_heavy() -> None:
    code = f"""
import sys
from typer.testing import CliRunner
from socratic.cli.app import app
for command in {[[], *[[name] for name in COMMANDS]]!r}:
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0 and "Usage" in result.output
heavy = {{"torch", "numpy", "pandas", "sklearn", "pyarrow", "matplotlib"}}
print(sorted(heavy & set(sys.modules)))
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_version(run: Run) -> None:
    assert run("--version").out == f"socratic {socratic.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing command"),
        (["fot"], "No such command 'fot'"),
        (["fit", "x.csv"], "Missing option '-o' / '--output'"),
        (["fit", "x.csv", "-o", "m"], "a table needs --target"),
        (["info", "--nonsense"], "No such option: --nonsense"),
        (["fit", "x.csv", "--target", "y", "-o", "m", "--epochs", "0"], "'--epochs'"),
        (["fit", "x.csv", "--target", "y", "-o", "m", "--seed", "x"], "'--seed'"),
    ],
)
def test_usage_errors_are_one_line(run: Run, arguments: list[str], message: str) -> None:
    line = assert_one_line(run(*arguments))
    assert message in line
    assert "--help" in line


@pytest.mark.slow
def test_real_program(folder: Path, tmp_path: Path) -> None:
    done = finished(launch("predict", folder / "model", folder / "test.csv", "-o", tmp_path / "out.csv", "--jobs", 1))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("60 rows, ")
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_mistakes_are_found_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,a\n1,2\n")
    code = f"""
import sys
from socratic.cli.app import main
try:
    main(["predict", "model", {str(tmp_path / "data.csv")!r}, "-o", {str(tmp_path / "out.csv")!r}])
except SystemExit as stop:
    print(stop.code, sorted({{"torch", "sklearn", "pandas"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "more than one column 'a'" in done.stderr
    assert done.stdout.strip() == "2 []"


def test_real_program_on_a_mistake() -> None:
    done = finished(launch("predict", "no-model", "no-data.csv", "-o", "out.csv"))
    assert "no file no-data.csv" in assert_one_line(done)
    assert not done.out


def test_interruption_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> None:
    from socratic.scoring import TableScorer

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TableScorer, "__call__", interrupt)
    done = run("predict", folder / "model", folder / "test.csv", "-o", tmp_path / "out.csv")
    assert assert_one_line(done, code=130) == "socratic: interrupted\n"
    assert not list(tmp_path.iterdir())


def test_bugs_keep_their_traceback(run: Run, monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> None:
    from socratic.scoring import TableScorer

    monkeypatch.setattr(TableScorer, "__call__", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run("predict", folder / "model", folder / "test.csv", "-o", tmp_path / "out.csv")
    assert not list(tmp_path.iterdir())


def test_demo_is_called(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls = []
    module = types.ModuleType("socratic.cli.demo")
    module.run_demo = lambda output, seed: calls.append((output, seed))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "socratic.cli.demo", module)
    assert run("demo", "-o", tmp_path, "--seed", 3).code == 0
    assert calls == [(tmp_path, 3)]


def test_a_mistake_ends_the_process_at_once(tmp_path: Path) -> None:
    """Threads that read ahead of an early end would abort an orderly one: what stands for them here is never asked."""
    code = "import atexit, os; atexit.register(os.abort); from socratic.cli.app import program; program()"
    command = [sys.executable, "-c", code, "info", str(tmp_path / "none.model")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("socratic: ")
