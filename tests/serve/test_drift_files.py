"""What a server knows of drift, kept in files from one start to the next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from socratic import DriftMonitor, ModelFileError
from socratic.serve import watching
from socratic.serve.model import ServedTable, served
from socratic.serve.watching import Watches
from tests.serve.conftest import fitted
from tests.serve.running import running
from tests.serve.test_drift import compared, fruit, judged


def test_a_server_goes_on_where_the_one_before_ended(forest: ServedTable, tmp_path: Path) -> None:
    rows = [*fruit(200, seed=5), *fruit(100, seed=6, weight=60.0)]
    with running([forest]) as site:
        site.predict(rows=rows[:150])
        site.predict(rows=rows[150:])
        site.predict(rows=rows[:3], watched=False)
        expected = compared(site)
    for part in (rows[:150], rows[150:]):
        with running([forest], drift_folder=tmp_path) as site:
            site.predict(rows=part)
            found = compared(site)
            if part[0] is rows[0]:
                site.predict(rows=rows[:3], watched=False)
                started = found["started"]
    assert found["started"] == started <= found["since"] <= found["alarm_time"]
    assert found["log_wealth"] == pytest.approx(expected["log_wealth"])
    assert [column["name"] for column in found["columns"]] == [column["name"] for column in expected["columns"]]
    others = set(found) - {"started", "since", "alarm_time", "columns", "log_wealth"}
    assert {key: found[key] for key in others} == {key: expected[key] for key in others}
    assert found["alarm"]


def test_files_are_written_in_time_and_models_have_their_own(
    forest: ServedTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [forest, served("odd", fitted("detector")), served("density", fitted("density"))]
    watches = Watches(models, 100, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"fruit.monitor", "odd.monitor"}
    watches._watches["fruit"].take(*judged(range(5)))
    watches.do_some()
    assert watches.are_left()  # it is not time yet
    assert Watches(models, 100, tmp_path).state("fruit").n_compared == 0
    monkeypatch.setattr(watching, "_SECONDS_UNSAVED", 0.0)
    watches.do_some()
    assert not watches.are_left()
    watches._watches["fruit"].take(*judged(range(2)))
    watches._watches["fruit"].skip(*judged(range(3)))
    watches.save()
    state = Watches(models, 100, tmp_path).state("fruit")
    counts = (state.n_rows, state.n_compared, state.n_waiting, state.n_passed_over, state.n_skipped)
    assert counts == (7, 5, 0, 2, 3)  # nobody has the rows any more that waited
    assert Watches(models, 100, tmp_path).state("odd").n_rows == 0


def test_a_folder_that_cannot_be_written_to_any_more_stops_nothing(
    forest: ServedTable, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_SECONDS_UNSAVED", 0.0)
    folder = tmp_path / "drift"
    folder.mkdir()
    with running([forest], drift_folder=folder) as site:
        (folder / "fruit.monitor").unlink()
        folder.rmdir()
        site.predict(rows=fruit(3, seed=1))
        assert compared(site)["n_compared"] == 3
        assert site.predict(rows=fruit(3, seed=2)).status == 200
    assert "what is known of the drift of fruit could not be saved" in caplog.text


def spoilt(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Spoils what a server noted in its file."""

    def spoil(path: Path) -> None:
        monitor = DriftMonitor.load(path, fitted("forest"))
        change(monitor.notes)
        monitor.save(path)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda path: DriftMonitor(fitted("forest"), window=50).save(path),
            r"begun with a window of 50 rows; start the",
        ),
        (lambda path: DriftMonitor(fitted("detector"), window=100).save(path), "saved by a monitor of another model"),
        (lambda path: DriftMonitor(fitted("forest"), window=100).save(path), "is of no server"),
        (lambda path: path.write_bytes(b"\x80\x04."), "is damaged or no"),
        (spoilt(lambda notes: notes.update(started="now")), "is of no server"),
        (spoilt(lambda notes: notes.update(n_skipped=-1)), "n_skipped must be a whole number of at least 0; got -1"),
        (spoilt(lambda notes: notes["times"].update(rows=[3, 2], times=[1.0, 2.0])), "rows that ascend from 0"),
        (spoilt(lambda notes: notes["times"].update(times=[1e300])), "is of no server"),
        (spoilt(lambda notes: notes["times"].update(rows=[], times=[])), "its rows have no times"),
    ],
)
def test_files_of_others_are_refused_and_kept(
    forest: ServedTable, tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    watches = Watches([forest], 100, tmp_path)
    watches._watches["fruit"].take(*judged(range(5)))
    watches.do_some()
    watches.save()
    spoil(tmp_path / "fruit.monitor")
    content = (tmp_path / "fruit.monitor").read_bytes()
    with pytest.raises(ModelFileError, match=message):
        Watches([forest], 100, tmp_path)
    assert (tmp_path / "fruit.monitor").read_bytes() == content
