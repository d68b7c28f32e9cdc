"""What a classifier says of rows: its answer, and its doubt about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from socratic.inference.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """What a classifier knows and does not know of each row.

    Attributes
    ----------
    mean, std : ndarray (N, C)
        Mean and standard deviation of the class probabilities over dropout masks.
    entropy : ndarray (N,)
        Entropy of the mean, in nats.
    mutual_information : ndarray (N,)
        The part of the entropy that is the model's own doubt.
    log_likelihood : ndarray (N,)
        log p(x).
    p_value : ndarray (N,)
        Share of familiar rows that are at least as unusual; small for unfamiliar rows.
    """

    mean: np.ndarray
    std: np.ndarray
    entropy: np.ndarray
    mutual_information: np.ndarray
    log_likelihood: np.ndarray
    p_value: np.ndarray

    @classmethod
    def of_posterior(cls, posterior: Posterior, log_likelihood: np.ndarray) -> Uncertainty:
        """From the posterior over dropout masks and log p(x); p-values are NaN as long as there is no detector."""
        mean, std, entropy, information = (
            tensor.double().cpu().numpy()
            for tensor in (posterior.mean, posterior.std, posterior.entropy, posterior.mutual_information)
        )
        return cls(mean, std, entropy, information, log_likelihood, np.full(len(mean), np.nan))


@dataclass(frozen=True, eq=False)
class Answer:
    """Everything a classifier says of rows.

    Attributes
    ----------
    probabilities : ndarray (N, C)
        Class probabilities p(class | x) of the whole circuit, without dropout.
    uncertainty : Uncertainty
        Its doubt about them.
    """

    probabilities: np.ndarray
    uncertainty: Uncertainty

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
