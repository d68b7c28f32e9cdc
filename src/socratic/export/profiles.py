"""Profiles in torch: how far the likelihoods of a row's parts are from familiar ones."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.export.circuits import Likelihood
from socratic.export.familiarity import wide
from socratic.inference.layered.regions import LayeredRegions
from socratic.uncertainty.profile import Profile


class TorchProfile:
    """The score of a :class:`~socratic.uncertainty.Profile`, for a layered circuit."""

    @torch.no_grad()
    def __init__(self, profile: Profile, circuit: Circuit, log_prior: Tensor) -> None:
        self.likelihood, self.log_prior, self.by_class = Likelihood(circuit), log_prior, profile.by_class
        self.regions = LayeredRegions(circuit, circuit.weights(), profile.min_columns)
        mixtures = log_prior.double().unsqueeze(0)
        if profile.by_class:
            n_classes = circuit.n_classes
            mixtures = torch.full((n_classes, n_classes), -torch.inf, dtype=torch.float64).fill_diagonal_(0.0)
        self.usage = self.regions.usage(mixtures)
        members = torch.zeros(len(self.regions.scopes), circuit.n_features, dtype=torch.float64)
        for number, scope in enumerate(self.regions.scopes):
            members[number, list(scope)] = 1.0
        self.members = members.T.contiguous()
        self.means = (members * wide(profile.column_mean)).T.contiguous()
        self.excess, self.precision = wide(profile.excess), wide(profile.precision)

    def __call__(self, rows: Tensor) -> Tensor:
        """Unusualness (N,) of rows (N, V): infinite where a row is impossible."""
        if self.by_class:
            classes = (self.likelihood(rows) + self.log_prior).argmax(1)
        else:
            classes = torch.zeros_like(rows[:, 0], dtype=torch.long)
        values = self.regions.of_mixtures(rows, self.usage, classes).to(rows.dtype).double()
        observed = (~rows.isnan()).double()
        expected = observed @ self.means + (observed @ self.members) * self.excess[classes]
        impossible = (values == -torch.inf).any(1, keepdim=True)
        deviation = torch.where(values.isnan() | impossible, 0.0, values - expected)
        distance = ((deviation @ self.precision) * deviation).sum(1)
        return torch.where(impossible.squeeze(1), torch.inf, 0.5 * distance)
