"""Measuring: medians of repeated calls, peak memory, and ratios that are refused when outputs disagree."""

from __future__ import annotations

import platform
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

import socratic


def machine(device: str) -> str:
    """What figures are measured on."""
    name = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()} CPU, one thread"
    return f"{name}; torch {torch.__version__}, Python {platform.python_version()}, socratic {socratic.__version__}"


def median_seconds(call: Callable[[], Any], device: torch.device, repeats: int = 9, warm_up: int = 2) -> float:
    """Median time of ``call``; see :func:`seconds_in_turn`."""
    (times,) = seconds_in_turn([call], device, repeats, warm_up)
    return statistics.median(times)


def seconds_in_turn(
    calls: Sequence[Callable[[], Any]], device: torch.device, repeats: int = 9, warm_up: int = 2
) -> list[list[float]]:
    """The times of each call, made in turn so that whatever else the machine does falls on all of them.

    On a CPU those of the process, which must have one thread; on a GPU those of the clock, its queue drained before and
    after each.
    """
    clock = time.process_time if device.type == "cpu" else time.perf_counter

    def drain() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    for call in calls:
        for _ in range(warm_up):
            call()
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, own in zip(calls, times, strict=True):
            drain()
            start = clock()
            call()
            drain()
            own.append(clock() - start)
    return times


def peak_memory_mb(call: Callable[[], Any], device: torch.device) -> float:
    """Peak memory in MB: of the call's tensors on a GPU, of the whole process so far on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        call()
        torch.cuda.synchronize(device)
        return (torch.cuda.max_memory_allocated(device) - before) / 2**20
    call()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def ratio(slow: float, fast: float, difference: float, tolerance: float) -> str:
    """``slow / fast`` in words, or why there is none: the two must have computed the same."""
    if not difference <= tolerance:
        return f"refused: outputs differ by {difference:.2g}, more than {tolerance:.2g}"
    return f"{slow / fast:.1f} x"
