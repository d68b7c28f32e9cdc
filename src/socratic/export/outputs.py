"""What exported programs give: their outputs by name, and which of them a model has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from torch import Tensor, nn

MEANINGS = {
    "class_log_likelihood": "log p(x | class), (N, C)",
    "log_mean": "log of the mean of p(x | class) over what is in doubt, (N, C)",
    "relative_covariance": "covariance of p(x | class) of two classes, divided by both means, (N, C, C)",
    "probabilities": "p(class | x), (N, C)",
    "log_likelihood": "log p(x), in the units of the data, (N,)",
    "mean": "mean of the class probabilities over what is in doubt, (N, C)",
    "std": "standard deviation of the class probabilities over what is in doubt, (N, C)",
    "entropy": "entropy of the mean, in nats, (N,)",
    "mutual_information": "the part of the entropy that is the model's own doubt, in nats, (N,)",
    "log_std": "standard deviation of log p(x), in nats, (N,)",
    "relative_std": "standard deviation of p(x), divided by its mean, (N,)",
    "p_value": "share of familiar rows that are at least as unusual, (N,)",
    "unfamiliar": "whether the model refuses the row, its p-value being at most the rejection rate, (N,)",
}
"""The outputs that there are."""


class Exported(nn.Module, ABC):
    """What a model computes from encoded rows, in torch alone: ready for ``torch.export``.

    Attributes
    ----------
    example : Tensor (2, ...)
        Rows of the shape and type that it reads.
    available : tuple of str
        The outputs that this model has, of :data:`MEANINGS`.
    refused : dict of str
        Why it does not have the others that one might expect.
    names : tuple of str
        The outputs that :meth:`forward` gives: all, unless :meth:`choose` was called.
    """

    example: Tensor
    available: tuple[str, ...]
    refused: Mapping[str, str]
    names: tuple[str, ...]

    @abstractmethod
    def outputs(self, x: Tensor, wanted: frozenset[str]) -> dict[str, Tensor]:
        """The outputs that are wanted, and perhaps others, of rows (N, ...)."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """The outputs :attr:`names`, in this order."""
        found = self.outputs(x, frozenset(self.names))
        return tuple(found[name] for name in self.names)

    def choose(self, outputs: Sequence[str] | None) -> Exported:
        """Set :attr:`names` to some outputs; all of them if None."""
        if isinstance(outputs, str):
            raise ValueError(f"outputs must be a sequence of names; got the text {outputs!r}")
        names = self.available if outputs is None else tuple(dict.fromkeys(outputs))
        if not names:
            raise ValueError("outputs must name at least one output")
        for name in names:
            if name not in self.available:
                reason = self.refused.get(name, "there is no such output of this model")
                raise ValueError(f"{name!r} cannot be exported: {reason}; what can: {', '.join(self.available)}")
        self.names = names
        return self
