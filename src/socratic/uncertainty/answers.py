"""What models say of rows: a classifier's answer, and the doubt of classifiers and densities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from socratic.inference.posterior import Posterior
from socratic.inference.results import Moments
from socratic.notebook import draw_points, of_classes, table_of_rows
from socratic.uncertainty.scores import SCORES, Scores

_CLASSIFIED = (
    "Number ± standard deviation, over what is in doubt; entropy, mutual information and log-likelihood in nats. A row "
    "with a small p-value is unfamiliar."
)


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """What a classifier knows and does not know of each row.

    Attributes
    ----------
    mean, std : ndarray (N, C)
        Mean and standard deviation of the class probabilities over what is in doubt: the weights, or dropout masks.
    entropy : ndarray (N,)
        Entropy of the mean, in nats.
    mutual_information : ndarray (N,)
        The part of the entropy that is the model's own doubt.
    log_likelihood : ndarray (N,)
        log p(x).
    log_std : ndarray (N,)
        Standard deviation of log p(x), in nats; NaN where it is not known.
    profile, class_profile : ndarray (N,)
        How far the likelihoods of a row's parts are from those of familiar rows, and of familiar rows of the class it
        most probably belongs to: half the squared Mahalanobis distance.
    p_value : ndarray (N,)
        Share of familiar rows that are at least as unusual; small for unfamiliar rows.
    unusualness : ndarray (N, S)
        What the p-value is made of: the scores that :meth:`scores` gives by name, without units and
        comparable between rows whatever cells they miss; higher is more unusual.
    """

    mean: np.ndarray
    std: np.ndarray
    entropy: np.ndarray
    mutual_information: np.ndarray
    log_likelihood: np.ndarray
    log_std: np.ndarray
    profile: np.ndarray
    class_profile: np.ndarray
    p_value: np.ndarray
    unusualness: np.ndarray

    def scores(self) -> dict[str, np.ndarray]:
        """Every score of unusualness (N,) that a detector may use, by name; higher is more unusual.

        Those that the model does not know are left out.
        """
        found = dict(zip(SCORES, self.unusualness.T, strict=True))
        return {name: score for name, score in found.items() if not len(score) or not np.isnan(score).all()}

    def plot(self, ax: Any = None) -> Any:
        """A point for each row: how familiar it is, and how ambiguous.

        Unfamiliar rows stand on the left, ambiguous ones at the top. Where there are no p-values, log p(x) takes
        their place.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib.axes.Axes
        """
        if np.isnan(self.p_value).all():
            return draw_points(ax, self.log_likelihood, self.entropy, ("log-likelihood", "entropy, nats"))
        return draw_points(ax, self.p_value, self.entropy, ("p-value: how familiar", "entropy, nats: how ambiguous"))

    def _columns(self) -> dict[str, Any]:
        return {
            "entropy": self.entropy,
            "mutual information": self.mutual_information,
            "log-likelihood": (self.log_likelihood, self.log_std),
            "p-value": self.p_value,
        }

    def _repr_html_(self) -> str:
        return table_of_rows({**of_classes(self.mean, self.std), **self._columns()}, _CLASSIFIED, n_rows=len(self.mean))

    def judged_by(self, scores: Scores) -> Uncertainty:
        """The same with other :meth:`scores`."""
        unknown = np.full(len(self.unusualness), np.nan)
        return replace(self, unusualness=np.stack([scores.get(name, unknown) for name in SCORES], 1))

    @classmethod
    def of_posterior(
        cls, posterior: Posterior, log_likelihood: np.ndarray, profile: np.ndarray, class_profile: np.ndarray
    ) -> Uncertainty:
        """From the posterior over what is in doubt, log p(x) and profiles; there are no p-values without a detector."""
        mean, std, entropy, information = (
            tensor.double().cpu().numpy()
            for tensor in (posterior.mean, posterior.std, posterior.entropy, posterior.mutual_information)
        )
        nothing = np.full(len(mean), np.nan)
        log_std = nothing if posterior.log_density_std is None else posterior.log_density_std.double().cpu().numpy()
        unlikely = -log_likelihood
        scores = (unlikely, unlikely, entropy, information, log_std, profile, class_profile)
        doubt = (mean, std, entropy, information, log_likelihood, log_std, profile, class_profile, nothing)
        return cls(*doubt, unusualness=np.stack(scores, 1))


@dataclass(frozen=True, eq=False)
class DensityUncertainty:
    """What a density knows and does not know of each row: p(x) over what is in doubt, and uncertain leaves.

    Weights are right on average: ``log_mean`` is ``log_likelihood``. Dropout takes weight away and never adds any, so
    that it is less. The deviations have no units.

    Attributes
    ----------
    log_likelihood : ndarray (N,)
        log p(x) of the circuit as it is.
    log_mean : ndarray (N,)
        Log of the mean of p(x).
    relative_std : ndarray (N,)
        Standard deviation of p(x), divided by its mean; 0 where p(x) is always 0.
    log_std : ndarray (N,)
        Standard deviation, in nats, of log p(x), if p(x) is log-normal with this mean and deviation:
        sqrt(log(1 + relative_std^2)).
    method : str
        How the moments were computed, as in :class:`~socratic.Moments`. All are exact but ``"bounds"``: then
        ``relative_std`` is an upper bound.
    """

    log_likelihood: np.ndarray
    log_mean: np.ndarray
    relative_std: np.ndarray
    log_std: np.ndarray
    method: str

    def plot(self, ax: Any = None) -> Any:
        """A point for each row: how likely it is, and how much in doubt that is.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib.axes.Axes
        """
        return draw_points(ax, self.log_likelihood, self.log_std, ("log-likelihood", "its deviation, nats"))

    def _repr_html_(self) -> str:
        columns = {
            "log-likelihood": (self.log_likelihood, self.log_std),
            "log of the mean": self.log_mean,
            "relative deviation": self.relative_std,
        }
        bounded = ": deviations are upper bounds" if self.method == "bounds" else ""
        note = f"Number ± standard deviation, in nats. Method {self.method}{bounded}."
        return table_of_rows(columns, note, n_rows=len(self.log_mean))

    @classmethod
    def of_moments(
        cls, moments: Moments, log_likelihood: np.ndarray, log_volume: np.ndarray | float
    ) -> DensityUncertainty:
        """From the moments of the only class.

        Parameters
        ----------
        moments : Moments (N, 1)
        log_likelihood : ndarray (N,)
            log p(x), in the units of the data.
        log_volume : ndarray (N,) or float
            By how much log-densities of the circuit exceed those in the units of the data.
        """
        bounds = moments.variance_bounds
        relative_variance = moments.relative_variance if bounds is None else bounds[1]
        log_mean, variance = (
            tensor.squeeze(-1).double().cpu().numpy() for tensor in (moments.log_mean, relative_variance)
        )
        variance = np.where(np.isneginf(log_mean), 0.0, variance)
        return cls(
            log_likelihood, log_mean - log_volume, np.sqrt(variance), np.sqrt(np.log1p(variance)), moments.method
        )


@dataclass(frozen=True, eq=False)
class Answer:
    """Everything a classifier says of rows.

    Attributes
    ----------
    probabilities : ndarray (N, C)
        Class probabilities p(class | x) of the circuit as it is; of several circuits, their average.
    uncertainty : Uncertainty
        Its doubt about them.
    """

    probabilities: np.ndarray
    uncertainty: Uncertainty

    def _repr_html_(self) -> str:
        best = self.probabilities.argmax(1)
        columns = {"class": best, "probability": self.probabilities.max(1), **self.uncertainty._columns()}
        return table_of_rows(columns, _CLASSIFIED, n_rows=len(best))

    def take(self, rows: np.ndarray) -> Answer:
        """The answers to some of the rows."""
        doubt = {each.name: getattr(self.uncertainty, each.name)[rows] for each in fields(Uncertainty)}
        return Answer(self.probabilities[rows], Uncertainty(**doubt))

    @staticmethod
    def concatenate(parts: Sequence[Answer]) -> Answer:
        """Join the answers to consecutive batches of rows."""
        doubts = [part.uncertainty for part in parts]
        columns = {
            each.name: np.concatenate([getattr(doubt, each.name) for doubt in doubts]) for each in fields(Uncertainty)
        }
        return Answer(np.concatenate([part.probabilities for part in parts]), Uncertainty(**columns))


@dataclass(frozen=True, eq=False)
class Judgement:
    """How familiar rows are.

    Attributes
    ----------
    scores : ndarray (K, N)
        How unusual they are, by the model of each fold; by the one model there is, if calibration rows were held out
        for good.
    p_value : ndarray (N,)
        Share of familiar rows that are at least as unusual.
    """

    scores: np.ndarray
    p_value: np.ndarray
