"""A setting made ready to draw: solids in, one picture out.

The ground never moves, so it is drawn once for each clip; of every frame only the pixels that a solid or its shadow can reach are
shaded again. A pixel is one sample at its middle; where a solid begins or ends, `fine` x `fine` samples replace it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from vrthinker_core.training.drawn_world.camera import Box, Camera
from vrthinker_core.training.drawn_world.light import (
    DIRECT,
    SHADOW,
    SKY,
    contact,
    display,
    hidden_from_sun,
    on_solid,
    shadow_of,
    surround_of,
)
from vrthinker_core.training.drawn_world.solids import MISS, Floats, Solid
from vrthinker_core.training.drawn_world.textures import EXTENT, SIDE, VARIANTS, Pixels, texture

SOFT = 0.007
"""How soft a shadow's rim is (one sigma), as a share of the picture's side."""
EDGE = 24
"""Display levels between neighbouring pixels from which an edge is sampled finely."""


@dataclass(frozen=True, slots=True)
class Background:
    """Where a clip is taken: ground, camera, light."""

    ground: str
    variant: int
    """Which of the ground's textures."""
    turn: float
    """How the texture lies, radians."""
    shift: tuple[float, float]
    """Where the texture begins, in its own extents."""
    yaw: float
    pitch: float
    sun: float
    """How bright the light is."""


def draw_background(rng: np.random.Generator, ground: str) -> Background:
    """A random setting on `ground`. Planks, tiles and ripples lie across the view, grass and marble lie anyhow."""
    return Background(
        ground=ground,
        variant=int(rng.integers(VARIANTS)),
        turn=rng.uniform(0, 2 * math.pi) if ground in ("grass", "marble") else 0.0,
        shift=(rng.random(), rng.random()),
        yaw=rng.uniform(-8, 8),
        pitch=rng.uniform(27, 36),
        sun=rng.uniform(0.85, 1.1),
    )


class Renderer:
    """The bare ground of a setting at one size; the same solids on it always give the same picture."""

    def __init__(self, setting: Background, size: int, fine: int = 1) -> None:
        """Draw the ground, `size` pixels a side, with `fine` x `fine` samples a pixel."""
        self.size = size
        self._fine = fine
        self._sun = np.float32(setting.sun)
        self._camera = Camera(setting.yaw, setting.pitch, size)
        self._spots = self._camera.ground(self._camera.middles(self._camera.whole))[1].reshape(size, size, 3)
        self._colour = _ground_colour(setting, self._camera, fine)
        self._bare = display(self._colour * ((SKY + DIRECT) * self._sun))

    def render(self, solids: tuple[Solid, ...]) -> Pixels:
        """The picture with these solids on the ground: RGB [size, size, 3]."""
        ground = self._bare.copy()
        self._cast_shadows(ground, solids)
        picture = ground.copy()
        boxes = [self._camera.box(solid.corners, margin=2) for solid in solids]
        for box in boxes:
            seen = tuple(solid for solid, other in zip(solids, boxes, strict=True) if _meet(box, other))
            picture[box] = self._with_solids(ground[box], box, seen, solids)
        return picture

    def _cast_shadows(self, picture: Pixels, solids: tuple[Solid, ...]) -> None:
        """Darken the ground of `picture` around and behind the solids."""
        sun, near = (np.ones((self.size, self.size), np.float32) for _ in range(2))
        soft = SOFT * self.size
        reached: list[Box] = []
        for solid in solids:
            box, around = self._camera.box(shadow_of(solid), margin=2), self._camera.box(surround_of(solid), margin=0)
            spots = self._spots[box]
            sun[box][hidden_from_sun(spots.reshape(-1, 3), solid).reshape(spots.shape[:2])] = SHADOW
            near[around] *= contact(self._spots[around], solid)
            reached += [around, self._camera.box(shadow_of(solid), margin=2 + 3 * soft)]
        blurred = np.asarray(cv2.GaussianBlur(sun, (0, 0), soft), np.float32)
        for box in reached:
            light = (SKY + DIRECT * blurred[box]) * near[box] * self._sun
            picture[box] = display(self._colour[box] * light[..., None])

    def _with_solids(self, ground: Pixels, box: Box, seen: tuple[Solid, ...], solids: tuple[Solid, ...]) -> Pixels:
        """A box's pixels [h, w, 3] with the solids `seen` there over its `ground`."""
        points, under = self._camera.middles(box), ground.reshape(-1, 3)
        colours, met = self._look(points, under, seen, solids)
        if self._fine > 1:
            edge = np.nonzero(_edges(colours.reshape(ground.shape), met.reshape(ground.shape[:2])).ravel())[0]
            many = (points[edge, None] + self._camera.samples(self._fine)).reshape(-1, 2)
            sampled, _ = self._look(many, np.repeat(under[edge], self._fine**2, axis=0), seen, solids)
            colours[edge] = sampled.reshape(len(edge), self._fine**2, 3).mean(1)
        return colours.reshape(ground.shape)

    def _look(
        self, points: Floats, under: Pixels, seen: tuple[Solid, ...], solids: tuple[Solid, ...]
    ) -> tuple[Pixels, NDArray[np.bool_]]:
        """Colours [n, 3] at picture points [n, 2], the ground's `under` where nothing is met, and where something is, [n]."""
        rays, colours = self._camera.rays(points), under.copy()
        nearest = np.full(len(points), MISS, np.float32)
        for solid in seen:
            distance, normals = solid.hit(self._camera.eye, rays)
            rows = np.nonzero(distance < nearest)[0]
            nearest[rows] = distance[rows]
            spots = self._camera.eye + distance[rows, None] * rays[rows]
            colours[rows] = display(on_solid(solid, spots, rays[rows], normals[rows], solids) * self._sun)
        return colours, np.isfinite(nearest)


def _ground_colour(setting: Background, camera: Camera, fine: int) -> Floats:
    """What the camera sees of the ground in full light, with haze in the distance: [size, size, 3] in 0..1."""
    size = camera.size
    painted = cv2.GaussianBlur(texture(setting.ground, setting.variant), (0, 0), max(0.3, 130 / (size * fine)))
    # Whole tiles fit into a texture, so it repeats; the others would show a seam, and are mirrored.
    border = cv2.BORDER_WRAP if setting.ground == "tiles" else cv2.BORDER_REFLECT
    c, s = math.cos(setting.turn), math.sin(setting.turn)
    lie = np.array([[c, -s], [s, c]], np.float32) / np.float32(EXTENT)
    points, total = camera.middles(camera.whole), np.zeros((size, size, 3), np.float32)
    for step in camera.samples(fine):
        distance, spots = camera.ground(points + step)
        where = ((spots[:, ::2] @ lie + np.array(setting.shift, np.float32)) * (SIDE - 1)).reshape(size, size, 2)
        haze = np.clip((distance - 9) / 22, 0, 1).reshape(size, size, 1)
        seen = cv2.remap(painted, where[..., 0], where[..., 1], cv2.INTER_LINEAR, borderMode=border)
        total += seen * ((1 - haze) / 255) + np.float32(0.75) * haze
    return total / np.float32(fine**2)


def _edges(colours: Pixels, met: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Pixels on or beside a solid, [h, w], whose neighbours look different."""
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3))
    red, green, blue = cv2.split(cv2.morphologyEx(colours, cv2.MORPH_GRADIENT, cross))
    near = cv2.dilate(met.astype(np.uint8), cross) > 0
    edges: NDArray[np.bool_] = near & (cv2.max(cv2.max(red, green), blue) > EDGE)
    return edges


def _meet(one: Box, other: Box) -> bool:
    return all(a.start < b.stop and b.start < a.stop for a, b in zip(one, other, strict=True))
