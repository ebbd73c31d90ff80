"""The motion of a clip: how much each frame differs, and events that are certain.

Everything is measured on grey pictures of 160 columns. An event is certain if nothing else looks
like it: encoders, noise, repeated frames, flashes, fades and fast motion must not.
"""

import statistics
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any

import cv2
import numpy as np
from av.video.frame import VideoFrame
from numpy.typing import NDArray

from vrthinker_core.video.container import VideoSource
from vrthinker_core.video.decode import DecodeStats, no_frame_error, read_all
from vrthinker_core.video.process import Header
from vrthinker_core.video.timeline import read_timeline

Grey = NDArray[Any]  # (rows, columns)

SECONDS = 60.0  # of a clip that are measured
_FRAMES = 7200  # that are measured at most: 160 MB of pictures
_COLUMNS, _DETAIL_COLUMNS = 160, 480  # of a picture for motion, and for sharpness
_EVENTS = 100  # that are told at most

MotionEvent = tuple[str, float, float]  # a kind of `measure.FactKind`, start and end in seconds


def measure_clip(source: VideoSource) -> tuple[Header, bytes]:
    """Decode the start of a clip; return its motion and pictures to compare sharpness.

    Raises `VideoError` if no frame can be decoded.
    """
    timeline, stats = read_timeline(source, lambda _: None), DecodeStats()
    pictures: list[Grey] = []
    details: list[Grey] = []
    keys: list[bool] = []
    full, late, due, tick = False, 0, 0.0, float(source.time_base)
    for decoded in read_all(source, stats):
        frame = decoded.frame
        if not pictures:
            size, detail_size = (
                (columns, max(2, min(4 * columns, round(frame.height * columns / frame.width))))
                for columns in (_COLUMNS, _DETAIL_COLUMNS)
            )
            first, full = frame.pts or 0, frame.color_range == 2
        seconds = ((frame.pts or 0) - first) * tick
        pictures.append(_luma(frame, *size))
        keys.append(frame.key_frame)
        if seconds >= due:
            details.append(_luma(frame, *detail_size))
            due = max(0.5, 2 * due)
        del frame
        late = late + 1 if seconds >= SECONDS else 0  # One late frame may have a wrong clock
        if late > 2 or len(pictures) >= _FRAMES or source.budget.nearly_spent:
            break
    if not pictures:
        raise no_frame_error(source, timeline.stored)
    times = timeline.frame_times(stats.pts, source)
    motion = Motion(pictures, keys, np.append(times.starts, times.seconds))
    curve = motion.differences
    # The lowest and highest of each of 150 parts draw the curve.
    parts = np.array_split(np.arange(len(curve)), min(len(curve), 150))
    shown = sorted({int(part[at(curve[part])]) for part in parts for at in (np.argmin, np.argmax)})
    header = {
        "seconds": times.seconds,
        "times": times.starts[shown].tolist(),
        "differences": (curve[shown] * (1 if full else 255 / 219)).tolist(),
        "events": list(islice(motion.events(), _EVENTS)),
        "rows": detail_size[1],
        "done": True,
    }
    return header, b"".join(map(np.ndarray.tobytes, details))


def _luma(frame: VideoFrame, columns: int, rows: int) -> Grey:
    """Return the luma as 8 bits, shrunk by area average."""
    plane: Any = frame.planes[0]
    name, bits = frame.format.name, frame.format.components[0].bits
    planar = name.startswith("gray") or (name.startswith(("yuv", "nv")) and len(frame.planes) > 1)
    if not planar or bits > 16 or frame.format.is_big_endian or plane.line_size <= 0:
        small = frame.reformat(columns, rows, "gray", interpolation="AREA", threads=1)
        return np.asarray(small.to_ndarray())
    pixels: Any = np.frombuffer(plane, np.uint8 if bits == 8 else np.uint16)
    pixels = pixels.reshape(plane.height, -1)[:, : plane.width]
    if plane.height >= 5 * rows:  # Half of the rows are enough
        pixels = pixels[::2]
    shrunk = _shrunk(pixels, columns, rows)
    return np.asarray(shrunk if bits == 8 else shrunk >> (bits - 8), np.uint8)


def _shrunk(pixels: Any, columns: int, rows: int) -> Any:
    """Shrink by about the area average: halve while possible, which OpenCV does fast."""
    while pixels.shape[1] >= 2 * columns and pixels.shape[0] >= 2 * rows:
        down, across = (side // 2 for side in pixels.shape)
        even = pixels[: 2 * down, : 2 * across]
        pixels = cv2.resize(even, (across, down), interpolation=cv2.INTER_AREA)
    return cv2.resize(pixels, (columns, rows), interpolation=cv2.INTER_LINEAR)


class Motion:
    """Differences and events of the pictures of a clip."""

    def __init__(self, pictures: list[Grey], keys: list[bool], edges: NDArray[np.float64]) -> None:
        """Measure pictures.

        `keys`: whether each is a key frame. `edges`: the second at which each begins, and the end
        of the last one.
        """
        self._pictures, self._edges = pictures, edges
        # In a codec of key frames alone, a key frame is nothing special.
        self._keys = np.array(keys) & (2 * sum(keys) < len(keys))
        self.differences = _changes(pictures)
        # At a quarter of the size, a change of quality cannot be seen, a change of content can.
        rows = max(16, pictures[0].shape[0] // 4)  # OpenCV's flow crashes with fewer rows
        self._coarse = [_shrunk(each, 40, rows) for each in pictures]
        # Slow motion repeats pictures. A place is an index into those that are no repeats.
        self._fresh = _fresh(_changes(self._coarse))
        self._shown = [self._coarse[index] for index in self._fresh]
        self._times = [float(edges[index]) for index in self._fresh]
        self._steps: list[float] = _changes(self._shown).tolist()
        self._levels = [cv2.mean(picture)[0] for picture in self._shown]
        self._flow: Any = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)

    def events(self) -> Iterator[MotionEvent]:
        """Yield everything that is certain."""
        first, length = self._pictures[0], len(self._pictures)
        if all(
            _difference(first, each) < 0.3 and cv2.norm(first, each, cv2.NORM_INF) <= 10
            for each in self._pictures
        ):
            if length > 1 and self._edges[-1] >= 0.3:
                yield "freeze", 0.0, float(self._edges[-1])
            return
        breaks = [(self._break(each), each) for each in range(len(self._shown)) if each]
        cuts = [self._fresh[place] for kind, place in breaks if kind == "cut"]
        freezes = [each for shot in pairwise([0, *cuts, length]) for each in self._freezes(*shot)]
        sudden = [self._times[place] for kind, place in breaks if kind not in ("", "jump")]
        blurs = [each for each in self._blurs() if not _close(each[1], sudden)]
        yield from (*freezes, *blurs)
        ends = [end for each in freezes for end in each[1:]] + [each[1] for each in blurs]
        for kind, place in breaks:
            # After a freeze the motion may go on far away.
            far = kind == "jump" or (kind == "cut" and self._shares_levels(place))
            if kind and not (far and _close(self._times[place], ends)):
                yield kind, self._times[place], self._times[place]

    def _freezes(self, begin: int, after: int) -> Iterator[MotionEvent]:
        """Yield stretches of equal pictures in a shot, far longer than its usual ones."""
        changes, edges = self.differences[begin:after], self._edges[begin : after + 1]
        fresh = [at - begin for at in self._fresh if begin < at < after]
        usual = statistics.median(changes[fresh]) if fresh else 0.0
        if usual <= 0.15:
            return
        hold = statistics.median(np.diff(edges[[0, *fresh]]))
        moves = np.flatnonzero(changes[1:] > 0.25 * usual) + 1
        runs: list[tuple[int, int]] = []
        for start, end in pairwise([0, *moves.tolist(), len(changes)]):
            if end - start < 4 and edges[end] - edges[start] < 0.35:
                continue
            pair = [self._coarse[begin + at] for at in (runs[-1][1] - 1 if runs else start, start)]
            # An encoder renews the same picture, in one step or two.
            if runs and start < runs[-1][1] + 3 and _difference(*pair) < max(2.0, 0.5 * usual):
                start = runs.pop()[0]
            runs.append((start, end))
        for start, end in runs:
            one, two = self._coarse[begin + start], self._coarse[begin + end - 1]
            inside = begin + start > 2 and begin + end < len(self._coarse) - 2
            if edges[end] - edges[start] < max(0.35 if inside else 0.6, 3 * hold):
                continue
            steps = changes[start + 1 : end] if end > start + 1 else np.zeros(1)
            # Motion that slows down or begins slowly is no freeze, nor is a black screen.
            sudden = max(steps[:3].min(), steps[-3:].min()) <= 0.1 * usual
            still = sudden and statistics.median(steps) <= 0.03 * usual
            still = still and 6 * int((steps > 0.5 * usual).sum()) <= len(steps)
            if still and one.std() > 4 and _difference(one, two) < max(2.0, 0.6 * usual):
                yield "freeze", float(edges[start]), float(edges[end])

    def _blurs(self) -> Iterator[MotionEvent]:
        """Yield stretches that begin with a sudden loss of fine detail."""
        edges, until = self._edges, 0.5  # Encoders begin with a better picture than they can keep
        # Relative to the contrast, which a fade lowers, too
        contrast = np.array([cv2.meanStdDev(each)[1][0, 0] for each in self._coarse])
        edged = (cv2.Laplacian(each, cv2.CV_16S) for each in self._pictures)
        detail = np.array([cv2.norm(each, cv2.NORM_L1) / each.size for each in edged])
        detail /= 4 + contrast
        near = max(3, round(0.35 * len(detail) / edges[-1]))
        for at in range(near, len(detail) - near + 1):
            one, two = self._coarse[at - 1 : at + 1]
            sharp = detail[at - near : at].min()
            if (
                edges[at] >= until
                and detail[at] < 0.75 * detail[at - 1]
                and detail[at : at + near].max() < 0.65 * sharp
                and sharp > 0.1
                and abs(float(two.mean() - one.mean())) < 10
                and _likeness(one, two) > 0.85
            ):
                again = np.flatnonzero(detail[at:] > 0.8 * sharp)
                until = float(edges[at + again[0]] if len(again) else edges[-1])
                yield "blur", float(edges[at]), until

    def _break(self, place: int) -> str:
        """Return "brightness", "cut", "jump" or ""."""
        step, near = self._steps[place], self._near(place, 0.6, 5)
        others = _second([self._steps[each] for each in near])
        brightens = abs(self._levels[place] - self._levels[place - 1]) >= 5
        if step < (1.5 if brightens else max(1.5, 1.15 * others)) or self._returns(place):
            return ""
        one, two = self._shown[place - 1 : place + 1]
        likeness = _likeness(one, two)
        change = two.astype(np.float32) - one
        if brightens and likeness > 0.8 and self._brightens(place, change):
            return "brightness"
        cut = max(likeness, _found(one, two)) < 0.69
        cut = cut or (likeness < 0.85 and not self._shares_levels(place))
        if step < max(8.0 if cut else 0.0, 1.15 * others):
            return ""
        # How far motion that goes on is from the picture that follows, here and nearby
        wrong = min(self._surprise(place), self._surprise(place, back=True))
        steady = [self._surprise(each) for each in near if each > 1 and each != place + 1]
        ratio = wrong / max(0.3, _second(steady))
        if cut:
            return "cut" if ratio > 2 else ""
        least = 2 if step > 6 else 2.3 if step > 4 else 5
        least += self._keys[self._fresh[place]]  # A key frame is of another quality
        inside = len(steady) > 3 and near[0] < place < near[-1]
        return "jump" if inside and ratio > least and self._moves_there(change, near) else ""

    def _near(self, place: int, seconds: float, most: int) -> list[int]:
        """Return the places around one, within some seconds."""
        times = self._times
        around = range(max(1, place - most), min(len(times), place + most + 1))
        return [each for each in around if 0 < abs(times[each] - times[place]) <= seconds]

    def _returns(self, place: int) -> bool:
        """Return whether the picture is soon as it was, as after a flash."""
        shown, near = self._shown, self._near(place, 0.25, 4)
        pairs = [(place - 1, each) if each > place else (each - 1, place) for each in near]
        least = 0.5 * self._steps[place]
        return any(_difference(shown[one], shown[two]) < least for one, two in pairs)

    def _brightens(self, place: int, change: Grey) -> bool:
        """Return whether the whole picture changes from one even brightness to another."""
        before, after = self._levels[place - 1 : place + 1]
        # An encoder makes a fade uneven.
        uneven = [
            abs(self._levels[each] - after if each > place else self._levels[each - 1] - before)
            for each in self._near(place, 0.2, 60)
        ]
        whole = (change * (after - before) > 0).mean() > 0.8
        return bool(whole and abs(after - before) >= 4 * max(uneven, default=0.0))

    def _surprise(self, place: int, *, back: bool = False) -> float:
        """Return how far a picture is from steady motion, seen forwards or backwards."""
        pictures = self._shown[max(0, place - 2) : place + 1]
        if back:
            pictures = self._shown[place - 1 : place + 2][::-1]
        last, after = pictures[-2], pictures[-1]
        if len(pictures) < 3:
            return _difference(last, after)
        rows, columns = np.indices(last.shape, np.float32)
        flow = self._flow.calc(last, pictures[0], None)
        places = columns + flow[..., 0], rows + flow[..., 1]
        moved = cv2.remap(last, *places, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return _difference(moved, after)

    def _shares_levels(self, place: int) -> bool:
        """Return whether a picture has the grey levels of the one before."""
        both = self._shown[place - 1 : place + 1]
        levels = [np.histogram(each, 32, (0, 256))[0] for each in both]
        return bool(np.minimum(*levels).sum() >= 0.82 * both[0].size)

    def _moves_there(self, change: Grey, near: list[int]) -> bool:
        """Return whether the change is where things move, unlike a new caption."""
        moving = np.zeros(self._shown[0].shape, np.float32)
        for each in near:
            moving += cv2.absdiff(self._shown[each], self._shown[each - 1])
        there = float(np.abs(change[moving >= 0.5 * moving.mean()]).sum())
        # Motion makes some places brighter and others darker.
        return bool(there > 0.6 * float(np.abs(change).sum()) > abs(float(change.sum())))


def _close(at: float, others: list[float]) -> bool:
    return any(abs(at - other) <= 0.1 for other in others)


def _fresh(changes: NDArray[np.float64]) -> list[int]:
    """Return the pictures that do not repeat the one before."""
    fresh = [0]
    for index in range(1, len(changes)):
        near = sorted(changes[max(1, index - 8) : index + 9])
        if changes[index] > 0.3 * near[-min(3, len(near))]:
            fresh.append(index)
    return fresh


def _changes(pictures: list[Grey]) -> NDArray[np.float64]:
    return np.array([0.0, *map(_difference, pictures, pictures[1:])])


def _difference(one: Grey, two: Grey) -> float:
    """Return the mean absolute difference."""
    return float(cv2.norm(one, two, cv2.NORM_L1)) / one.size


def _second(values: list[float]) -> float:
    """Return the second largest: one outlier is no rule."""
    return sorted(values)[-min(2, len(values))] if values else 0.0


def _likeness(one: Grey, two: Grey) -> float:
    """Return the correlation of two pictures, 0 for an even one."""
    small = [_shrunk(each, 20, 12) for each in (one, two)]
    first, second = (each.astype(np.float32) - float(each.mean()) for each in small)
    size = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float((first * second).sum()) / size if size > first.size else 0.0


def _found(one: Grey, two: Grey) -> float:
    """Return how well the middle of one picture is found anywhere in the other."""
    rows, columns = one.shape[0] // 5, one.shape[1] // 5
    middle = slice(rows, one.shape[0] - rows), slice(columns, one.shape[1] - columns)
    both = (one, two[middle]), (two, one[middle])
    found = (cv2.matchTemplate(*each, cv2.TM_CCOEFF_NORMED) for each in both)
    return max(0.0, *(float(each.max()) for each in found))
