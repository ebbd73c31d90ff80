"""Photographs of a folder, or procedural clouds, and a camera that moves over one of them."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, UnidentifiedImageError

from vrthinker_core.drawn.colour_grade import ColourGrade
from vrthinker_core.drawn.facts import GROUNDS, PHOTO
from vrthinker_core.drawn.solids import Floats
from vrthinker_core.drawn.textures import SIDE, VARIANTS, Pixels, texture, value_noise
from vrthinker_core.errors import BadInput

CLOUDS = 24  # Procedural pictures that stand in for photographs


@dataclass(frozen=True, slots=True)
class Mover:
    """A soft-edged patch that moves over the view.

    Lengths are sides of the view.
    """

    number: int  # Which of the photographs
    size: float
    middle: tuple[float, float]  # At the clip's middle, (right, down) from the view's corner
    travel: tuple[float, float]  # During the clip


@dataclass(frozen=True, slots=True)
class FlatView:
    """A camera that moves over a picture, or stands still.

    Lengths are sides of the view at the start.
    """

    picture: str  # PHOTO or one of GROUNDS
    number: int  # Of the photograph or variant; a folder begins again after its last picture
    photos: Path | None
    center: tuple[float, float]  # At the clip's middle, as shares of the picture's sides
    side: float  # Height of the view at the start, as a share of the picture's shorter side
    # During the clip: rightwards, downwards, and the power of e by which the view grows
    travel: tuple[float, float, float]
    mirrored: bool
    stretch: float = 1.0  # Width by height: a judge gets every picture squashed to a square
    sway: float = 0.0  # How far a hand that is not quite still moves the camera
    mover: Mover | None = None
    colour_grade: ColourGrade | None = None  # Of all that is seen

    @property
    def pace(self) -> tuple[float, float, float]:
        """Length of the motion of the camera, or else of the mover."""
        return (*self.mover.travel, 0.0) if self.mover and not any(self.travel) else self.travel

    def place(self, time: float, sideways: float) -> Floats:
        """Return the view at `time` (0..1), `sideways` away from its path.

        The result is (right, down, power of e) from the path's middle.
        """
        right, down, growth = self.travel
        length = float(np.hypot(right, down)) or 1.0
        across = np.array([-down, right, 0]) / length if right or down else np.array([1.0, 0, 0])
        return np.array([right, down, growth]) * (time - 0.5) + across * sideways

    def trace(self, time: float, sideways: float) -> Floats:
        """Return the even motion, [3]; without faults it goes over `pace`."""
        place = self.place(time, sideways)
        return place if any(self.travel) else place + np.array(self.pace) * (time - 0.5)


def photo_count(photos: Path | None) -> int:
    """Return the number of pictures; raise `BadInput` if a folder has none."""
    return len(photo_paths(photos)) if photos else CLOUDS


@lru_cache(maxsize=4)
def photo_paths(photos: Path) -> tuple[Path, ...]:
    """Return a folder's pictures by name; raise `BadInput` if there are none."""
    suffixes = (".jpg", ".jpeg", ".png", ".webp")
    found = sorted(path for path in photos.glob("*") if path.suffix.lower() in suffixes)
    if not found:
        raise BadInput(
            f"{photos} holds no picture (JPEG, PNG or WebP): name a folder of photographs."
        )
    return tuple(found)


@lru_cache(maxsize=128)  # Of 1 to 3 MB each
def picture(name: str, number: int, photos: Path | None) -> Pixels:
    """Return a photograph, clouds or a ground's texture: RGB, read-only.

    Its shorter side is at most SIDE. The mean level is brought to 70 to 165, because too dark or
    too bright is a fault.
    """
    if name in GROUNDS:
        return texture(name, number % VARIANTS)
    if photos:
        pixels = _read(photo_paths(photos)[number % photo_count(photos)])
    else:
        rng = np.random.default_rng([77, number % CLOUDS])
        layers = [value_noise(rng, 7, 0.65) for _ in range(3)]
        pixels = (np.stack(layers, -1) * 255).astype(np.uint8)
    mean = float(pixels.mean())
    wanted = float(np.clip(mean, 70, 165))
    if wanted != mean:
        power = np.log(wanted / 255) / np.log(np.clip(mean, 1, 254) / 255)
        levels: Pixels = ((np.arange(256) / 255) ** power * 255).astype(np.uint8)
        pixels = levels[pixels]
    pixels.setflags(write=False)
    return pixels


@lru_cache(maxsize=48)  # Of 1 to 3 MB each
def ground_of_photo(number: int, photos: Path | None) -> Pixels:
    """Return the middle of a photograph as a ground, RGB [SIDE, SIDE, 3]."""
    whole = picture(PHOTO, number, photos)
    height, width = whole.shape[:2]
    side, top, left = min(height, width), max(0, height - width) // 2, max(0, width - height) // 2
    square = whole[top : top + side, left : left + side]
    square = np.asarray(cv2.resize(square, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.uint8)
    return np.asarray(((square / np.float32(255)) ** np.float32(1.55) * 255).astype(np.uint8))


class FlatRenderer:
    """A renderer of a flat view at one size."""

    def __init__(self, view: FlatView, size: int) -> None:
        """Scale the picture to the pixels of the view at the start."""
        self._view, self._size, mover = view, size, view.mover
        whole = picture(view.picture, view.number, view.photos)
        if view.mirrored:
            whole = np.ascontiguousarray(whole[:, ::-1])
        height, width = whole.shape[:2]
        factor = size / (view.side * min(height, width))
        self._picture = self._toned(
            whole, width * factor / view.stretch, height * factor, factor < 1
        )
        self._patch: Pixels | None = None
        if mover:  # Its colours, and in a fourth channel how much it covers: [side, side, 4]
            whole = picture(PHOTO, mover.number, view.photos)
            side = max(2, round(mover.size * size))
            half = min(whole.shape[:2]) // 2
            colours = self._toned(whole[half // 2 : half // 2 + half, :half], side, side, True)
            line = np.linspace(-1, 1, side, dtype=np.float32)
            cover = np.clip((1 - np.hypot(line[:, None], line[None] * np.float32(1.3))) * 6, 0, 1)
            alpha = (cover * 255).astype(np.uint8)[..., None]
            self._patch = np.concatenate([colours, alpha], -1)

    def render(self, time: float, sideways: float) -> Pixels:
        """Return the picture at `time` (0..1): RGB [size, size, 3].

        The view is `sideways` off the camera's path.
        """
        view, size, mover = self._view, self._size, self._view.mover
        right, down, growth = view.place(time, sideways)
        sway = view.sway * np.array([np.sin(17 * time + view.number), np.cos(23 * time)])
        height, width = self._picture.shape[:2]
        scale = float(np.exp(growth))
        x = view.center[0] * width + (right + sway[0] - scale / 2) * size
        y = view.center[1] * height + (down + sway[1] - scale / 2) * size
        seen = self._warped(self._picture, scale, x, y, cv2.BORDER_REFLECT_101)
        if mover is None or self._patch is None:
            return seen
        middle = np.array(mover.middle) + np.array(mover.travel) * (time - 0.5)
        corner = (middle - mover.size / 2) * size
        if not any(view.travel):  # As the camera jumps, so does all that it sees
            corner -= np.array([sideways, 0]) * size
        patch = self._warped(self._patch, 1, -corner[0], -corner[1], cv2.BORDER_CONSTANT)
        cover = patch[..., 3:] / np.float32(255)
        return (seen + cover * (patch[..., :3] - seen.astype(np.float32))).astype(np.uint8)

    def _toned(self, whole: Pixels, width: float, height: float, shrinks: bool) -> Pixels:
        shape = max(1, round(width)), max(1, round(height))
        interpolation = cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
        scaled = np.asarray(cv2.resize(whole, shape, interpolation=interpolation), np.uint8)
        grade = self._view.colour_grade
        return grade.apply(scaled, self._size) if grade else scaled

    def _warped(self, whole: Pixels, scale: float, x: float, y: float, border: int) -> Pixels:
        matrix, size = np.array([[scale, 0, x], [0, scale, y]]), (self._size, self._size)
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        warped = cv2.warpAffine(whole, matrix, size, flags=flags, borderMode=border)
        return np.asarray(warped, np.uint8)


def _read(path: Path) -> Pixels:
    try:
        with Image.open(path) as image:
            image.draft("RGB", (SIDE, SIDE))
            whole = image.convert("RGB")
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError):
        raise BadInput(f"{path} cannot be read as a picture: take it out of the folder.") from None
    factor = min(1.0, SIDE / min(whole.size))
    width, height = (max(1, round(side * factor)) for side in whole.size)
    return np.asarray(whole.resize((width, height), Image.Resampling.LANCZOS)).copy()
