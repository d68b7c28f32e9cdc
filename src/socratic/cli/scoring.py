"""Models for commands: reading them, and what to say where a table does not fit one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from socratic.cli.failures import UserError, complain, no_such_column

if TYPE_CHECKING:
    from socratic.scoring import ClassScorer, Scorer
    from socratic.tables.columns import Unknown
    from socratic.tables.reading import Source


def load_any(path: Path, device: str = "auto", jobs: int | None = None, trusted: Path | None = None) -> Any:
    """Read a model file, whatever it holds."""
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a model file written by socratic fit")
    if not path.exists():
        raise UserError(f"there is no model file {path}; check the name, or write one with socratic fit")
    check_device(device)
    from socratic.errors import ModelFileError
    from socratic.estimators.building import choose_device
    from socratic.loading import load
    from socratic.signing import public_key

    if trusted is not None:
        try:
            public_key(trusted)
        except ValueError as error:
            raise UserError(str(error)) from error
    if jobs is not None:
        import torch

        torch.set_num_threads(jobs)
    try:
        return load(path, device=choose_device(device), trusted=trusted)
    except ModelFileError as error:
        raise UserError(f"{error}; a model file is what socratic fit writes") from error
    except ValueError as error:  # a guard, which is nothing without the model that it guards
        raise UserError(f"{error} of socratic.load; commands take models that stand alone") from error


def load_scorer(
    path: Path, device: str = "auto", jobs: int | None = None, *, resize: bool = False, trusted: Path | None = None
) -> Scorer:
    """Read a model file, to apply the model to tables or images; ``resize`` is for images alone."""
    from socratic.scoring import OfImages, scorer_of

    model = load_any(path, device, jobs, trusted)
    try:
        scorer = scorer_of(model)
    except ValueError:
        raise UserError(
            f"{path} holds a {type(model).__name__}; name a classifier, an outlier detector or a density"
        ) from None
    if isinstance(scorer, OfImages):
        scorer.resize = resize
    elif resize:
        raise UserError(f"--resize is for images; {path} answers the rows of tables")
    return scorer


def load_class_scorer(
    path: Path, device: str = "auto", jobs: int | None = None, *, resize: bool = False
) -> ClassScorer:
    """The same for the file of a classifier."""
    from socratic.scoring import ClassScorer

    scorer = load_scorer(path, device, jobs, resize=resize)
    if not isinstance(scorer, ClassScorer):
        raise UserError(f"{path} holds a {type(scorer.model).__name__}, which has no classes; name a classifier")
    return scorer


def check_device(device: str) -> None:
    """Raise unless torch can compute on the device."""
    from socratic.estimators.building import choose_device

    try:
        choose_device(device)
    except ValueError:
        raise UserError(f"--device {device} is not available here; use auto or cpu") from None


def check_columns(scorer: Scorer, source: Source) -> None:
    """Raise unless there is every column that the model was trained on."""
    from socratic.cli.folders import PATH, FolderSource

    if isinstance(source, FolderSource) and scorer.names != [PATH]:
        raise UserError(f"{source.path} is a folder of images, and the model was trained on a table; name a table")
    present, expected = set(source.names), set(scorer.names)
    missing = [name for name in scorer.names if name not in present]
    if missing == [PATH] == scorer.names:
        raise UserError(
            f"the model was trained on images, and {source.path} is a table without a column {PATH!r}; name a folder "
            "of images, or a table of their paths"
        )
    if missing:
        others = [name for name in source.names if name not in expected]
        raise no_such_column(source.path, missing, others or source.names)


def warn(model: Any, unknown: Mapping[str, Unknown]) -> None:
    """Say, once, how many values were not seen in training, and whether verdicts keep what they promise."""
    if unknown:
        from socratic.tables.inputs import describe_unknown

        complain(f"warning: {describe_unknown(unknown)}")
    if not getattr(model, "calibrated_", True):
        complain(
            "warning: too few rows were held out when the model was trained: verdicts may not keep "
            f"its rejection rate of {model.rejection_rate:g}"
        )
    if getattr(model, "risk", None) is not None and model._risk_problem() is not None:
        complain(
            f"warning: no row can be answered at the model's risk of {model.risk:g} (see socratic info): every "
            "row is ambiguous or unfamiliar"
        )


def say_counts(model: Any, verdicts: Mapping[Any, int]) -> str:
    """How many rows there are, and how many of them are not answered, in words."""
    n_rows = sum(verdicts.values())
    promises = {"unfamiliar": "rejection_rate", "ambiguous": "risk"}  # densities make none, and refuse no row
    refused = [verdict for verdict, promise in promises.items() if getattr(model, promise, None) is not None]
    shares = ((verdicts.get(verdict, 0), verdict) for verdict in refused)
    told = (f"{count:,} {verdict} ({count / max(n_rows, 1):.1%})" for count, verdict in shares)
    return ", ".join([f"{n_rows:,} rows", *told])
