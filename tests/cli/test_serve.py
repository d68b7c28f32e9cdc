from __future__ import annotations

from pathlib import Path

import pytest

from socratic.cli.app import main


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as end:
        main(["serve", *arguments])
    assert end.value.code == 2
    return capsys.readouterr().err


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOCRATIC_TOKEN", raising=False)
    assert "needs a token" in refusal(["a.model", "--host", "0.0.0.0"], capsys)
    assert "there is no model file" in refusal([str(tmp_path / "a.model")], capsys)
    assert "cannot be read" in refusal(["a.model", "--token-file", str(tmp_path / "none")], capsys)
    (tmp_path / "empty").touch()
    assert "is empty; write a token to it" in refusal(["a.model", "--token-file", str(tmp_path / "empty")], capsys)
    (tmp_path / "short").write_text("abc\n")
    assert "token must have at least 16" in refusal(["a.model", "--token-file", str(tmp_path / "short")], capsys)
    monkeypatch.setenv("SOCRATIC_TOKEN", "short")
    assert "token must have at least 16" in refusal(["a.model"], capsys)


def test_circuits_cannot_be_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import socratic

    circuit = socratic.rat_spn(n_features=4, n_classes=2, n_sums=2, n_leaves=2, depth=1, n_repetitions=1)
    circuit.save(tmp_path / "rat.model")
    message = refusal([f"rat={tmp_path / 'rat.model'}"], capsys)
    assert "model 'rat' is a Circuit, which cannot be served; serve a classifier, an outlier detector" in message
