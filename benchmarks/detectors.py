"""Eleven ways to tell unusual rows of numbers: the circuits', and ten that are commonly compared with.

A detector is a function of the rows to learn from, the rows to score, and a seed; it returns scores (N,), higher for
more unusual rows. Without rows to score it scores those it learned from. All but the circuits get columns of mean 0 and
variance 1. Settings are scikit-learn's or the publication's defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.stats import skew
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from socratic import CircuitOutlierDetector

Detector = Callable[[np.ndarray, np.ndarray | None, int], np.ndarray]

CIRCUIT = "circuit"


def circuit(train: np.ndarray, test: np.ndarray | None, seed: int, structure: str | None = None) -> np.ndarray:
    """-log p(x) of the outlier detector, with its defaults but for the structure if one is given.

    Rows that it learns from and scores may be anything: kernels are told to expect a tenth of outliers among them, and
    judge rows as they then do.
    """
    model = CircuitOutlierDetector(random_state=seed, structure=structure or "auto")
    if test is None and structure in (None, "kernels"):
        return -model.set_params(training_outliers=0.1).fit(train).decision_function(train)
    return -model.fit(train).score_samples(train if test is None else test)


def isolation_forest(train: np.ndarray, test: np.ndarray | None, seed: int) -> np.ndarray:
    """Liu et al., ICDM 2008."""
    return -IsolationForest(random_state=seed).fit(train).score_samples(train if test is None else test)


def local_outlier_factor(train: np.ndarray, test: np.ndarray | None, seed: int) -> np.ndarray:  # noqa: ARG001
    """Breunig et al., SIGMOD 2000: 20 neighbours."""
    model = LocalOutlierFactor(novelty=test is not None).fit(train)
    return -(model.negative_outlier_factor_ if test is None else model.score_samples(test))


def one_class_svm(train: np.ndarray, test: np.ndarray | None, seed: int) -> np.ndarray:  # noqa: ARG001
    """Schölkopf et al., 2001: RBF kernel, nu = 0.5."""
    return -OneClassSVM().fit(train).score_samples(train if test is None else test)


def gaussian_mixture(train: np.ndarray, test: np.ndarray | None, seed: int) -> np.ndarray:
    """-log p(x) of five Gaussians with full covariances."""
    return -GaussianMixture(5, random_state=seed).fit(train).score_samples(train if test is None else test)


def nearest_neighbours(train: np.ndarray, test: np.ndarray | None, seed: int) -> np.ndarray:  # noqa: ARG001
    """Distance to the fifth nearest neighbour (Ramaswamy et al., SIGMOD 2000), as PyOD's KNN has it by default."""
    # Without rows to ask for, a row is not its own neighbour.
    return NearestNeighbors(n_neighbors=5).fit(train).kneighbors(test)[0][:, -1]


def pca(train: np.ndarray, test: np.ndarray | None, seed: int) -> np.ndarray:  # noqa: ARG001
    """Squared distance to the principal components that hold 90 % of the variance."""
    model, rows = PCA(0.9, svd_solver="full").fit(train), train if test is None else test
    return ((rows - model.inverse_transform(model.transform(rows))) ** 2).sum(1)


def elliptic_envelope(train: np.ndarray, test: np.ndarray | None, seed: int) -> np.ndarray:
    """Mahalanobis distance by the minimum covariance determinant (Rousseeuw and Van Driessen, 1999)."""
    return EllipticEnvelope(random_state=seed).fit(train).mahalanobis(train if test is None else test)


def ecod(train: np.ndarray, test: np.ndarray | None, seed: int) -> np.ndarray:  # noqa: ARG001
    """Li et al., TKDE 2022: the largest of three sums over columns: of left tails, right tails, and skewed sides."""
    return np.max([tails.sum(1) for tails in _tails(train, test)], axis=0)


def copod(train: np.ndarray, test: np.ndarray | None, seed: int) -> np.ndarray:  # noqa: ARG001
    """Li et al., ICDM 2020, as its authors' PyOD has it: in each column the skewed side or the mean of both sides.

    The article itself defines what :func:`ecod` is.
    """
    left, right, skewed = _tails(train, test)
    return np.maximum(skewed, (left + right) / 2).sum(1)


def _tails(train: np.ndarray, test: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """-log of the share of rows that are at most, and at least, each value, and of the side of the longer tail.

    A row to score counts as one more row of the sample, so that no share is 0.
    """
    ordered, rows, more = np.sort(train, axis=0), train if test is None else test, int(test is not None)
    n_rows, columns = len(train) + more, range(train.shape[1])
    at_most = np.stack([np.searchsorted(ordered[:, j], rows[:, j], side="right") for j in columns], axis=1)
    below = np.stack([np.searchsorted(ordered[:, j], rows[:, j], side="left") for j in columns], axis=1)
    left, right = -np.log((at_most + more) / n_rows), -np.log((len(train) - below + more) / n_rows)
    return left, right, np.where(np.nan_to_num(skew(train, axis=0)) < 0, left, right)


def hbos(train: np.ndarray, test: np.ndarray | None, seed: int, n_bins: int = 10) -> np.ndarray:  # noqa: ARG001
    """Goldstein and Dengel, KI 2012: sum over columns of -log the height of a value's bin, the highest being 1.

    Bins have equal widths; 0.1 is added to the heights, as in PyOD, so that empty bins and values outside are not
    infinitely unusual.
    """
    rows = train if test is None else test
    scores = np.zeros(len(rows))
    for known, values in zip(train.T, rows.T, strict=True):
        counts, edges = np.histogram(known, n_bins)
        place = np.searchsorted(edges, values, side="right") - 1
        place[values == edges[-1]] = n_bins - 1  # the last bin includes its end
        heights = np.append(counts / counts.max(), 0.0)  # the last for values outside, from either side
        scores -= np.log(heights[np.where((place >= 0) & (place < n_bins), place, n_bins)] + 0.1)
    return scores


def standardised(detector: Detector, train: np.ndarray, test: np.ndarray | None, seed: int) -> np.ndarray:
    """Scores by a detector of columns of mean 0 and variance 1; constant ones are only shifted."""
    scaler = StandardScaler().fit(train)
    return detector(scaler.transform(train), None if test is None else scaler.transform(test), seed)


BASELINES: dict[str, Detector] = {
    "isolation forest": partial(standardised, isolation_forest),
    "local outlier factor": partial(standardised, local_outlier_factor),
    "one-class SVM": partial(standardised, one_class_svm),
    "Gaussian mixture": partial(standardised, gaussian_mixture),
    "nearest neighbours": partial(standardised, nearest_neighbours),
    "PCA": partial(standardised, pca),
    "elliptic envelope": partial(standardised, elliptic_envelope),
    "ECOD": partial(standardised, ecod),
    "COPOD": partial(standardised, copod),
    "HBOS": partial(standardised, hbos),
}


def detectors(structures: list[str]) -> dict[str, Detector]:
    """All by name: the circuits' default, those of other structures, and the others."""
    others = {f"{CIRCUIT}, {structure}": partial(circuit, structure=structure) for structure in structures}
    return {CIRCUIT: circuit, **others, **BASELINES}
