"""Model files that nobody should write: ``python -m benchmarks.fuzz_model_files``.

Changes files of every kind of model, 20,000 times: bits, header fields, lengths, types and shapes of tensors, tensors
that are emptied, doubled, renamed or lost, JSON that is nested or of other types, numbers beyond any range, files that
are cut or go on. Half of the changed files keep the digest of the original, as damage does; the other half get one that
goes with what they hold, as a forger would write. Each is loaded and asked:

- A damaged file is refused with ``ModelFileError``, or answers as the original does, to the last bit.
- A forged file is refused with ``ModelFileError`` when it is loaded, or it answers, whatever it may say.
- Neither takes longer, or more memory, than the budget for its bytes.

Anything else fails the run, and the file is kept.
"""

from __future__ import annotations

import argparse
import functools
import json
import platform
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import save as to_bytes

from socratic import DriftMonitor, ModelFileError
from socratic.loading import load_bytes
from socratic.model_files import ENTRY, ModelFile, digest_of

RESULTS = Path(__file__).parent / "results" / "fuzz-model-files.md"
SECONDS, SECONDS_PER_MB = 2.0, 20.0
"""What loading a file and asking its model may take, of this process's own time."""
MEMORY, MEMORY_PER_BYTE = 64e6, 100.0
"""By how many bytes a process may grow over all files, with the largest of them."""
_TIMEOUT = 120
"""Seconds after which a load is given up."""

Answer = dict[str, np.ndarray]
Tensors = dict[str, torch.Tensor]


class Original(NamedTuple):
    """A model file, and what its model says."""

    name: str
    content: bytes
    load: Callable[[bytes], Callable[[], Answer]]
    """From the content of a file, what asks the model in it."""
    expected: Answer


NUMBERS: list[Any] = [0, -1, 1, 2, 3, 10**10, 10**30, 2**63, 1e308, -1e308, 1e-320, 0.5, float("nan"), float("inf")]
VALUES: list[Any] = [
    *NUMBERS,
    None,
    True,
    "",
    "x",
    "x" * 5000,
    "\ud800",
    [],
    [[]],
    {},
    {"a": 1},
    [0] * 50,
    "<U500000000",
]
TYPES = [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.bool, torch.uint8]


# What is changed


def flip(content: bytes, random_: random.Random, most: int = 1) -> bytes:
    """A few flipped bits."""
    changed = bytearray(content)
    for _ in range(random_.randint(1, most)):
        changed[random_.randrange(len(changed))] ^= 1 << random_.randrange(8)
    return bytes(changed)


def resize(content: bytes, random_: random.Random) -> bytes:
    """A file that is cut, goes on, or has a part twice."""
    place = random_.randrange(len(content))
    more = content[place : place + random_.randint(1, 200)]
    return random_.choice([content[:place], content + more, content[:place] + more + content[place:], b"", more])


def change_header(content: bytes, random_: random.Random) -> bytes:
    """Another length of the header, or other fields of it."""
    (length,) = struct.unpack("<Q", content[:8])
    if random_.random() < 0.2:
        other = random_.choice([0, 1, 7, length - 1, length + 8, 2**31, 2**62, 2**64 - 1])
        return struct.pack("<Q", other) + content[8:]
    header = json.loads(content[8 : 8 + length])
    name = random_.choice([name for name in header if name != "__metadata__"])
    field = header[name]
    kind = random_.randrange(5)
    if kind == 0:
        field["dtype"] = random_.choice(["F64", "F32", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "X"])
    elif kind == 1:
        field["shape"] = random_.choice([[], [0], [10**10], [2**62, 4], [-1], [1] * 70, [*field["shape"], 1], ["x"]])
    elif kind == 2:
        field["data_offsets"] = [random_.choice([0, 8, 10**12, field["data_offsets"][0]]) for _ in range(2)]
    elif kind == 3:
        header[random_.choice(["", "x", "a/b", "circuit_/\u0000"])] = header.pop(name)
    else:
        header = mutated(header, random_)
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def mutated(document: Any, random_: random.Random) -> Any:
    """The same document with one thing in it changed, dropped, doubled or added."""
    if isinstance(document, (dict, list)) and document and random_.random() < 0.93:
        within = _mutated_mapping if isinstance(document, dict) else _mutated_list
        return within(document, random_)
    if isinstance(document, int | float) and not isinstance(document, bool) and random_.random() < 0.5:
        return random_.choice([document + 1, document - 1, -document, document * 10**6])
    if random_.random() < 0.02:
        deep: Any = document
        for _ in range(random_.choice([10, 900])):
            deep = random_.choice([[deep], {"a": deep}])
        return deep
    return random_.choice(VALUES)


def _mutated_mapping(document: Any, random_: random.Random) -> dict[str, Any]:
    key, kind = random_.choice(list(document)), random_.random()
    if kind < 0.04:
        return {**document, random_.choice(["", "extra", "0", "__class__"]): random_.choice(VALUES)}
    if kind < 0.08:
        return {other: value for other, value in document.items() if other != key}
    return {**document, key: mutated(document[key], random_)}


def _mutated_list(document: Any, random_: random.Random) -> list[Any]:
    place, kind = random_.randrange(len(document)), random_.random()
    if kind < 0.06:
        return document[:place] + document[place + 1 :]
    if kind < 0.12:
        return [*document[: place + 1], *document[place:]]
    return [*document[:place], mutated(document[place], random_), *document[place + 1 :]]


def change_tensor(tensors: Tensors, random_: random.Random) -> Tensors:
    """A tensor emptied, doubled, renamed, lost, of another shape or type, or with other numbers in it."""
    name, other = (random_.choice(list(tensors)) for _ in range(2))
    tensor, found = tensors[name], dict(tensors)
    kind = random_.randrange(9)
    if kind == 0:
        found[name] = tensor.flatten()[:0].reshape(random_.choice([(0,), (0, *tensor.shape[1:]), (3, 0)]))
    elif kind == 1:
        found[random_.choice([f"{name}2", name.upper(), name.rpartition("/")[0] + "/x"])] = tensor.clone()
    elif kind == 2:
        found[random_.choice(["x", name + "/0", name[1:]])] = found.pop(name)
    elif kind == 3:
        del found[name]
    elif kind == 4:
        found[name] = random_.choice(
            [tensor.flatten(), tensor[None], tensor[..., None], torch.cat([tensor.flatten()] * 2)]
        )
    elif kind == 5:
        found[name] = tensor.to(random_.choice(TYPES))
    elif kind == 6:
        found[name], found[other] = tensors[other], tensor
    elif tensor.numel():
        found[name] = _other_numbers(tensor, random_, beyond=kind == 7)
    return found


def _other_numbers(tensor: torch.Tensor, random_: random.Random, *, beyond: bool) -> torch.Tensor:
    changed = tensor.clone().flatten()
    for _ in range(random_.choice([1, 1, 1, 20])):
        place = random_.randrange(len(changed))
        number = float(random_.choice(NUMBERS) if beyond else float(changed[place]) * -1.5 + 1)
        if changed.dtype.is_floating_point:
            changed[place] = torch.tensor(number, dtype=torch.float64).to(changed.dtype)
        elif changed.dtype == torch.bool:
            changed[place] = not changed[place]
        elif np.isfinite(number):
            limits = torch.iinfo(changed.dtype)
            changed[place] = min(max(int(number), limits.min), limits.max)
    return changed.reshape(tensor.shape)


def damaged(content: bytes, random_: random.Random) -> bytes:
    """A file that was changed and kept its digest, if it has one."""
    kind = random_.randrange(6)
    if kind < 2:
        return flip(content, random_, most=1 if kind else 20)
    if kind == 2:
        return resize(content, random_)
    if kind == 3:
        return change_header(content, random_)
    file = ModelFile.of(content, Path("original"))
    config, tensors = file.config, file.tensors
    if kind == 4:
        config = mutated(config, random_)
    else:
        tensors = change_tensor(tensors, random_)
    return written({"format": file.kind, "version": file.version, "config": config, "digest": file.digest}, tensors)


def forged(content: bytes, random_: random.Random) -> bytes:
    """A file that was changed and got a digest that goes with what it holds."""
    file = ModelFile.of(content, Path("original"))
    config, tensors = file.config, file.tensors
    for _ in range(random_.choice([1, 1, 2])):
        if random_.random() < 0.55:
            config = mutated(config, random_)
        else:
            tensors = change_tensor(tensors, random_)
    header = {"format": file.kind, "version": file.version, "config": json.loads(json.dumps(config))}
    return written({**header, "digest": digest_of(file.kind, file.version, header["config"], tensors)}, tensors)


def written(header: dict[str, Any], tensors: Tensors) -> bytes:
    """The content of a model file."""
    return to_bytes(
        {name: tensor.contiguous().clone() for name, tensor in tensors.items()}, {ENTRY: json.dumps(header)}
    )


# What is asked


def originals() -> list[Original]:
    """A file of every kind of model."""
    return [Original(name, content, load, load(content)()) for name, content, load in _models()]


def _of_classifier(model: Any, asked: Any) -> Answer:
    answer = model.answer(asked)
    return {"probabilities": answer.probabilities, "p_value": answer.uncertainty.p_value}


def _of_density(model: Any, asked: Any) -> Answer:
    return {"log_density": model.score_samples(asked)}


def _of_detector(model: Any, asked: Any) -> Answer:
    return {"p_value": model.p_value(asked)}


def _of_circuit(model: Any, asked: Any) -> Answer:
    wide = torch.zeros(len(asked), model.n_features)  # a forger may have changed how wide rows are
    wide[:, : asked.shape[1]] = asked[:, : model.n_features]
    return {"log_likelihood": model.log_likelihood(wide).detach().numpy()}


def _of_guard(model: Any, asked: Any) -> Answer:
    try:
        return _of_detector(model, asked)
    except ValueError as error:  # it is a guard of another model, with other classes
        if "as it did when the guard was fitted" not in str(error):
            raise
        return {}


def _guarded(rows: np.ndarray) -> np.ndarray:
    share = np.tanh(rows[:, 0]) ** 2
    return np.stack([share, 1.0 - share], 1)


def _content(model: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return path.read_bytes()


def _models() -> Iterator[tuple[str, bytes, Callable[[bytes], Callable[[], Answer]]]]:
    import socratic

    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=(150, 2)), rng.integers(0, 3, 150), rng.integers(0, 2, 150)])
    y = np.array(["no", "yes"])[(x[:, 0] + rng.normal(size=150) > 0).astype(int)]
    rows = np.vstack([x[:3], np.full((1, 4), np.nan), x[:1] + 50.0])
    images = rng.integers(0, 256, (60, 4, 4)).astype(np.uint8)
    seen = torch.tensor(rows[:4], dtype=torch.float32)
    quick: dict[str, Any] = {"n_epochs": 1, "n_sums": 2, "n_repetitions": 2, "random_state": 0}
    coded = {"x2": "categorical"}
    circuit = socratic.rat_spn(4, 2, n_sums=2, n_leaves=2, depth=2, seed=1)
    forest = socratic.CircuitClassifier(structure="forest", random_state=0).fit(x, y)
    random_trees = socratic.CircuitClassifier(structure="random", leaf=coded, **quick).fit(x, y)
    detector = socratic.CircuitOutlierDetector(structure="kernels", random_state=0).fit(x)
    density = socratic.CircuitDensity(structure="learnspn", leaf=coded, random_state=0).fit(x)
    of_images = socratic.CircuitImageClassifier(n_epochs=1, n_sums=2, wavelet_levels=1, random_state=0)
    guard = socratic.CircuitGuard(_guarded, random_state=0).fit(x[:, :2])

    def loader(ask: Any, asked: Any, **more: Any) -> Callable[[bytes], Callable[[], Answer]]:
        return lambda content: functools.partial(ask, load_bytes(content, "file", **more), asked)

    yield "classifier (forest)", _content(forest), loader(_of_classifier, rows)
    yield "classifier (random)", _content(random_trees), loader(_of_classifier, rows)
    yield "detector", _content(detector), loader(_of_detector, rows)
    yield "density", _content(density), loader(_of_density, rows)
    yield "guard", _content(guard), loader(_of_guard, x[:4, :2], model=_guarded)
    yield "image model", _content(of_images.fit(images, y[:60])), loader(_of_classifier, images[:3])
    yield "circuit", _content(circuit), loader(_of_circuit, seen)
    yield "graph", _content(circuit.to_graph()), loader(_of_circuit, seen)

    def watched(content: bytes) -> Callable[[], Answer]:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            found = DriftMonitor.load(file.name, detector)

        def ask() -> Answer:
            report = found.update(x[20:30])
            return {"facts": np.array([report.n_rows, report.n_refused, report.log_wealth])}

        return ask

    monitor = DriftMonitor(detector)
    monitor.update(x[:20])
    yield "drift monitor", _content(monitor), watched


# What may happen


class Outcome(NamedTuple):
    """What became of a file: ``refused``, ``answered``, or else what is wrong."""

    what: str
    seconds: float


def outcome(original: Original, content: bytes, digest_kept: bool) -> Outcome:
    """Load a changed file and ask its model."""
    started = time.process_time()
    try:
        with _no_longer_than(_TIMEOUT):
            what = _judged(original, content, digest_kept)
    except TimeoutError:
        what = f"it took longer than {_TIMEOUT} s"
    return Outcome(what, time.process_time() - started)


def _judged(original: Original, content: bytes, digest_kept: bool) -> str:
    try:
        ask = original.load(content)
    except ModelFileError:
        return "refused"
    except ValueError as error:  # it holds another kind of model: a guard, say, for which there is no model
        return "refused" if not digest_kept and "guard" in str(error) else f"loading raised {error!r}"
    except TimeoutError:
        raise
    except BaseException as error:
        return f"loading raised {error!r}"
    try:
        found = ask()
    except TimeoutError:
        raise
    except BaseException as error:
        return f"asking raised {error!r}"
    if not digest_kept:
        return "answered"
    same = found.keys() == original.expected.keys() and all(
        np.array_equal(found[name], original.expected[name], equal_nan=True) for name in found
    )
    return "answered" if same else "it answered otherwise than the original"


@contextmanager
def _no_longer_than(seconds: int) -> Iterator[None]:
    def end(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Report(NamedTuple):
    """What became of all files of one kind of model."""

    name: str
    size: int
    counts: Counter[tuple[str, str]]
    slowest: float
    grown: float
    problems: list[tuple[str, str, bytes]]


def fuzz(original: Original, n_files: int, seed: int) -> Report:
    """Change a model file so many times, half of them as damage does."""
    random_ = random.Random(f"{original.name} {seed}")
    counts: Counter[tuple[str, str]] = Counter()
    problems: list[tuple[str, str, bytes]] = []
    slowest, largest = 0.0, 0
    before = _peak()
    for number in range(n_files):
        how = "damaged" if number % 2 else "forged"
        content = _changed(damaged if how == "damaged" else forged, original.content, random_)
        found = outcome(original, content, digest_kept=how == "damaged")
        limit = SECONDS + SECONDS_PER_MB * len(content) / 1e6
        what = found.what
        if what in ("refused", "answered") and found.seconds > limit:
            what = f"it took {found.seconds:.1f} s, more than {limit:.1f}"
        counts[how, what if what in ("refused", "answered") else "wrong"] += 1
        if what not in ("refused", "answered"):
            problems.append((how, what, content))
        slowest, largest = max(slowest, found.seconds), max(largest, len(content))
    grown = _peak() - before
    if grown > MEMORY + MEMORY_PER_BYTE * largest:
        problems.append(("all", f"memory grew by {grown / 1e6:.0f} MB", b""))
    return Report(original.name, len(original.content), counts, slowest, grown, problems)


def _changed(change: Callable[[bytes, random.Random], bytes], content: bytes, random_: random.Random) -> bytes:
    while True:
        with suppress(RecursionError):  # nested too deep to be written
            return change(content, random_)


def _peak() -> float:
    """The most memory that this process has had, in bytes."""
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def table(reports: list[Report]) -> str:
    """What became of all files, as Markdown."""
    lines = [
        "| model | file | damaged: refused | answers alike | forged: refused | answers | wrong | slowest | memory |",
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for report in reports:
        counts = [report.counts[how, what] for how in ("damaged", "forged") for what in ("refused", "answered")]
        cells = [
            report.name,
            f"{report.size / 1e3:.0f} kB",
            *(f"{count:,}" for count in counts),
            f"{len(report.problems)}",
            f"{report.slowest:.2f} s",
            f"{report.grown / 1e6:.0f} MB",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Fuzz, and write what became of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=20_000, help="how many files, of all models together")
    parser.add_argument("--only", metavar="MODEL", nargs="+", help="kinds of models, by their names in the table")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--keep", type=Path, help="a folder for the files that something is wrong with")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    torch.set_num_threads(1)
    models = originals()
    reports = []
    for original in models:
        if arguments.only is not None and original.name not in arguments.only:
            continue
        reports.append(fuzz(original, -(-arguments.files // len(models)), arguments.seed))
        print(table(reports[-1:]).splitlines()[-1], flush=True)
        for number, (how, what, content) in enumerate(reports[-1].problems):
            print(f"  {how}: {what[:300]}", flush=True)
            if arguments.keep is not None:
                arguments.keep.mkdir(parents=True, exist_ok=True)
                (arguments.keep / f"{original.name} {number}").write_bytes(content)
    n_files = sum(sum(report.counts.values()) for report in reports)
    n_wrong = sum(len(report.problems) for report in reports)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    arguments.output.write_text(
        f"""# Model files that nobody should write

`python -m benchmarks.fuzz_model_files --files {arguments.files} --seed {arguments.seed}` at {commit.stdout.strip()}, \
Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}: {n_files:,} files, {n_wrong} with \
something wrong.

Damaged files keep their digest; forged ones have one that goes with what they hold. To be loaded and asked, a file \
may take {SECONDS:g} s of the processor and {SECONDS_PER_MB:g} s for each megabyte, and the process may grow by \
{MEMORY / 1e6:g} MB and {MEMORY_PER_BYTE:g} times the largest file.

{table(reports)}
"""
    )
    sys.exit(1 if n_wrong else 0)


if __name__ == "__main__":
    main()
