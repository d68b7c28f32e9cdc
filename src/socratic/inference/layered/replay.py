"""CUDA graphs of queries: recorded when rows of the same shape come again, and replayed from then on.

A query of a small batch is a hundred short kernels, and starting them takes longer than running them; a graph starts
them all at once. A recording reads the parameters where they lie, so it follows every change of their values, and is
forgotten when they come to lie elsewhere. What it takes for granted of values (:func:`~socratic.tracing.holds`) is
computed along with it and asked for after each replay: where it does not hold, the query is computed the usual way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.memory import MOST_RECORDINGS, recorded_bytes
from socratic.shortcuts import allowed_shortcuts, may_replay
from socratic.tracing import presuming

Outputs = tuple[Tensor, ...]
Compute = Callable[[Tensor], Outputs]


class Recording(Protocol):
    """A query of rows of one shape, ready to be computed again."""

    n_bytes: int
    """Memory that it holds."""

    def replay(self, rows: Tensor) -> Outputs | None:
        """The results for these rows, in memory of their own; None where what was taken for granted does not hold."""


class GraphRecording:
    """A query as a CUDA graph, with memory of its own for the rows and all that follows from them."""

    def __init__(self, compute: Compute, rows: Tensor) -> None:
        device = rows.device
        with torch.cuda.device(device), torch.inference_mode(False), torch.no_grad():
            self._rows = torch.empty(rows.shape, dtype=rows.dtype, device=device).copy_(rows)
            compute(self._rows)  # what is set up on first use must not be set up while recording
            torch.cuda.synchronize(device)
            torch.cuda.empty_cache()
            before = torch.cuda.memory_reserved(device)
            self._graph = torch.cuda.CUDAGraph()
            with presuming() as presumed, torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                self._outputs = compute(self._rows)
                self._holds = torch.stack(presumed).all() if presumed else None
            self.n_bytes = torch.cuda.memory_reserved(device) - before + self._rows.nbytes

    def replay(self, rows: Tensor) -> Outputs | None:
        """The results for these rows."""
        with torch.cuda.device(rows.device):
            self._rows.copy_(rows)
            self._graph.replay()
            outputs = tuple(part.clone() for part in self._outputs)
            # Either way this waits for the GPU: another stream may be the next to write to the memory of the graph.
            if self._holds is not None:
                return outputs if bool(self._holds) else None
            torch.cuda.current_stream().synchronize()
            return outputs


@dataclass
class _Known:
    """What is known of a query that came at least once."""

    recording: Recording | None = None
    replayed: int = 0
    in_vain: int = 0
    displaced: int = 0
    given_up: bool = False

    def give_up(self) -> None:
        self.recording, self.given_up = None, True


class Recordings:
    """The recordings of one circuit: the last ones used, a bounded number in bounded memory.

    Parameters
    ----------
    record : callable
        Makes a recording of a computation, given rows.
    most : int
        How many queries are remembered.
    most_bytes : int
        Memory that all recordings may hold.
    """

    def __init__(
        self, record: Callable[[Compute, Tensor], Recording], most: int = MOST_RECORDINGS, *, most_bytes: int
    ) -> None:
        self._record, self._most, self._most_bytes = record, most, most_bytes
        self._known: dict[Hashable, _Known] = {}  # the last one used at the end
        self._places: Hashable = None

    @property
    def n_bytes(self) -> int:
        """Memory that all recordings hold."""
        return sum(known.recording.n_bytes for known in self._known.values() if known.recording is not None)

    @property
    def n_recordings(self) -> int:
        """How many there are."""
        return sum(known.recording is not None for known in self._known.values())

    def run(self, key: Hashable, places: Hashable, rows: Tensor, compute: Compute) -> Outputs | None:
        """The results of ``compute(rows)`` by a recording; None if it has to be computed the usual way.

        Parameters
        ----------
        key : hashable
            The query, and all that a recording depends on but values.
        places : hashable
            Where the parameters lie in memory.
        rows : Tensor (N, V)
        compute : callable
            What to record when ``key`` comes for the second time.
        """
        if places != self._places:
            self._known.clear()
            self._places = places
        known = self._known.pop(key, None)
        self._known[key] = now = known or _Known()
        while len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        if known is None or now.given_up:
            return None
        if now.recording is None:
            self._try(now, rows, compute)
        if now.recording is None:
            return None
        outputs = now.recording.replay(rows)
        if outputs is not None:
            now.replayed += 1
            return outputs
        now.in_vain += 1
        if now.in_vain > now.replayed:
            now.give_up()
        return None

    def _try(self, known: _Known, rows: Tensor, compute: Compute) -> None:
        """Make a recording, if torch can and there is room when the least used ones are gone."""
        if known.displaced > 1:  # queries that take turns would each time be recorded instead of replayed
            known.give_up()
            return
        try:
            known.recording = self._record(compute, rows)
        except RuntimeError:  # out of memory, or something that no graph can hold
            known.give_up()
            return
        if known.recording.n_bytes > self._most_bytes:
            known.give_up()
        for other in self._known.values():
            if self.n_bytes <= self._most_bytes:
                return
            if other is not known and other.recording is not None:
                other.recording, other.displaced = None, other.displaced + 1


class _Holders:
    """Where the modules of a circuit hold each other and their tensors: ``parameters()`` takes longer than a replay."""

    def __init__(self, circuit: Circuit) -> None:
        modules = list(circuit.modules())
        self._children = [(m._modules, name, child) for m in modules for name, child in m._modules.items()]
        self._tensors = [(held, name) for m in modules for held in (m._parameters, m._buffers) for name in held]

    def tensors(self) -> list[Tensor | None] | None:
        """All parameters and buffers; None if there are other modules or names by now."""
        if any(held.get(name) is not child for held, name, child in self._children):
            return None
        try:
            return [held[name] for held, name in self._tensors]
        except KeyError:
            return None


_lock = threading.RLock()
_of_circuit: WeakKeyDictionary[Circuit, Recordings] = WeakKeyDictionary()
_holders: WeakKeyDictionary[Circuit, _Holders] = WeakKeyDictionary()


def replay(circuit: Circuit, query: Hashable, rows: Tensor, compute: Compute) -> Outputs | None:
    """The results of ``compute(rows)``, replayed; None if they are to be computed the usual way.

    That is where ``socratic.acceleration()`` forbids it, on a CPU, whenever gradients are recorded, within
    ``torch.compile``, automatic mixed precision or another graph, and the first time that rows of a shape come.

    Parameters
    ----------
    circuit : Circuit
    query : hashable
        The query and its settings.
    rows : Tensor (N, V)
    compute : callable
        Computes everything anew from the parameters of the circuit: nothing may be kept from an earlier call.
    """
    if not may_replay(rows):
        return None
    settings = (torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled(), allowed_shortcuts())
    key = (query, rows.shape, rows.dtype, rows.device, settings)
    with _lock:
        recordings = _of_circuit.get(circuit)
        if recordings is None:
            recordings = Recordings(GraphRecording, most_bytes=recorded_bytes(rows.device))
            _of_circuit[circuit] = recordings
        return recordings.run(key, _places(circuit), rows, compute)


def _places(circuit: Circuit) -> Hashable:
    """The modules, where their parameters and buffers lie, and of which type those are."""
    holders = _holders.get(circuit)
    tensors = None if holders is None else holders.tensors()
    if tensors is None:  # asked for the first time, or rebuilt
        _holders[circuit] = holders = _Holders(circuit)
        tensors = holders.tensors() or []
    return holders, *[None if tensor is None else (tensor.data_ptr(), tensor.dtype) for tensor in tensors]
