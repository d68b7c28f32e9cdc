"""Circuits of other libraries, trained there, with dropout inference here.

SPFlow and cirkit are optional (``pip install socratic-circuits[spflow]``, ``socratic-circuits[cirkit]``) and imported
when used.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from socratic.circuit import Circuit, Graph
from socratic.interop.blocks import Block, parameter_of

__all__ = ["class_prior", "from_cirkit", "from_spflow"]


def from_spflow(module: Any) -> Circuit | Graph:
    """A circuit with the structure and the parameters of an SPFlow module.

    Parameters
    ----------
    module : spflow.modules.module.Module
        Leaves (normal, Bernoulli, categorical, binomial), sums and products of any nesting, a ``RatSPN`` or an
        ``Einet``. The output has one feature and one repetition; its channels become the classes. Of a ``RatSPN``
        or ``Einet`` with several classes these are the classes: :func:`class_prior` gives the prior above them.

    Returns
    -------
    Circuit or Graph
        A :class:`~socratic.circuit.circuit.Circuit` where the regions form a tree for each repetition, as in
        RAT-SPNs and Einets; otherwise a :class:`~socratic.circuit.graph.Graph` that shares what the module shares.

    Raises
    ------
    ValueError
        If a part has no counterpart here; the message names it.
    """
    from socratic.interop.spflow import read_spflow

    return _lower(read_spflow(module))


def from_cirkit(circuit: Any) -> Circuit | Graph:
    """A circuit with the structure and the parameters of a compiled cirkit circuit.

    Parameters
    ----------
    circuit : cirkit.backend.torch.circuits.TorchCircuit
        With Gaussian, categorical and binomial inputs, and sum, Hadamard, Kronecker, CP and Tucker layers with
        normalised weights. The units of the output layer become the classes.

    Returns
    -------
    Circuit or Graph
        A :class:`~socratic.circuit.circuit.Circuit` where the regions form a tree for each repetition; otherwise a
        :class:`~socratic.circuit.graph.Graph` that shares what the circuit shares.

    Raises
    ------
    ValueError
        If a layer or its parametrisation has no counterpart here; the message names it.
    """
    from socratic.interop.cirkit import read_cirkit

    return _lower(read_cirkit(circuit))


def class_prior(module: Any) -> Tensor:
    """Prior class probabilities (C,) of an SPFlow ``RatSPN`` or ``Einet``: the weights of its last sum."""
    from socratic.interop.spflow import class_module

    if class_module(module) is module or class_module(module) is module.root_node:
        raise ValueError("module must be a RatSPN or an Einet with several classes: others have no class prior")
    prior: Tensor = module.root_node.weights.detach().flatten()
    return prior


def _lower(root: Block) -> Circuit | Graph:
    """The layered circuit of blocks, or the graph of their nodes where they fit no tensors."""
    from socratic.interop.nodes import as_nodes
    from socratic.interop.tensors import NotLayeredError, as_circuit

    try:
        return as_circuit(root)
    except NotLayeredError:
        like = parameter_of(root)
        return Graph(as_nodes(root), dtype=like.dtype).to(like.device)
