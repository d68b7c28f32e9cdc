"""Pictures to begin with: model files keep no training images, and scikit-learn brings digits and photographs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from fastapi import APIRouter
from pydantic import BaseModel, Field

from socratic.serve.images import ServedImages
from socratic.serve.replies import Json
from socratic.serve.service import Service
from socratic.serve.v1 import FAILURES, ModelName

_BRIGHTEST = 16.0
"""Of scikit-learn's digits."""
_PHOTOGRAPHS = {"a temple": ("china.jpg", 100, 120), "a flower": ("flower.jpg", 60, 180)}
"""Names, files, and the top and the left of what is shown of them."""
_SIDE = 256


class Example(BaseModel):
    """A picture."""

    name: str
    pixels: list[list[list[int]]] = Field(description="(H, W, C), 0 to 255, of the size of the model's images.")


class Examples(BaseModel):
    """Some pictures; none for models of tables."""

    examples: list[Example]


def router(service: Service) -> APIRouter:
    """The path of the examples."""
    routes = APIRouter(prefix="/v1", tags=["v1"], responses=FAILURES)

    @routes.get("/examples", response_model=Examples)
    def examples(model: ModelName = None) -> Json:  # in a thread, as it reads files
        """Digits and photographs that come with scikit-learn, in the size of a model's images."""
        found = service.model(model)
        return Json({"examples": _examples(found.shape) if isinstance(found, ServedImages) else []})

    return routes


@lru_cache(8)
def _examples(shape: tuple[int, int, int]) -> list[dict[str, Any]]:
    from PIL import Image
    from sklearn.datasets import load_digits, load_sample_image

    height, width, channels = shape
    images, labels = load_digits(return_X_y=True)
    pictures = {}
    for digit in range(10):
        pixels = images[np.flatnonzero(labels == digit)[0]].reshape(8, 8)
        pictures[f"a handwritten {digit}"] = Image.fromarray((pixels * (255.0 / _BRIGHTEST)).round().astype(np.uint8))
    for name, (file, top, left) in _PHOTOGRAPHS.items():
        pictures[name] = Image.fromarray(load_sample_image(file)[top : top + _SIDE, left : left + _SIDE])
    mode = "L" if channels == 1 else "RGB"
    return [
        {
            "name": name,
            "pixels": np.asarray(picture.convert(mode).resize((width, height))).reshape(shape).tolist(),
        }
        for name, picture in pictures.items()
    ]
