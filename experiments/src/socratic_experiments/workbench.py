"""What every experiment starts from: the images, the models, trained once and kept, and someone who watches."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

import socratic
from socratic import CircuitImageClassifier, ModelFileError
from socratic.errors import check_choice
from socratic.files import replacing
from socratic.images import Images
from socratic_experiments.circuits import CircuitModel, train_circuit
from socratic_experiments.data import at_most, like, load_images
from socratic_experiments.measures import accuracy_of
from socratic_experiments.methods import Method, Model, method_names, methods_for
from socratic_experiments.networks import NetworkModel, train_networks
from socratic_experiments.settings import ABLATIONS, CIRCUIT_SETTINGS, CircuitRecipe, ExperimentSettings, Recipe

_CIRCUIT, _NETWORK = ".safetensors", ".pt"
"""Endings of model files."""
_MAX_HELD_OUT = 4000
_SPLIT_SEED = 20230731
"""Decides which training images are held out: the same for all models and seeds."""


class Watch(Protocol):
    """Told how far an experiment is."""

    def stage(self, what: str, total: int) -> AbstractContextManager[Any]:
        """Enter a stage of ``total`` steps."""
        ...

    def step(self, note: str = "") -> None:
        """A step of the stage is done."""
        ...


class Unwatched:
    """Nobody watches."""

    def stage(self, what: str, total: int) -> AbstractContextManager[Any]:  # noqa: ARG002
        """Nothing."""
        return nullcontext()

    def step(self, note: str = "") -> None:
        """Nothing."""


@dataclass(frozen=True, eq=False)
class Workbench:
    """The images of an experiment and its models.

    Attributes
    ----------
    settings : ExperimentSettings
    train, held_out, test : Images
        To train networks on, what they leave out, and to ask about. Circuits are given the first two together, and hold
        out as many of them as networks leave out.
    unknown : tuple of Images
        From elsewhere, in the shape of the training images.
    whole_test : Images
        All test images, for the accuracy of a model; ``test`` may be some of them.
    n_classes : int
    folder : Path
        Where trained models are kept.
    device : torch.device
    watch : Watch
    methods : tuple of str
        Ways to ask models, by the beginning of their names; all, if it is empty.
    """

    settings: ExperimentSettings
    train: Images
    held_out: Images
    test: Images
    unknown: tuple[Images, ...]
    whole_test: Images
    n_classes: int
    folder: Path
    device: torch.device
    watch: Watch
    methods: tuple[str, ...] = ()

    @classmethod
    def open(
        cls,
        settings: ExperimentSettings,
        data: Path | None,
        folder: Path,
        device: torch.device,
        watch: Watch | None = None,
        methods: Sequence[str] = (),
    ) -> Workbench:
        """Read the images; ``data`` is the folder of all sets, ``folder`` that of the trained models."""
        whole, test = known_images(settings.train, data)
        order = np.random.default_rng(_SPLIT_SEED).permutation(len(whole))[: settings.n_train]
        n_held_out = min(_MAX_HELD_OUT, len(order) // 5)
        if n_held_out < 3:
            raise ValueError(f"n_train must leave at least 15 images; {settings.train!r} gives {len(order)}")
        n_classes = int(max(whole.labels.max(), test.labels.max())) + 1
        absent = np.setdiff1d(np.arange(n_classes), whole.labels[order])
        if len(absent):
            raise ValueError(f"n_train must leave images of every class; none of class {absent[0]} is left")
        height, width, channels = whole.images.shape[1:]
        unknown = [
            like(
                load_images(name, data, "test", size=(height, width), limit=settings.n_images), height, width, channels
            )
            for name in settings.unknown
        ]
        names = [images.name.lower() for images in (whole, *unknown)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"unknown must name sets besides the training set, each once; got {name!r} twice")
        return cls(
            settings,
            whole.take(order[n_held_out:]),
            whole.take(order[:n_held_out]),
            at_most(test, settings.n_images),
            tuple(unknown),
            test,
            n_classes,
            folder,
            device,
            watch or Unwatched(),
            tuple(methods),
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of an image."""
        height, width, channels = self.train.images.shape[1:]
        return height, width, channels

    @cached_property
    def digest(self) -> str:
        """Tells the images apart from others of the same name."""
        digest = hashlib.blake2b(digest_size=8)
        for part in (self.train, self.held_out, self.test, *self.unknown):
            digest.update(np.ascontiguousarray(part.images).data)
            digest.update(part.labels.tobytes())
        return digest.hexdigest()

    def plan(self, models: Sequence[str] | None, seeds: Sequence[int], *, circuits_only: bool = False) -> list[Task]:
        """The models to ask, each with its seeds; ablations take the first seed only, unless they are named."""
        recipes = self.settings.recipes(self.shape)
        for name in models or ():
            check_choice("model", name, tuple(recipes))
        tasks = [
            Task(name, recipe, seed)
            for name, recipe in recipes.items()
            if (not models or name in models) and (isinstance(recipe, CircuitRecipe) or not circuits_only)
            for seed in dict.fromkeys(seeds[:1] if name in ABLATIONS and not models else seeds)
        ]
        if not tasks:
            raise ValueError(f"models must name a circuit here, such as 'circuit'; got {', '.join(models or ())}")
        self._check_methods(tasks)
        return tasks

    def ways(self, model: Model) -> dict[str, Method]:
        """The methods that a model is asked by, by name."""
        every = methods_for(model, self.settings.n_passes)
        return {label: method for label, method in every.items() if label.startswith(self.methods or "")}

    def _check_methods(self, tasks: Sequence[Task]) -> None:
        """Raise, before anything is trained, if a method is none of any model, or a model is left without one."""
        names = {task.model: method_names(task.recipe, self.settings.n_passes) for task in tasks}
        every = tuple(dict.fromkeys(name for one in names.values() for name in one))
        for start in self.methods:
            if not any(name.startswith(start) for name in every):
                known = ", ".join(map(repr, every))
                raise ValueError(f"methods must begin the name of a way to ask, one of {known}; got {start!r}")
        for model, one in names.items():
            if not any(name.startswith(self.methods or "") for name in one):
                known = ", ".join(map(repr, one))
                raise ValueError(f"methods leave no way to ask {model!r}; add one of {known}, or leave the model out")

    def models(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Model, dict[str, Any]]]:
        """Each model of a plan, trained or read from its file, and the record of its training."""
        for task in tasks:
            ending = _CIRCUIT if isinstance(task.recipe, CircuitRecipe) else _NETWORK
            path = self.folder / f"{self._name(task)}{ending}"
            model, facts = self._read(path) if _facts_of(path).exists() else self._train(task, path)
            yield task, model, {"experiment": "training", **task.names(self.settings.train), **facts}

    def _train(self, task: Task, path: Path) -> tuple[Model, dict[str, Any]]:
        self.folder.mkdir(parents=True, exist_ok=True)
        recipe = task.recipe
        checkpoint = path.with_suffix(".checkpoint")
        interrupted = checkpoint.exists()
        with self.watch.stage(f"{task.model}, seed {task.seed}: training", getattr(recipe, "n_members", 1)):
            model, seconds = self._fit(recipe, task.seed, checkpoint)
        facts: dict[str, Any] = {
            "method": "training",
            "accuracy": self._accuracy(model, self.whole_test),
            "train_accuracy": self._accuracy(model, self.train.take(slice(0, 10000))),
            "seconds": None if interrupted else seconds,  # of the last part alone, they would mislead
            "n_parameters": model.n_parameters,
            "inference_dropout": model.dropout,
            "device": device_name(self.device),
        }
        if isinstance(model, CircuitModel):
            facts["settings"] = _settings_of(model)
            facts["n_epochs"] = model.classifier.n_iter_
            facts["detector_weights"] = model.classifier.detector_.weights
            model.classifier.save(path)
        else:
            facts["settings"] = asdict(recipe)
            facts["n_epochs"] = facts["settings"]["n_epochs"]
            model.save(path)
        # Last: a model without its facts is trained again.
        with replacing(_facts_of(path)) as draft:
            draft.write_text(json.dumps(facts), encoding="utf-8")
        return model, facts

    def _fit(self, recipe: Recipe, seed: int, checkpoint: Path) -> tuple[Model, float]:
        if isinstance(recipe, CircuitRecipe):
            images = replace(
                self.train,
                images=np.concatenate([self.held_out.images, self.train.images]),
                labels=np.concatenate([self.held_out.labels, self.train.labels]),
            )
            return train_circuit(recipe, images, seed=seed, device=self.device, checkpoint=checkpoint)
        return train_networks(
            recipe,
            self.train,
            n_classes=self.n_classes,
            n_parameters=self._main_size(),
            seed=seed,
            device=self.device,
            progress=lambda loss: self.watch.step(f"loss {loss:.3f}"),
        )

    def _read(self, path: Path) -> tuple[Model, dict[str, Any]]:
        facts = json.loads(_facts_of(path).read_text(encoding="utf-8"))
        if path.suffix == _NETWORK:
            return NetworkModel.load(path, self.device), facts
        classifier = socratic.load(path, device=str(self.device))
        if not isinstance(classifier, CircuitImageClassifier):
            raise ModelFileError(f"{path} does not hold a classifier of images; delete it")
        return CircuitModel(classifier), facts

    def _accuracy(self, model: Model, images: Images) -> float:
        first = next(iter(methods_for(model, 1).values()))
        probabilities = first(images.images).probabilities
        assert probabilities is not None
        return accuracy_of(probabilities, images.labels)

    def _main_size(self) -> int:
        """Parameters of the main circuit."""
        recipe = next(iter(self.settings.recipes(self.shape).values()))
        assert isinstance(recipe, CircuitRecipe)
        return CircuitImageClassifier(**recipe.settings).build_circuit(self.shape, self.n_classes).n_parameters

    def _name(self, task: Task) -> str:
        """A file name that tells models apart which differ in anything that decides what they learn."""
        images = hashlib.blake2b(np.ascontiguousarray(self.train.images).data, digest_size=8)
        images.update(self.train.labels.tobytes())
        decisive = [images.hexdigest(), asdict(task.recipe), task.seed, self._main_size(), self.n_classes]
        digest = hashlib.blake2b(json.dumps(decisive).encode(), digest_size=4).hexdigest()
        label = "".join(letter if letter.isalnum() else "-" for letter in task.model.replace("'", ""))
        train = Path(self.settings.train).name.replace(":", "-")
        return f"{train}-{label}-{task.seed}-{digest}"


@dataclass(frozen=True)
class Task:
    """A model to train and ask: its name, recipe and seed."""

    model: str
    recipe: Recipe
    seed: int

    def names(self, train: str) -> dict[str, Any]:
        """What names the model in records."""
        return {"train": train, "model": self.model, "seed": self.seed}


def known_images(name: str, data: Path | None) -> tuple[Images, Images]:
    """The training and the test images of a set, with the same numbers for the same classes.

    A folder of images that is not divided is divided here: a fifth of it becomes test images.
    """
    train, test = load_images(name, data, "train"), load_images(name, data, "test")
    if train.images.shape == test.images.shape and np.array_equal(train.images, test.images):
        order = np.random.default_rng(_SPLIT_SEED).permutation(len(train))
        train, test = train.take(np.sort(order[len(order) // 5 :])), train.take(np.sort(order[: len(order) // 5]))
    if len(np.unique(train.labels)) < 2:
        raise ValueError(f"train must be a set of at least two classes; {name!r} has one (a folder for each class?)")
    if train.images.shape[1:] != test.images.shape[1:]:
        test = like(test, *train.images.shape[1:])
    missing = [label for label in test.classes if label not in train.classes]
    if missing:
        raise ValueError(f"the test images of {name!r} have a class {missing[0]!r} that its training images lack")
    if test.classes != train.classes:
        numbers = np.array([train.classes.index(label) for label in test.classes])
        test = replace(test, labels=numbers[test.labels], classes=train.classes)
    return train, test


def _facts_of(path: Path) -> Path:
    """The file beside a model file that holds the record of its training."""
    return path.with_suffix(".json")


def _settings_of(model: CircuitModel) -> dict[str, Any]:
    """What decided how a circuit was built and trained: what was given, and what the classifier chose."""
    given = {name: value for name, value in model.classifier.get_params().items() if name in CIRCUIT_SETTINGS}
    return {**given, **asdict(model.classifier.sizes_)}


def device_name(device: torch.device) -> str:
    """The device in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads" if device.type == "cpu" else str(device)
