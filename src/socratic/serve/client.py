"""A client of the service, which needs nothing but Python."""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

from socratic.files import replacing
from socratic.notebook import table_of_facts
from socratic.serve.drift import Drift

_TABLES = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}
Label: TypeAlias = str | bool | int | float
Cell: TypeAlias = str | bool | int | float | None


class ServiceError(Exception):
    """A request that the service did not answer.

    Attributes
    ----------
    status : int
        The HTTP status; 0 if the service was not reached.
    retry_after : float or None
        Seconds after which to try again, if the service says so.
    """

    def __init__(self, message: str, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


@dataclass(frozen=True)
class Reason:
    """A column, or a region of an image, that speaks against a row.

    Attributes
    ----------
    name : str
    excess : float or None
        By how much it is more surprising than usual, in nats; None is infinitely.
    p_value : float or None
        Share of familiar rows in which it is at least as surprising.
    """

    name: str
    excess: float | None
    p_value: float | None


@dataclass(frozen=True)
class Prediction:
    """What a model says of a row; None where it does not know.

    Attributes
    ----------
    label : str, bool, int, float or None
        The most probable class; densities and detectors have none.
    probability, std : float or None
        Of the label, and its standard deviation over what is in doubt.
    probabilities, stds : dict
        The same of every class.
    entropy, mutual_information : float or None
        Of the class probabilities, in nats, and the part of it that is the model's own doubt.
    log_likelihood, log_std : float or None
        log p(x), and its standard deviation over what is in doubt.
    p_value : float or None
        Share of familiar rows that are at least as unusual.
    risk : float or None
        The smallest risk at which the row is not ambiguous.
    unfamiliar, ambiguous : bool or None
    verdict : str or None
        "familiar", "unfamiliar" or "ambiguous".
    unseen : tuple of str
        Columns that hold values which no training row holds.
    reasons : tuple of Reason
        The parts that speak most against the row, if they were asked for.
    """

    label: Label | None
    probability: float | None
    std: float | None
    probabilities: Mapping[Label, float | None]
    stds: Mapping[Label, float | None]
    entropy: float | None
    mutual_information: float | None
    log_likelihood: float | None
    log_std: float | None
    p_value: float | None
    risk: float | None
    unfamiliar: bool | None
    ambiguous: bool | None
    verdict: str | None
    unseen: tuple[str, ...]
    reasons: tuple[Reason, ...]

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {
            "label": self.label,
            **{f"p({label})": (share, self.stds[label]) for label, share in self.probabilities.items()},
            "verdict": self.verdict,
            "p-value": self.p_value,
            "entropy": self.entropy,
            "mutual information": self.mutual_information,
            "log-likelihood": (self.log_likelihood, self.log_std),
            "unseen": ", ".join(self.unseen) or None,
            "reasons": ", ".join(reason.name for reason in self.reasons) or None,
        }
        return table_of_facts(
            facts, "What the model says of a row, ± standard deviations; a dash where it does not know."
        )

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Prediction:
        """From a record of the service; fields that are not known here are left alone."""
        classes = record["probabilities"] or []
        plain = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
        return cls(
            **{
                **plain,
                "probabilities": {each["label"]: each["probability"] for each in classes},
                "stds": {each["label"]: each["std"] for each in classes},
                "unseen": tuple(record["unseen"] or ()),
                "reasons": tuple(Reason(**reason) for reason in record["reasons"] or ()),
            }
        )


class Client:
    """Asks a service.

    Parameters
    ----------
    url : str
        Such as "http://127.0.0.1:8000".
    token : str, optional
        If the service needs one.
    timeout : float
        Seconds to wait for it.
    """

    def __init__(self, url: str = "http://127.0.0.1:8000", *, token: str | None = None, timeout: float = 60.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url must begin with http:// or https://; got {url!r}")
        self._url, self._token, self._timeout = url.rstrip("/"), token, timeout

    def models(self) -> list[str]:
        """The names of all models."""
        return list(self._json("/v1/models")["models"])

    def model(self, name: str | None = None) -> dict[str, Any]:
        """What a model is, takes and says."""
        return dict(self._json(f"/v1/model{_query(name)}"))

    def drift(self, model: str | None = None) -> Drift:
        """Whether the rows that a model is asked about are still like those that it was calibrated on."""
        return Drift.of(self._json(f"/v1/drift{_query(model)}"))

    def predict(
        self,
        rows: Sequence[Mapping[str, Cell]],
        *,
        model: str | None = None,
        rejection_rate: float | None = None,
        risk: float | None = None,
        doubt: str | None = None,
        dropout: float | None = None,
        reasons: int = 0,
    ) -> list[Prediction]:
        """Answer rows.

        Parameters
        ----------
        rows : sequence of mappings
            Values by column; those that are left out, or None, are not known.
        model : str, optional
            May be left out if only one is served.
        rejection_rate, risk, doubt, dropout : optional
            In place of the model's.
        reasons : int
            Parts of each row to name that make it unusual, at most.
        """
        asked = {"rows": [dict(row) for row in rows], "model": model, "reasons": reasons}
        return self._predict(asked, rejection_rate=rejection_rate, risk=risk, doubt=doubt, dropout=dropout)

    def predict_image(
        self,
        image: bytes | str | Path,
        *,
        resize: bool = False,
        model: str | None = None,
        rejection_rate: float | None = None,
        risk: float | None = None,
        doubt: str | None = None,
        dropout: float | None = None,
        reasons: int = 0,
    ) -> Prediction:
        """Answer an image: the content of a file, or its path; the other parameters are those of :meth:`predict`.

        ``resize`` says whether an image of another size is resized or refused.
        """
        content = image if isinstance(image, bytes) else Path(image).read_bytes()
        asked = {"image": base64.b64encode(content).decode(), "resize": resize, "model": model, "reasons": reasons}
        (answer,) = self._predict(asked, rejection_rate=rejection_rate, risk=risk, doubt=doubt, dropout=dropout)
        return answer

    def predict_table(
        self,
        table: str | Path,
        answers: str | Path,
        *,
        model: str | None = None,
        rejection_rate: float | None = None,
        risk: float | None = None,
        doubt: str | None = None,
        dropout: float | None = None,
        prefix: str = "",
        harmless: bool = False,
    ) -> None:
        """Answer a table of any length: the columns of ``socratic predict`` are added to its rows.

        Parameters
        ----------
        table, answers : path
            Files to read and to write, both .csv or both .parquet; ``answers`` appears when all rows are answered.
        model, rejection_rate, risk, doubt, dropout
            Those of :meth:`predict`.
        prefix : str
            Put before the names of the new columns.
        harmless : bool
            Whether an apostrophe is put before cells of a CSV file that a spreadsheet would run; refused of .parquet.
        """
        source, target = Path(table), Path(answers)
        kind = _TABLES.get(source.suffix.lower())
        if kind is None or source.suffix.lower() != target.suffix.lower():
            raise ValueError(f"table and answers must both end in .csv or both in .parquet; got {source} and {target}")
        asked: dict[str, Any] = {"rejection_rate": rejection_rate, "risk": risk, "doubt": doubt, "dropout": dropout}
        given = {name: value for name, value in asked.items() if value is not None}
        if model is not None:
            given["model"] = model
        query = urllib.parse.urlencode({**given, "prefix": prefix, "harmless": harmless})
        path = f"/v1/predict/batch?{query}"
        with source.open("rb") as rows, self._open(path, rows, kind) as reply, replacing(target) as draft:
            try:
                with draft.open("wb") as file:
                    shutil.copyfileobj(reply, file)
            except http.client.HTTPException as error:
                raise ServiceError(f"the answers to {source} ended too early: {error!r}") from error

    def is_ready(self) -> bool:
        """Whether the service answers."""
        try:
            self._json("/readyz")
        except ServiceError:
            return False
        return True

    def _predict(self, asked: Mapping[str, Any], **options: Any) -> list[Prediction]:
        given = {name: value for name, value in {**asked, **options}.items() if value is not None}
        answers = self._json("/v1/predict", json.dumps(given).encode())["answers"]
        return [Prediction.of(record) for record in answers]

    def _json(self, path: str, body: bytes | None = None) -> Any:
        with self._open(path, body, "application/json") as reply:
            return json.load(reply)

    def _open(self, path: str, body: bytes | IO[bytes] | None, content_type: str) -> Any:
        headers = {"Accept": "*/*"}
        if body is not None:
            headers["Content-Type"] = content_type
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(self._url + path, body, headers)
        try:
            return urllib.request.urlopen(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            with error:
                raise _service_error(error) from None
        except (urllib.error.URLError, OSError) as error:
            raise ServiceError(f"{self._url} was not reached: {getattr(error, 'reason', error)}") from error


def _query(model: str | None) -> str:
    return "" if model is None else f"?model={urllib.parse.quote(model, safe='')}"


def _service_error(error: urllib.error.HTTPError) -> ServiceError:
    try:
        message = str(json.loads(error.read())["error"])
    except (ValueError, KeyError, TypeError, OSError):
        message = f"HTTP status {error.code}"
    retry = error.headers.get("Retry-After")
    return ServiceError(message, error.code, float(retry) if retry and retry.isdigit() else None)
