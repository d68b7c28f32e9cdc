"""Images: folders of files, and how pixels become the variables of a circuit."""

from socratic.images.augmentation import Augmentation
from socratic.images.folders import EncodedImage, load_image_folder, read_images
from socratic.images.labelled import Images, spread_evenly
from socratic.images.pixels import PixelEncoder

__all__ = [
    "Augmentation",
    "EncodedImage",
    "Images",
    "PixelEncoder",
    "load_image_folder",
    "read_images",
    "spread_evenly",
]
