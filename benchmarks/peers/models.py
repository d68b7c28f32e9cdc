"""The circuits of each library, behind one interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import socratic
from benchmarks.peers.points import Point
from socratic.learning.settings import Rows, TrainingSettings
from socratic.learning.step import GradientStep
from socratic.workers import Workers

LEARNING_RATE = 0.01


class Model:
    """A circuit of some library.

    Parameters
    ----------
    module : Module
        Holds the parameters.
    evaluate : callable
        Rows (N, V) to log-likelihoods (N, C).
    circuit : Circuit, optional
        The same circuit with the same parameters in this library; None where it cannot be had.
    """

    def __init__(
        self, module: torch.nn.Module, evaluate: Callable[[Tensor], Tensor], circuit: socratic.Circuit | None
    ) -> None:
        self.module, self.evaluate, self.circuit = module, evaluate, circuit
        self.n_parameters = sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
        self.optimiser: torch.optim.Optimizer = torch.optim.Adam(module.parameters(), lr=LEARNING_RATE)

    def forward(self, x: Tensor, piece: int) -> Tensor:
        """Log-likelihoods (N, C), computed so many rows at a time."""
        self.module.eval()
        with torch.no_grad():
            return torch.cat([self.evaluate(rows) for rows in x.split(piece)])

    def step(self, x: Tensor, y: Tensor, piece: int) -> None:
        """One training step; the gradients of pieces of the batch add up to those of the batch."""
        self.module.train()
        self.optimiser.zero_grad()
        for rows, classes in zip(x.split(piece), y.split(piece), strict=True):
            (self._loss(rows, classes) / len(x)).backward()
        self.optimiser.step()

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """Gradient (N, V) of the loss by the rows: the same whatever the parameters are called."""
        self.module.train()
        rows = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(self._loss(rows, y), rows)
        return gradient

    def known_error(self, x: Tensor) -> float | None:  # noqa: ARG002 - what a model without a twin is checked by
        """Error of log-likelihoods relative to known ones; None where outputs can be compared with this library's."""
        return None

    def _loss(self, rows: Tensor, classes: Tensor) -> Tensor:
        return -self.evaluate(rows).gather(1, classes.unsqueeze(1)).sum()


class OwnModel(Model):
    """A circuit of this library; on a GPU its own training step, which is recorded."""

    def __init__(self, circuit: socratic.Circuit) -> None:
        super().__init__(circuit, circuit.log_likelihood, circuit)
        self._circuit = circuit
        self._step: GradientStep | None = None

    def step(self, x: Tensor, y: Tensor, piece: int) -> None:
        """One training step."""
        if x.is_cuda and piece >= len(x):
            self._recorded(len(x))(Rows(x, y, torch.ones(len(x), device=x.device)), LEARNING_RATE)
        else:
            super().step(x, y, piece)

    def _recorded(self, batch: int) -> GradientStep:
        if self._step is None or self._step.settings.batch_size != batch:
            settings = TrainingSettings(n_epochs=1, batch_size=batch, cross_entropy_weight=0.0)
            prior = torch.zeros(self._circuit.n_classes, device=self._circuit.device)
            self._step = GradientStep(self._circuit, settings, prior, None, Workers.present())
        return self._step


def own(circuit: socratic.Circuit) -> Model:
    """A circuit of this library."""
    return OwnModel(circuit)


def rat_spn(point: Point) -> socratic.Circuit:
    """The circuit of that size in this library."""
    return socratic.rat_spn(
        point.n_features,
        point.n_classes,
        n_sums=point.n_sums,
        n_leaves=point.n_sums,
        depth=point.depth,
        n_repetitions=point.n_repetitions,
    )


def build_spflow(point: Point) -> Model:
    """SPFlow's Einet with einsum layers.

    In evaluation mode and without gradients its layers normalise their weights once and keep them.
    """
    import numpy as np
    from spflow.modules.leaves.normal import Normal
    from spflow.zoo.einet import Einet

    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - SPFlow draws the sizes of the leaf regions from it
    shape = (point.n_features, point.n_sums, point.n_repetitions)
    leaves = Normal(
        scope=list(range(point.n_features)),
        out_channels=point.n_sums,
        num_repetitions=point.n_repetitions,
        # SPFlow's own initial deviations come arbitrarily close to 0: densities then exceed what float32 resolves.
        loc=torch.randn(shape),
        scale=torch.sqrt(0.1 + 0.9 * torch.rand(shape)),
        validate_args=False,  # torch's checks of every value cost time and are not needed here
    )
    einet = Einet(
        leaf_modules=[leaves],
        num_classes=point.n_classes,
        num_sums=point.n_sums,
        num_leaves=point.n_sums,
        depth=point.depth,
        num_repetitions=point.n_repetitions,
        layer_type="einsum",
    )
    # The root mixes the classes by a prior; below it they are still apart.
    head: Any = einet.root_node.inputs
    circuit = socratic.interop.from_spflow(einet)
    assert isinstance(circuit, socratic.Circuit)  # an Einet always is one
    return Model(einet, lambda x: head.log_likelihood(x).flatten(1), circuit)


def build_cirkit(point: Point) -> Model:
    """cirkit's random binary trees with Tucker layers, folded and optimised."""
    from functools import partial

    from cirkit.pipeline import PipelineContext
    from cirkit.symbolic.parameters import mixing_weight_factory
    from cirkit.templates.region_graph import RandomBinaryTree
    from cirkit.templates.utils import Parameterization, name_to_input_layer_factory, parameterization_to_factory

    torch.manual_seed(0)
    weights = parameterization_to_factory(Parameterization(activation="softmax", initialization="normal"))
    trees = RandomBinaryTree(point.n_features, depth=point.depth, num_repetitions=point.n_repetitions)
    symbolic = trees.build_circuit(
        input_factory=name_to_input_layer_factory("gaussian"),
        sum_product="tucker",
        sum_weight_factory=weights,
        nary_sum_weight_factory=partial(mixing_weight_factory, param_factory=weights),
        num_input_units=point.n_sums,
        num_sum_units=point.n_sums,
        num_classes=point.n_classes,
        factorize_multivariate=True,
    )
    compiled: Any = PipelineContext(backend="torch", semiring="lse-sum", fold=True, optimize=True).compile(symbolic)
    circuit = socratic.interop.from_cirkit(compiled)
    assert isinstance(circuit, socratic.Circuit)  # trees always are one
    return Model(compiled, lambda x: compiled(x).squeeze(1), circuit)


class JuiceModel(Model):
    """PyJuice's RAT-SPN, which has one root and takes steps of expectation maximisation instead of Adam's."""

    circuit = None

    def __init__(self, compiled: Any, n_parameters: int) -> None:
        self.module, self.evaluate, self.n_parameters = compiled, compiled, n_parameters

    def step(self, x: Tensor, y: Tensor, piece: int) -> None:  # noqa: ARG002 - it has no classes
        """One step of expectation maximisation; the flows of pieces of the batch add up to those of the batch."""
        compiled: Any = self.module
        compiled.init_param_flows(flows_memory=0.0)
        for rows in x.split(piece):
            compiled(rows)
            compiled.backward(rows, flows_memory=1.0)
        compiled.mini_batch_em(step_size=LEARNING_RATE, pseudocount=0.1)

    @torch.no_grad()
    def known_error(self, x: Tensor) -> float:
        """With all leaves standard normal, every mixture of their products is, whatever the weights are."""
        compiled: Any = self.module
        layers = list(compiled.input_layer_group)
        trained = [layer.params.clone() for layer in layers]
        for layer in layers:
            layer.params.view(-1, 2).copy_(torch.tensor([0.0, 1.0]))
        found = compiled(x).squeeze(-1).double()
        for layer, values in zip(layers, trained, strict=True):
            layer.params.copy_(values)
        exact = torch.distributions.Normal(0.0, 1.0).log_prob(x.double()).sum(1)
        return float(((found - exact) / exact).abs().max())


def build_juice(point: Point) -> Model:
    """PyJuice's RAT-SPN of nearly as many parameters.

    Its products are element-wise and its blocks are powers of two: it is another circuit of the same depth and
    repetitions, with the number of sums at which it has about as many parameters.
    """
    import pyjuice as juice

    def n_parameters(n_latents: int) -> int:
        regions = point.n_repetitions * (2 ** (point.depth + 1) - 1)
        return regions * n_latents**2 + 2 * point.n_features * n_latents

    wanted = own(rat_spn(point)).n_parameters
    n_latents = min((2**power for power in range(3, 12)), key=lambda n: abs(n_parameters(n) - wanted))
    torch.manual_seed(0)
    root = juice.structures.RAT_SPN(
        num_vars=point.n_features,
        num_latents=n_latents,
        depth=point.depth,
        num_repetitions=point.n_repetitions,
        input_dist=juice.distributions.Gaussian(mu=0.0, sigma=1.0),
    )
    return JuiceModel(juice.TensorCircuit(root), n_parameters(n_latents))


BUILDERS: dict[str, Callable[[Point], Model]] = {
    "socratic": lambda point: own(rat_spn(point)),
    "spflow": build_spflow,
    "cirkit": build_cirkit,
    "pyjuice": build_juice,
}
PEERS = {"cpu": ("spflow", "cirkit"), "cuda": ("spflow", "cirkit", "pyjuice")}
NAMES = {"spflow": "SPFlow", "cirkit": "cirkit", "pyjuice": "PyJuice"}
DISTRIBUTIONS = {"spflow": "spflow", "cirkit": "libcirkit", "pyjuice": "pyjuice"}
"""What they are installed by."""
