"""Traces of runs, built without a judge."""

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from PIL import Image

from vrthinker_core import types
from vrthinker_core.types import FrameRef, FrameSelection, Preference, Reply, Side, Verdict
from vrthinker_core.types.events import Finished, Run, Started, StopReason, Trace, Turn
from vrthinker_core.types.messages import Completion, LabelToken

FRAMES, FPS = 64, 24.0
WHOLE = Verdict(TA=Preference.FIRST, MQ=Preference.TIE, VQ=Preference.SECOND, OA=Preference.FIRST)
THINK = "Video 1 keeps the ball on a straight path; video 2 lets it jump near the middle. "
ANSWER = "<Think>Both are sharp.</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
SHARES = {"TA": (0.02, 0.93, 0.05), "MQ": (0.5, 0.3, 0.2), "VQ": (0.0, 0.0, 1.0)}
SHARES["OA"] = (0.0015, 0.9985, 0.0)

View = tuple[FrameRef, ...] | None
Shown = tuple[types.Thumbnail, ...]


def jpeg(red: int, green: int, blue: int, size: tuple[int, int] = (96, 96)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, (red % 256, green % 256, blue % 256)).save(buffer, "JPEG", quality=60)
    return buffer.getvalue()


def clip(name: str, notes: tuple[str, ...] = ()) -> types.ClipInfo:
    digest, seconds = f"digest of {name}", FRAMES / FPS
    return types.ClipInfo(name, digest, "mp4", "h264", 320, 240, FRAMES, FPS, seconds, notes=notes)


def thumbnail(slot: int, side: Side, number: str | None = None) -> types.Thumbnail:
    index, picture = slot // 2, jpeg(slot * 2, 90 * side, 255 - slot)
    place, times = FrameRef(slot, side), (index / FPS, (index + 1) / FPS)
    return types.Thumbnail(place, number or str(slot), index, *times, picture)


def pairs(slots: Sequence[int]) -> Shown:
    return tuple(thumbnail(slot, side) for slot in slots for side in Side)


def refs(frames: Shown) -> tuple[FrameRef, ...]:
    return tuple(frame.ref for frame in frames)


def completion(text: str, piece: int = 8) -> Completion:
    pieces = tuple(min(piece, len(text) - start) for start in range(0, len(text), piece))
    words = len(text.split())
    return Completion(text, pieces=pieces, prompt_tokens=312, new_tokens=words, seconds=1.6)


def asking(number: int, shown: Shown, wanted: Sequence[int], view: View = None) -> Turn:
    text = f"noted {number}; thought {number}; wants {list(wanted)}"
    wants = FrameSelection(tuple(wanted), asked=len(wanted))
    reply = Reply(text, f"What stood out in turn {number}.", THINK * 3, wants)
    return Turn(number, "told", shown, completion(text), reply, in_view=view or refs(shown))


def answering(number: int, shown: Shown, verdict: Verdict = WHOLE, view: View = None) -> Turn:
    text = f"noted {number}; thought {number}; answers"
    reply = Reply(text, f"What stood out in turn {number}.", THINK * 2, verdict=verdict, final=True)
    return Turn(number, "told", shown, completion(text), reply, in_view=view or refs(shown))


def started(prompt: str = "A ball pans steadily.", **changes: object) -> Started:
    base: dict[str, Any] = {"judge": "by hand", "dialect": "paired"}
    base |= {"settings": types.Settings(max_turns=6), "clips": (clip("a.mp4"), clip("b.mp4"))}
    return Started(prompt, **{**base, **changes})


def three_turns(**changes: object) -> Trace:
    """Two requests for frames and an answer; at the end those of the first have left the view."""
    opening, middle = pairs([16, 48, 80, 112]), pairs([10, 30, 60, 90])
    late = pairs([56, 58, 60, 62, 64, 66])
    turns = (
        asking(1, opening, [10, 30, 60, 90]),
        asking(2, middle, [56, 58, 60, 62, 64, 66], refs(opening) + refs(middle)),
        answering(3, late, view=refs(opening) + refs(late)),
    )
    return Trace(started(**changes), turns, Finished(StopReason.ANSWERED, WHOLE, seconds=4.6))


def both_orders(second: Verdict | None = WHOLE, trace: Trace | None = None, **end: Any) -> Trace:
    """A run and one over the swapped clips, which says `second` in its own sides."""
    first = trace or three_turns()
    end = {"stop": StopReason.ANSWERED, **end}
    started = replace(first.started, clips=first.started.clips[::-1])
    return replace(first, swapped=Run(started, first.turns, Finished(verdict=second, **end)))


def label_tokens(text: str = ANSWER) -> tuple[LabelToken, ...]:
    """Of each label in an answer, with the probabilities of `SHARES`."""
    labels = re.finditer(r"(TA|MQ|VQ|OA)=\d", text)
    return tuple(LabelToken(found.end() - 1, SHARES[found[1]]) for found in labels)


def telling_probabilities(reasoning: str = "") -> Trace:
    """A run whose last reply is `ANSWER`, with each label's shares and reasoning beside it."""
    *before, last = three_turns().turns
    told = replace(completion(ANSWER), reasoning=reasoning, label_tokens=label_tokens())
    reply = replace(last.reply, text=ANSWER, think="Both are sharp.")
    return replace(three_turns(), turns=(*before, replace(last, completion=told, reply=reply)))
