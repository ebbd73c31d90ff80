"""Frames as codes, without a picture: what the language model is taught on. They have the tower's kind of errors."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vrthinker_core.training.base.frames.clip_errors import ClipErrors
from vrthinker_core.training.drawn_teacher.evidence import PairFrame
from vrthinker_core.training.drawn_world.faults import FRAMES
from vrthinker_core.training.drawn_world.scenes import DrawnPair
from vrthinker_core.training.frame_facts.frame_code import PARTS, SIZE, TOKENS, bumps, encode_facts
from vrthinker_core.training.frame_facts.seen_frames import seen_facts
from vrthinker_core.types import Frame, FrameRef, Side
from vrthinker_core.types.geometry import Grid

PLACE_NOISE, GAIN_NOISE = 0.006, 0.08
LIGHT_NOISE = 0.0, 0.015  # With which the light of a frame is read
LIGHT_OFFSET = 0.06  # By which the light of all frames of a clip is read off alike: that of real ones as much
NOISES = 0.04, 0.12  # Of a pair's numbers and tokens: a tower reads pictures of another kind far less surely than drawn ones
REPEATED = 0.001, 0.008  # Of the numbers of frames that show the same: compression alone keeps them apart
UNSURE_LIGHT = 0.12  # Standard deviation, at most, with which a pair's light is read: that of real pictures is a wide, low bump
UNSURE = {"colour": (0.08, 0.5), "shape": (0.2, 0.5), "count": (0.1, 0.5), "state": (0.4, 0.48)}
"""How often a class is unsure, and how much of it then goes to another at most."""


class FrameNames:
    """A `FrameSource` of a pair that draws nothing: a frame's key says which one it is."""

    def __init__(self, pair: DrawnPair, grid: Grid, size: int) -> None:
        self._seed, self._grid, self._size = pair.seed, grid, size

    def __call__(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        """The frames of the refs without a pixel."""
        return tuple(self._frame(ref) for ref in refs)

    def _frame(self, ref: FrameRef) -> Frame:
        index = self._grid.index(ref.slot, FRAMES)
        return Frame(ref, index, 0.0, 0.0, self._size, self._size, f"{self._seed}:{int(ref.side)}:{index}", b"")


class PairCodes:
    """The codes of a pair's frames; frames that show the same, as those of a freeze do, have nearly the same one."""

    def __init__(self, pair: DrawnPair, directions: torch.Tensor, rng: np.random.Generator) -> None:
        self._pair, self._directions, self._rng = pair, directions, rng
        self._noise, self._unsure = float(rng.uniform(*NOISES)), float(rng.uniform(0, UNSURE_LIGHT))
        self._repeated = float(rng.uniform(*REPEATED))
        self._clips: dict[Side, ClipErrors] = {}
        self._classes: dict[tuple[Side, str, int], tuple[int, float]] = {}
        self._offsets = {side: rng.normal(0, LIGHT_OFFSET, 2) for side in Side}
        self._light_noise = float(rng.uniform(*LIGHT_NOISE))
        self._seen: dict[tuple[Any, ...], torch.Tensor] = {}
        self._frames: dict[PairFrame, torch.Tensor] = {}

    def features(self, frames: Sequence[PairFrame]) -> torch.Tensor:
        """What the tower might give for these frames, each a video's and its index: [frames, TOKENS, hidden]."""
        return torch.stack([self._features(*frame) for frame in frames])

    def _features(self, side: Side, index: int) -> torch.Tensor:
        if (side, index) not in self._frames:
            seen = self._shown(side, index)
            coded = self._rng.normal(0, self._repeated, tuple(seen.shape)).astype(np.float32)
            self._frames[side, index] = seen + torch.from_numpy(coded)
        return self._frames[side, index]

    def _shown(self, side: Side, index: int) -> torch.Tensor:
        """The same for all frames that show the same, [TOKENS, hidden]."""
        scene = self._pair.scenes[side]
        shown = (side, scene.time_and_offset(index), scene.shift(index), scene.picture_state(index))
        if shown not in self._seen:
            self._seen[shown] = self._new_features(side, index)
        return self._seen[shown]

    def _new_features(self, side: Side, index: int) -> torch.Tensor:
        """Of what a frame shows that was not seen yet, with the errors of its moment, [TOKENS, hidden]."""
        tokens = TOKENS * self._directions.shape[1]
        gains, numbers, light, rest = np.split(self._errors(side, index, tokens), np.cumsum([SIZE, SIZE, 2]))
        code = self._new_code(side, index, self._light_noise * light) * (1 + GAIN_NOISE * gains) + self._noise * numbers
        return torch.from_numpy(code.astype(np.float32)) @ self._directions + torch.from_numpy(self._noise * rest).view(TOKENS, -1)

    def _errors(self, side: Side, index: int, tokens: int) -> NDArray[Any]:
        """Standard normal numbers: a gain and an error of each number of the code, two of the light, then of the tokens."""
        if side not in self._clips:
            self._clips[side] = ClipErrors(self._rng, 2 * SIZE + 2 + tokens)
        scene = self._pair.scenes[side]
        time, offset = scene.time_and_offset(index)
        return self._clips[side].at(time, abs(offset) + float(np.hypot(*scene.shift(index))))

    def _new_code(self, side: Side, index: int, light_off: NDArray[Any]) -> NDArray[Any]:
        """Of a frame whose light is read so far off, [SIZE]."""
        scene, rng = self._pair.scenes[side], self._rng
        facts = seen_facts(scene, index)
        light = [np.array(place) + self._offsets[side] + light_off for place in facts.light]
        off = rng.normal(0, PLACE_NOISE, (len(facts.things), 2)).tolist()
        moved = tuple(
            None if thing is None else replace(thing, x=thing.x + right, y=thing.y + down)
            for thing, (right, down) in zip(facts.things, off, strict=True)
        )
        code = encode_facts(replace(facts, things=moved))
        for suffix, place in zip(("", " 2"), light, strict=False):
            code[PARTS["x" + suffix]], code[PARTS["y" + suffix]] = (bumps(along, self._unsure) for along in place)
        for name in UNSURE:
            for part in (PARTS[name], PARTS.get(f"{name} 2")):
                if part is not None and code[part].any():
                    self._make_unsure(code[part], side, name)
        return code

    def _make_unsure(self, numbers: NDArray[Any], side: Side, name: str) -> None:
        """Give part of a class to another one, or nothing: the same in all frames of a clip in which it is the same class."""
        rng, key = self._rng, (side, name, int(numbers.argmax()))
        if key not in self._classes:
            share, most = UNSURE[name]
            self._classes[key] = int(rng.integers(len(numbers))), rng.uniform(0, most) if rng.random() < share else 0.0
        other, given = self._classes[key]
        numbers *= 1 - given
        numbers[other] += given
