"""What a server knows of the rows that a model was asked about, as it is sent and as a client reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from socratic.notebook import table_of_facts


@dataclass(frozen=True)
class ChangedColumn:
    """A column whose surprises have changed.

    Attributes
    ----------
    name : str
    since : str
        When the change most probably began, in UTC.
    since_row, alarm_row : int
        The row that it most probably began with, and the one that proved it, of those compared, counted from 0.
    more_surprising : bool
        Whether it is more surprising than before; otherwise it is less so, or more often missing.
    """

    name: str
    since: str
    since_row: int
    alarm_row: int
    more_surprising: bool


@dataclass(frozen=True)
class Drift:
    """Whether the rows that a model is asked about are like those that it was calibrated on.

    Attributes
    ----------
    model : str
    started : str
        When the server began to watch, in UTC.
    n_rows : int
        Rows answered since then: compared, waiting to be, or passed over.
    n_compared, n_waiting, n_passed_over : int
        Those compared with the rows before them, those that will be, and those that there was no time for.
    n_skipped : int
        Rows beside these that are not watched: asked with another doubt or dropout rate than the model's, or trials.
    refused_share : float
        Of the rows compared, by the model's own rejection rate.
    window, n_recent : int
        The most last rows that the next four are of, and how many these are.
    recently_refused, expected_refused : float
        The share refused among the last rows, and the most to expect of familiar rows.
    p_values, expected_p_values : tuple
        How many of the last rows have a p-value in each twentieth from 0 to 1, and how many to expect if all are like
        calibration rows.
    alarm : bool
        Whether rows have changed; once raised, an alarm stays.
    alarm_time, alarm_row : str and int, or None
        When it was raised, and by which row of those compared, counted from 0.
    since, since_row : str and int, or None
        When the change most probably began, and with which row.
    log_wealth, limit : float
        Logarithm of the test martingale of the rows as a whole, the highest so far, and from where on it is an alarm.
    rate : float
        The probability of a false alarm, however many rows come, at most.
    columns_watched : bool
        Whether it is found out which columns have changed.
    columns : tuple of ChangedColumn
        Those that have, the first alarm first.
    """

    model: str
    started: str
    n_rows: int
    n_compared: int
    n_waiting: int
    n_passed_over: int
    n_skipped: int
    refused_share: float
    window: int
    n_recent: int
    recently_refused: float
    expected_refused: float
    p_values: tuple[int, ...]
    expected_p_values: tuple[float, ...]
    alarm: bool
    alarm_time: str | None
    alarm_row: int | None
    since: str | None
    since_row: int | None
    log_wealth: float
    limit: float
    rate: float
    columns_watched: bool
    columns: tuple[ChangedColumn, ...]

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {
            "model": self.model,
            "alarm": f"yes, by row {self.alarm_row:,} at {self.alarm_time}" if self.alarm else "no",
            "changed since": f"row {self.since_row:,} at {self.since}" if self.alarm else None,
            "changed columns": ", ".join(column.name for column in self.columns) or None,
            "rows compared": f"{self.n_compared:,} of {self.n_rows:,} since {self.started}",
            "refused": f"{self.refused_share:.1%}, {self.recently_refused:.1%} of the last {self.n_recent:,}",
            "evidence": f"{self.log_wealth:.2f}, an alarm from {self.limit:.2f}",
        }
        return table_of_facts(facts, "Whether rows are like those that the model was calibrated on; counted from 0.")

    @classmethod
    def of(cls, reply: Mapping[str, Any]) -> Drift:
        """From a reply of the service; fields that are not known here are left alone."""
        known = {each.name: reply[each.name] for each in fields(cls)}
        columns = [{each.name: column[each.name] for each in fields(ChangedColumn)} for column in reply["columns"]]
        return cls(
            **{
                **known,
                "p_values": tuple(reply["p_values"]),
                "expected_p_values": tuple(reply["expected_p_values"]),
                "columns": tuple(ChangedColumn(**column) for column in columns),
            }
        )
