"""A scene: all facts of one clip, where its things are, how they move; and its renderer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from vrthinker_core.drawn.damage import CodecNoise
from vrthinker_core.drawn.facts import SceneFacts
from vrthinker_core.drawn.faults import CLEAR, FRAMES, MotionFault, PictureFault
from vrthinker_core.drawn.photographs import FlatRenderer, FlatView
from vrthinker_core.drawn.renderer import Background, Camera, Renderer
from vrthinker_core.drawn.solids import BOUNDS, Solid, bases_of, corners_of, dot
from vrthinker_core.drawn.textures import Pixels

# World units that the ground's coordinates 0..1 cover, sideways and towards the camera
WIDTH, DEPTH = 5.2, 6.4
GO, STAY, LEAP = "go", "stay", "leap"


@dataclass(frozen=True, slots=True)
class Formation:
    """The solids of one thing, which move as one."""

    solids: tuple[Solid, ...]  # Standing about the middle of the ground
    spin: float  # How far each rotates during the clip, radians
    # First position of the middle: ground coordinates, 0..1 rightwards and towards the camera
    start: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Scene:
    """A clip of things on a ground, or of a camera."""

    facts: SceneFacts
    background: Background | None
    groups: tuple[Formation, ...] = ()  # One for each thing of the facts, in their order
    still_solids: tuple[Solid, ...] = ()  # Solids at the back that do not move
    travel: tuple[float, float] = (0.0, 0.0)  # Of the things, in the ground's coordinates
    view: FlatView | None = field(default=None, kw_only=True)  # In place of background and things
    picture_fault: PictureFault | None = field(default=None, kw_only=True)
    motion_fault: MotionFault | None = field(default=None, kw_only=True)

    def position(self, index: int) -> tuple[float, float]:
        """Return the middle of the first thing in frame `index`, in ground coordinates."""
        return self._position(self.groups[0], *self.time_and_offset(index))

    def solids(self, index: int) -> tuple[Solid, ...]:
        """Return all solids of frame `index`, as they stand there."""
        return (*self.still_solids, *(solid for group in self._groups(index) for solid in group))

    def time_and_offset(self, index: int) -> tuple[float, float]:
        """Return (time, sideways offset) of frame `index`; the clip takes time 0..1."""
        if self.motion_fault:
            return self.motion_fault.time_and_offset(index)
        return index / (FRAMES - 1), 0.0

    def shift(self, index: int) -> tuple[float, float]:
        """Return how far frame `index` is shifted, right and down, in pictures."""
        return self.motion_fault.shift(index) if self.motion_fault else (0.0, 0.0)

    def picture_state(self, index: int) -> str:
        """Return the state of frame `index`: "clear" or one of the damages."""
        return self.picture_fault.state(index) if self.picture_fault else CLEAR

    def thing_positions(self, index: int) -> tuple[tuple[float, float] | None, ...]:
        """Return the middles of all things, 0..1 rightwards and downwards.

        A hidden thing is None.
        """
        if self.background is None:
            return ()
        positions: list[tuple[float, float] | None] = []
        shares, (right, down) = self.visible_shares(index), self.shift(index)
        for group, share in zip(self._groups(index), shares, strict=True):
            # Most of a cone is near the ground
            middles = [
                (s.x, (0.32 if s.shape == "cone" else 0.5) * BOUNDS[s.shape][1] * s.size, s.z)
                for s in group
            ]
            x, y = self._camera().project(np.array(middles, np.float32)).mean(0).tolist()
            positions.append((x + right, y + down) if share >= 0.1 else None)
        return tuple(positions)

    def visible_shares(self, index: int) -> tuple[float, ...]:
        """Estimate the visible share of each thing.

        A thing may leave the picture or stand behind another one. Each solid counts as an ellipse;
        points spread evenly over it are tested.
        """
        groups, camera = self._groups(index), self._camera()
        solids = [solid for group in groups for solid in group]
        owners = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        corners = camera.project(corners_of(solids).reshape(-1, 3)).reshape(len(solids), -1, 2)
        low, high = corners.min(1), corners.max(1)
        # [n, 2]; a solid covers less than the box of all its rotations
        middles, halves = (low + high) / 2, (high - low) / 2 * np.float32(0.85)
        offsets = bases_of(solids) - camera.eye
        distances = np.sqrt(dot(offsets, offsets))
        points = middles[:, None] + _DISC * halves[:, None]  # [n, points, 2]
        shifted = points + np.array(self.shift(index))
        seen = ((shifted >= 0) & (shifted <= 1)).all(-1)
        # [n, n]: the second solid is before the first
        behind = (owners[:, None] != owners) & (distances < distances[:, None])
        for hidden, before in zip(*np.nonzero(behind), strict=True):
            inside = ((points[hidden] - middles[before]) / halves[before]) ** 2
            seen[hidden] &= inside.sum(-1) > 1
        shares = seen.mean(1)
        return tuple(float(shares[owners == number].mean()) for number in range(len(groups)))

    def motion_words(self, indices: Sequence[int]) -> tuple[str, ...]:
        """Return a word for each step between these frames, which ascend.

        "go": at the speed of the clip; "stay": much too short; "leap": much too far, backwards or
        sideways.
        """
        words = []
        for before, after in pairwise(indices):
            moved = self.trace(after) - self.trace(before)
            expected = self.pace * ((after - before) / (FRAMES - 1))
            square = float(expected @ expected)
            along = float(moved @ expected) / square if square else 1.0
            across, off = np.linalg.norm(moved - along * expected), np.linalg.norm(moved - expected)
            # Lengths are the clip's own; a step is no leap if it ends almost in the right place
            if across > 0.055 or (not -0.4 <= along <= 1.45 and off > 0.02):
                words.append(LEAP)
            else:
                words.append(STAY if along < 0.5 else GO)
        return tuple(words)

    @property
    def pace(self) -> NDArray[np.float64]:
        """How far `trace` goes during a clip without a motion fault, [3]."""
        return np.array(self.view.pace if self.view else (*self.travel, 0.0), np.float64)

    def trace(self, index: int) -> NDArray[np.float64]:
        """Return the even motion, [3], of the things or the camera."""
        at = self.time_and_offset(index)
        place = self.view.trace(*at) if self.view else (*self.position(index), 0.0)
        return np.asarray(np.array(place, np.float64) + np.array((*self.shift(index), 0.0)))

    def _groups(self, index: int) -> list[list[Solid]]:
        """Return the solids of each thing as they stand in frame `index`."""
        time, sideways = self.time_and_offset(index)
        groups = []
        for group in self.groups:
            (x, y), turned = self._position(group, time, sideways), group.spin * time
            x, z = (x - 0.5) * WIDTH, (y - 0.55) * DEPTH
            groups.append(
                [
                    replace(solid, x=x + solid.x, z=z + solid.z, rotation=solid.rotation + turned)
                    for solid in group.solids
                ]
            )
        return groups

    def _position(self, group: Formation, time: float, sideways: float) -> tuple[float, float]:
        x, y = (at + time * length for at, length in zip(group.start, self.travel, strict=True))
        return (x, y + sideways) if self.travel[0] else (x + sideways, y)

    def _camera(self) -> Camera:
        assert self.background is not None
        return _camera_at(self.background.yaw, self.background.pitch, 1)


_camera_at = lru_cache(maxsize=64)(Camera)  # Computes the axes of each once


_LINE = np.linspace(-0.9, 0.9, 7)
_GRID = np.stack(np.meshgrid(_LINE, _LINE), -1).reshape(-1, 2)
_DISC = _GRID[(_GRID**2).sum(-1) <= 1]  # Points spread evenly over a disc of radius 1


class SceneRenderer:
    """A scene at one size, drawn frame by frame in any order."""

    def __init__(
        self, scene: Scene, size: int, supersample: int = 1, codec_noise: CodecNoise | None = None
    ) -> None:
        """Draw the ground once, `size` pixels a side.

        Edges of solids get `supersample` x `supersample` samples a pixel.
        """
        self.scene, self._codec_noise, self._shown = scene, codec_noise, size
        self._size = size = codec_noise.drawn if codec_noise else size
        self._renderer = Renderer(scene.background, size, supersample) if scene.background else None
        self._flat = FlatRenderer(scene.view, size) if scene.view else None

    def frame(self, index: int) -> Pixels:
        """Return frame `index` (0..127) of the clip: RGB [size, size, 3]."""
        if self._codec_noise:
            return self._codec_noise.apply(self._drawn, index, self._shown)
        return self._drawn(index)

    def _drawn(self, index: int) -> Pixels:
        if self._renderer is not None:
            pixels = self._renderer.render(self.scene.solids(index))
        else:
            assert self._flat is not None
            pixels = self._flat.render(*self.scene.time_and_offset(index))
        right, down = self.scene.shift(index)
        if right or down:  # What comes into view is the mirror image of what is beside it
            size, border = (self._size, self._size), cv2.BORDER_REFLECT
            matrix = np.array([[1, 0, right * self._size], [0, 1, down * self._size]], np.float32)
            pixels = np.asarray(cv2.warpAffine(pixels, matrix, size, borderMode=border), np.uint8)
        return self.scene.picture_fault.apply(pixels, index) if self.scene.picture_fault else pixels
