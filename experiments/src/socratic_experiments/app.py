"""``socratic-experiments``: the evaluations of the TDI paper and more, one command each, from flags or a YAML file."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from socratic_experiments.console import complain

app = typer.Typer(
    name="socratic-experiments",
    help="Evaluations on images: unknown, turned or corrupted data, and how close estimates are.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# The class above UsageError: typer brings its own copy of click in some versions and shares it in others.
UsageError: type[typer.BadParameter] = typer.BadParameter.__mro__[2]

DEFAULTS: dict[str, Any] = {"output": "socratic-results", "seeds": [0], "device": "auto"}
PAPER_DEFAULTS: dict[str, Any] = {
    "unknown": ["cifar100", "cinic", "lsun"],
    "models": ["paper's circuit", "paper's circuit with dropout"],
}
MAX_SEED = 2**31 - 1
_FOLDERS = ("data", "output")
_MANY = {"unknown": str, "seeds": int, "models": str, "methods": str}
_WORDS: dict[type, str] = {str: "names", int: "whole numbers"}
_ONE = {"train": str, "data": str, "output": str, "normalise": str, "constants": str, "device": str}

Train = Annotated[
    str | None, typer.Option(metavar="SET", help="The training set: mnist, svhn, digits, ..., or a path.")
]
Unknown = Annotated[list[str] | None, typer.Option(metavar="SET...", help="Sets of unknown images.")]
Data = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where the image sets lie.")]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FOLDER", help="Where to write to. [socratic-results]")
]
Seeds = Annotated[list[int] | None, typer.Option(metavar="N...", min=0, max=MAX_SEED, help="Seeds of the models. [0]")]
Models = Annotated[list[str] | None, typer.Option(metavar="MODEL...", help="Only these models, such as circuit, MLP.")]
Methods = Annotated[
    list[str] | None, typer.Option(metavar="METHOD...", help="Only these ways to ask, such as 'circuit alone', TDI.")
]
Normalise = Annotated[
    str | None, typer.Option(metavar="train|own", help="By whose statistics unknown images are normalised. [train]")
]
Images = Annotated[
    int | None, typer.Option("--images", metavar="N", min=1, help="Test images of each set, at most. [all]")
]
TrainImages = Annotated[
    int | None, typer.Option("--train-images", metavar="N", min=1, help="Training images, at most. [all]")
]
Passes = Annotated[
    int | None, typer.Option("--passes", metavar="N", min=1, help="Passes of Monte Carlo dropout. [100]")
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="MODEL.NAME=VALUE...", help="Change a model: --set circuit.n_epochs=10."),
]
Constants = Annotated[str | None, typer.Option(metavar="cifar|imagenet", help="Constants of the corruptions. [cifar]")]
Config = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A YAML file with these options; flags go before it.")
]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda, ... [auto]")]
Report = Annotated[bool, typer.Option("--report/--no-report", help="Draw figures and the page at the end.")]


OPTIONS: dict[str, Any] = {
    "train": Train,
    "unknown": Unknown,
    "data": Data,
    "output": Output,
    "seeds": Seeds,
    "models": Models,
    "methods": Methods,
    "normalise": Normalise,
    "n_images": Images,
    "n_train": TrainImages,
    "n_passes": Passes,
    "constants": Constants,
    "changes": Changes,
    "config": Config,
    "device": Device,
    "report": Report,
}
COMMANDS: dict[str, tuple[str, set[str]]] = {
    "ood": (
        "Unknown data: train on one set, meet others. Table 1, figures 1 and 3 of the TDI paper.",
        {"constants"},
    ),
    "doubt": (
        "Doubt from data: every score of a classifier, its detector, networks and a guard, on far and near sets.",
        {"constants", "normalise", "n_passes", "methods"},
    ),
    "sweep": ("Unknown data again, over rates of dropout.", {"constants"}),
    "closeness": (
        "Single-pass estimates against 2,000 passes of Monte Carlo dropout.",
        {"constants", "n_passes", "methods"},
    ),
    "rotation": ("Perturbed data: images turned from 0 to 90 degrees.", {"constants", "unknown"}),
    "corruption": ("Corrupted data: 15 corruptions at 5 severities.", {"unknown"}),
    "paper": (
        "All evaluations of the TDI paper on its circuit as printed: its tables, figures and claims.",
        {"train", "normalise", "constants"},
    ),
}
"""What each experiment is, and the options that it has no use for."""


class ManyValues(TyperCommand):
    """A command whose repeatable options take several values at once: ``--seeds 0 1 2`` is ``--seeds 0 --seeds 1 ...``.

    For commands without arguments, which such an option would swallow.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each of its values."""
        names = {name for option in self.params if getattr(option, "multiple", False) for name in option.opts}
        expanded: list[str] = []
        current = None
        for word in args:
            if word.startswith("-") and len(word) > 1:
                current = word if word in names else None
                if current is None:
                    expanded.append(word)
            elif current is not None:
                expanded += [current, word]
            else:
                expanded.append(word)
        return super().parse_args(ctx, expanded)


def _add(kind: str, text: str, unused: set[str]) -> None:
    """Add the command of an experiment; Typer reads its options from the signature."""

    def command(**options: Any) -> None:
        run(kind, options)

    kinds = {name: option for name, option in OPTIONS.items() if name not in unused}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=name == "report" or None, annotation=option)
        for name, option in kinds.items()
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = kinds
    command.__doc__ = text
    app.command(name=kind, cls=ManyValues)(command)


for _kind, (_text, _unused) in COMMANDS.items():
    _add(_kind, _text, _unused)


@app.command(name="report")
def redraw(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Folders of results.")],
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one page for all folders in Markdown instead.")
    ] = None,
    note: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A text to put at the head of the page in Markdown.")
    ] = None,
) -> None:
    """Draw the figures and pages of results anew."""
    from socratic_experiments.records import RECORDS
    from socratic_experiments.reporting.markdown import write_markdown
    from socratic_experiments.reporting.page import write_report

    for folder in folders:
        if not (folder / RECORDS).is_file():
            raise ValueError(f"{folder} holds no results ({RECORDS}); name the folder of one experiment")
    if note is not None and markdown is None:
        raise ValueError("--note goes into a page in Markdown; add --markdown FILE")
    if markdown is not None:
        written = write_markdown(folders, markdown, "" if note is None else _read_text("--note", note))
    else:
        written = [path for folder in folders for path in write_report(folder)]
    for path in written:
        print(path)


def run(kind: str, flags: Mapping[str, Any]) -> None:
    """One experiment, and its report."""
    options = _options(kind, flags)
    if kind == "paper":
        from socratic_experiments.running import run_paper

        run_paper({**PAPER_DEFAULTS, **options})
        return
    if options.get("train") is None:
        raise ValueError(f"name the training set, such as: {kind} --train mnist --data FOLDER")
    if kind in ("ood", "sweep") and not options.get("unknown"):
        raise ValueError(f"name unknown sets, such as: {kind} --train svhn --unknown cifar10 scenes")
    from socratic_experiments.running import run_experiment

    run_experiment(kind, options)


def _options(kind: str, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags, then the file's, then defaults."""
    given = {name: value for name, value in flags.items() if value not in (None, []) and name != "config"}
    given["overrides"] = _changes(given.pop("changes", []))
    allowed = (set(flags) - {"config", "changes", "report"}) | {"overrides"}
    from_file = _read_config(flags["config"], kind, allowed) if flags["config"] is not None else {}
    overrides = dict(from_file.pop("overrides", {}))
    for model, changes in given.pop("overrides").items():
        before = overrides.get(model, {})
        overrides[model] = {**before, **changes} if isinstance(before, dict) else before
    options = {**DEFAULTS, **from_file, **given, "overrides": overrides}
    return {name: Path(value) if name in _FOLDERS else value for name, value in options.items()}


def _read_text(option: str, path: Path) -> str:
    """The text of a file that an option names."""
    if not path.is_file():
        raise ValueError(f"{option} {path}: there is no such file")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{option} {path}: the file is no text in UTF-8") from None


def _read_config(path: Path, command: str, allowed: set[str]) -> dict[str, Any]:
    import yaml

    text = _read_text("--config", path)
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is no YAML file: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold options by name, such as 'train: mnist'")
    for name in content:
        if name not in allowed:
            raise ValueError(f"{path}: {command} has no option {name!r}; it has {', '.join(sorted(allowed))}")
    return _checked({name: value for name, value in content.items() if value is not None}, path)


def _checked(found: dict[str, Any], path: Path) -> dict[str, Any]:
    """The options of a file, with lists where there may be several; ExperimentSettings checks the rest."""
    for name, kind in _MANY.items():
        if name in found:
            values = found[name] if isinstance(found[name], list) else [found[name]]
            if not values or not all(isinstance(value, kind) for value in values):
                raise ValueError(f"{path}: {name} must be a list of {_WORDS[kind]}; got {found[name]!r}")
            found[name] = values
    for name, kind in _ONE.items():
        if name in found and not isinstance(found[name], kind):
            raise ValueError(f"{path}: {name} must be a name; got {found[name]!r}")
    if any(not 0 <= seed <= MAX_SEED for seed in found.get("seeds", [])):
        raise ValueError(f"{path}: seeds must lie between 0 and {MAX_SEED}; got {found['seeds']!r}")
    if not isinstance(found.get("overrides", {}), dict):
        raise ValueError(f"{path}: overrides must hold settings by model; got {found['overrides']!r}")
    return found


def _changes(pairs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Changes to recipes, from ``MODEL.NAME=VALUE``."""
    import json

    found: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        model, dot, key = name.rpartition(".")
        if not (equals and dot and model):
            raise ValueError(f"--set takes MODEL.NAME=VALUE, such as --set circuit.n_epochs=10; got {pair!r}")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        found.setdefault(model, {})[key] = value
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit with its code: 0, 2 for a mistake of the user, 130 when interrupted."""
    try:
        sys.exit(app(arguments, prog_name="socratic-experiments", standalone_mode=False))
    except (UsageError, ValueError, OSError, MemoryError, ImportError) as error:
        complain(error.format_message() if isinstance(error, UsageError) else error)
        sys.exit(2)
    except KeyboardInterrupt:
        complain("interrupted")
        sys.exit(130)
