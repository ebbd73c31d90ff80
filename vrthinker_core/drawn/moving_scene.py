"""A scene: all there is to know of one clip, and what follows from it: where things are, how they move, what is damaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vrthinker_core.drawn.camera import Camera
from vrthinker_core.drawn.facts import SceneFacts
from vrthinker_core.drawn.faults import CLEAR, FRAMES, MotionFault, PictureFault
from vrthinker_core.drawn.photographs import FlatView
from vrthinker_core.drawn.renderer import Background
from vrthinker_core.drawn.solids import BOUNDS, Floats, Solid, bases_of, corners_of, dot

WIDTH, DEPTH = (
    5.2,
    6.4,
)  # World units that the ground's coordinates 0..1 cover, sideways and towards the camera
SIDEWAYS = 0.055  # A step that goes further off its line, in the clip's own lengths, is a leap
FAR, BACK, SHORT = (
    1.45,
    -0.4,
    0.5,
)  # Shares of what the speed says: beyond FAR or BACK a step is a leap, below SHORT it stays
NOTICED = 0.02  # A step is no leap where it is not even so far from where it should be
LOW_MIDDLE = 0.32  # Of a cone, as a share of its height: most of it is near the ground
ROUND = 0.85  # What a solid covers against the box of all its rotations
HIDDEN = 0.1  # Of a thing of which less is to be seen, nobody can say where it is
GO, STAY, LEAP = "go", "stay", "leap"


@dataclass(frozen=True, slots=True)
class Formation:
    """The solids of one thing, which move as one."""

    solids: tuple[Solid, ...]  # Standing about the middle of the ground
    spin: float  # How far each rotates during the clip, radians
    start: tuple[
        float, float
    ]  # Where the middle is at first: the ground's coordinates, 0..1 rightwards and towards the camera


@dataclass(frozen=True, slots=True)
class Scene:
    """All there is to know of one clip: things that move over a ground, or a camera that moves over a picture."""

    facts: SceneFacts
    background: Background | None
    groups: tuple[Formation, ...] = ()  # One for each thing of the facts, in their order
    still_solids: tuple[Solid, ...] = ()  # Solids at the back that do not move
    travel: tuple[float, float] = (
        0.0,
        0.0,
    )  # How far the things move during the clip, in the ground's coordinates
    view: FlatView | None = field(default=None, kw_only=True)  # In place of background and things
    picture_fault: PictureFault | None = field(default=None, kw_only=True)
    motion_fault: MotionFault | None = field(default=None, kw_only=True)

    def position(self, index: int, number: int = 0) -> tuple[float, float]:
        """Where the middle of thing `number` is in frame `index`, in the ground's coordinates."""
        return self._position(self.groups[number], *self.time_and_offset(index))

    def solids(self, index: int) -> tuple[Solid, ...]:
        """All solids of frame `index`, where they stand then."""
        return (*self.still_solids, *(solid for group in self._groups(index) for solid in group))

    def time_and_offset(self, index: int) -> tuple[float, float]:
        """(time, offset) that frame `index` shows: the time runs 0..1 over the clip, the offset is sideways."""
        return (
            self.motion_fault.time_and_offset(index)
            if self.motion_fault
            else (index / (FRAMES - 1), 0.0)
        )

    def shift(self, index: int) -> tuple[float, float]:
        """How far all of frame `index` is shifted, rightwards and downwards, as shares of the picture."""
        return self.motion_fault.shift(index) if self.motion_fault else (0.0, 0.0)

    def picture_state(self, index: int) -> str:
        """What happens to the picture of frame `index`: "clear" or one of the damages."""
        return self.picture_fault.state(index) if self.picture_fault else CLEAR

    def thing_positions(self, index: int) -> tuple[tuple[float, float] | None, ...]:
        """The middle of each thing in frame `index`, 0..1 rightwards and downwards in the picture; None where it is hidden."""
        if self.background is None:
            return ()
        camera, groups, (right, down) = self._camera(), self._groups(index), self.shift(index)
        positions: list[tuple[float, float] | None] = []
        for group, share in zip(groups, self._visible_shares(groups, index), strict=True):
            x, y = (
                camera.project(np.array([_middle(solid) for solid in group], np.float32))
                .mean(0)
                .tolist()
            )
            positions.append((x + right, y + down) if share >= HIDDEN else None)
        return tuple(positions)

    def visible_shares(self, index: int) -> tuple[float, ...]:
        """About which share of each thing is to be seen in frame `index`: not outside the picture, not behind the other thing."""
        return self._visible_shares(self._groups(index), index)

    def _visible_shares(self, groups: Sequence[Sequence[Solid]], index: int) -> tuple[float, ...]:
        owners = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        ellipses = _Ellipses.of([solid for group in groups for solid in group], self._camera())
        shares = ellipses.visible_shares(owners, np.array(self.shift(index)))
        return tuple(float(shares[owners == number].mean()) for number in range(len(groups)))

    def motion_words(self, indices: Sequence[int]) -> tuple[str, ...]:
        """A word for each step between neighbours of these frames, in ascending order.

        "go": as the speed of the whole clip says; "stay": much too short; "leap": much too far, backwards or sideways.
        """
        return tuple(self._word(before, after) for before, after in pairwise(indices))

    def _word(self, before: int, after: int) -> str:
        moved, expected = (
            self.trace(after) - self.trace(before),
            self.pace * ((after - before) / (FRAMES - 1)),
        )
        square = float(expected @ expected)
        along = float(moved @ expected) / square if square else 1.0
        across, off = np.linalg.norm(moved - along * expected), np.linalg.norm(moved - expected)
        if across > SIDEWAYS or (not BACK <= along <= FAR and off > NOTICED):
            return LEAP
        return STAY if along < SHORT else GO

    @property
    def pace(self) -> NDArray[np.float64]:
        """How far `trace` goes during a clip without a motion fault, [3]."""
        return np.array(self.view.pace if self.view else (*self.travel, 0.0), np.float64)

    def trace(self, index: int) -> NDArray[np.float64]:
        """What moves evenly in a clip without a motion fault, [3]: the things on the ground, or the camera."""
        place = (
            self.view.trace(*self.time_and_offset(index))
            if self.view
            else (*self.position(index), 0.0)
        )
        traced: NDArray[np.float64] = np.array(place, np.float64) + np.array(
            (*self.shift(index), 0.0)
        )
        return traced

    def _groups(self, index: int) -> list[list[Solid]]:
        """The solids of each thing where they stand in frame `index`."""
        time, sideways = self.time_and_offset(index)
        return [self._placed(group, time, sideways) for group in self.groups]

    def _placed(self, group: Formation, time: float, sideways: float) -> list[Solid]:
        (x, y), turned = self._position(group, time, sideways), group.spin * time
        return [
            replace(
                solid,
                x=(x - 0.5) * WIDTH + solid.x,
                z=(y - 0.55) * DEPTH + solid.z,
                rotation=solid.rotation + turned,
            )
            for solid in group.solids
        ]

    def _position(self, group: Formation, time: float, sideways: float) -> tuple[float, float]:
        x, y = (
            begin + time * length for begin, length in zip(group.start, self.travel, strict=True)
        )
        return (x, y + sideways) if self.travel[0] else (x + sideways, y)

    def _camera(self) -> Camera:
        assert self.background is not None
        return _camera_at(self.background.yaw, self.background.pitch)


@lru_cache(maxsize=64)
def _camera_at(yaw: float, pitch: float) -> Camera:
    """One camera for all frames of a scene: its axes are computed once."""
    return Camera(yaw, pitch, 1)


def _middle(solid: Solid) -> tuple[float, float, float]:
    share = LOW_MIDDLE if solid.shape == "cone" else 0.5
    return solid.x, share * BOUNDS[solid.shape][1] * solid.size, solid.z


@dataclass(frozen=True, slots=True)
class _Ellipses:
    """About what each of n solids covers in the picture."""

    middles: Floats  # [n, 2], in the picture
    halves: Floats  # Half of their widths and of their heights, [n, 2]
    distances: Floats  # From the camera, [n]

    @classmethod
    def of(cls, solids: Sequence[Solid], camera: Camera) -> _Ellipses:
        points = camera.project(corners_of(solids).reshape(-1, 3)).reshape(len(solids), -1, 2)
        low, high = points.min(1), points.max(1)
        offsets = bases_of(solids) - camera.eye
        return cls(
            (low + high) / 2, (high - low) / 2 * np.float32(ROUND), np.sqrt(dot(offsets, offsets))
        )

    def visible_shares(self, owners: NDArray[np.intp], shift: NDArray[np.float64]) -> Floats:
        """Of each solid [n]: inside the picture, and not behind one that another thing owns."""
        points = self.middles[:, None] + _DISC * self.halves[:, None]  # [n, points, 2]
        seen = ((points + shift >= 0) & (points + shift <= 1)).all(-1)
        behind = (owners[:, None] != owners) & (
            self.distances < self.distances[:, None]
        )  # [n, n]: the second before the first
        for hidden, before in zip(*np.nonzero(behind), strict=True):
            seen[hidden] &= (
                ((points[hidden] - self.middles[before]) / self.halves[before]) ** 2
            ).sum(-1) > 1
        shares: Floats = seen.mean(1)
        return shares


_GRID = np.stack(np.meshgrid(np.linspace(-0.9, 0.9, 7), np.linspace(-0.9, 0.9, 7)), -1).reshape(
    -1, 2
)
_DISC = _GRID[(_GRID**2).sum(-1) <= 1]  # Points spread evenly over a disc of radius 1
