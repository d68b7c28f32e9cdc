"""The fuzzer of model files, with few files; ``python -m benchmarks.fuzz_model_files`` takes 20,000."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks import fuzz_model_files as fuzzer

import socratic
from socratic.loading import load_bytes


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of numbers beyond any range
def test_changed_files_are_refused_or_answer() -> None:
    for original in fuzzer.originals():
        report = fuzzer.fuzz(original, 60, seed=7)
        assert not report.problems, (original.name, [problem[:2] for problem in report.problems])
        assert report.counts["damaged", "refused"] >= 25
        assert report.counts["forged", "refused"] > 0 < report.counts["forged", "answered"]


def test_the_fuzzer_notices_what_is_wrong(tmp_path: Path) -> None:
    circuit = socratic.rat_spn(4, 2, n_sums=2, n_leaves=2, depth=1)
    circuit.save(tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    rows = torch.zeros(1, 4)

    def asking(content: bytes) -> fuzzer.Answer:
        return {"log_likelihood": load_bytes(content, "file").log_likelihood(rows).detach().numpy()}

    def careless(content: bytes) -> fuzzer.Answer:
        if len(content) < 100:
            raise KeyError("header")
        return {"log_likelihood": np.zeros(1)}

    def loading(ask: Callable[[bytes], fuzzer.Answer]) -> fuzzer.Original:
        def load(content: bytes) -> Callable[[], fuzzer.Answer]:
            answer = ask(content)
            return lambda: answer

        return fuzzer.Original("circuit", content, load, asking(content))

    careful, other = loading(asking), loading(careless)
    assert fuzzer.outcome(careful, content, digest_kept=True).what == "answered"
    assert fuzzer.outcome(careful, content[:-1], digest_kept=True).what == "refused"
    assert fuzzer.outcome(other, content, digest_kept=True).what == "it answered otherwise than the original"
    assert fuzzer.outcome(other, content, digest_kept=False).what == "answered"
    assert fuzzer.outcome(other, b"", digest_kept=True).what == "loading raised KeyError('header')"


def test_changed_files_are_changed(tmp_path: Path) -> None:
    socratic.rat_spn(4, 2, n_sums=2, n_leaves=2, depth=1).save(tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    random_ = random.Random(0)
    for change in (fuzzer.damaged, fuzzer.forged):
        changed = [change(content, random_) for _ in range(50)]
        assert sum(each != content for each in changed) > 45
        assert len(set(changed)) > 45
