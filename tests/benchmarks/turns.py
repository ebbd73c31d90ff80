"""python -m tests.benchmarks.turns [--quick] [--gpu]

A comparison of six turns: this package's loop and the published one, over the same model, clips and replies.

The two take their turns alternately: whatever else the machine does slows down both. The last line is JSON: the ratios, and the seconds
of each phase and turn.

The model is a random Qwen2.5-VL of 226 million weights, 12.6 million with `--quick`, and the shape of the 7B with `--gpu`. Images
shrink with it, to 196 and 140 pixels: most work of the 7B lies in its weights, while a small model over as many tokens would spend
most of it in attention.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from tests.benchmarks.tools import benchmark_parser
from tests.benchmarks.tools.our_loop import OurLoop
from tests.benchmarks.tools.phase_timer import PHASES, PhaseTimer
from tests.benchmarks.tools.published_loop import PublishedLoop
from tests.benchmarks.tools.random_models import random_checkpoint
from tests.support.small_clips import write_clip
from vrthinker_core.backends.chat_template import SafeTokenizer
from vrthinker_core.backends.checkpoint import Checkpoint

TURNS, WORDS = 6, 96
Seconds = dict[str, float]
"""Of each phase of a turn."""


def main() -> None:
    """Run the benchmark."""
    parser = benchmark_parser(__doc__, "a small model, 12 pairs a call only", "the shape of the 7B")
    options = parser.parse_args()
    side = 448 if options.gpu else 140 if options.quick else 196
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoint = random_checkpoint(folder, quick=options.quick, side=side, gpu=options.gpu)
        clips = ((folder / "a.mp4", 0), (folder / "b.mp4", 80))
        first, second = (write_clip(path, 120, 640, 360, hue) for path, hue in clips)
        all_pairs = [12] if options.quick else [4, 12]
        figures = {
            str(pairs): measure(checkpoint, (first, second), pairs, WORDS) for pairs in all_pairs
        }
    weights = sum(weight.numel() for weight in checkpoint.model.parameters())
    result = {"weights": weights, "side": side, "words": WORDS, "pairs_per_call": figures}
    print(json.dumps(result))


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    parts = []
    for pairs, figures in sorted(result["pairs_per_call"].items(), key=lambda item: -int(item[0])):
        ratios = figures["times_as_fast"]
        parts.append(
            f"{pairs} pairs a call: six turns {ratios['total']:.2f} times as fast, "
            f"vision and prefill {ratios['vision+prefill']:.2f} times, "
            f"video, vision and prefill of the last turn {ratios['last turn, video+vision+prefill']:.2f} times"
        )
    return "; ".join(parts)


def measure(
    checkpoint: Checkpoint, videos: tuple[Path, Path], pairs: int, words: int
) -> dict[str, object]:
    """Both loops, turn by turn, with `pairs` frame pairs a call and `words` tokens a reply; returns seconds and ratios."""
    timer = PhaseTimer()
    hooks = timer.attach(checkpoint.model)
    stock_tokenizer = AutoTokenizer.from_pretrained(checkpoint.folder)
    model, processor = checkpoint.model, checkpoint.processor
    published = PublishedLoop(model, stock_tokenizer, processor, videos, timer)
    ours = OurLoop(checkpoint, videos, timer, pairs)
    fetched = timer.lap()["video"]  # the videos are opened, and the first frames are there
    tokenizer = SafeTokenizer(checkpoint.tokenizer)
    seconds: dict[str, list[Seconds]] = {"ours": [], "published": []}
    shown: tuple[int, ...] = ()
    for turn in range(1, TURNS + 1):
        slots = tuple(1 + 2 * (pairs * (turn - 1) + n) for n in range(pairs))
        requested = None if turn == TURNS else slots
        reply = make_reply(tokenizer, requested, words)
        ours.turn(reply, last=requested is None)
        lap = timer.lap()
        # Ours fetches what a reply asks for at once, the published loop in the turn that shows it: it counts for that turn
        seconds["ours"].append({**lap, "video": fetched})
        fetched = lap["video"]
        text = published.turn(shown, reply)
        assert text == tokenizer.decode(reply), "both write the same text"
        seconds["published"].append(timer.lap())
        shown = requested or ()
    ours.close()
    for hook in hooks:
        hook.remove()
    return _ratios(seconds)


def make_reply(tokenizer: SafeTokenizer, requested: Sequence[int] | None, words: int) -> list[int]:
    """A reply of exactly `words` tokens: a call for the frames `requested`, or the answer."""
    action = "<Answer>TA=1, MQ=1, VQ=1, OA=1</Answer>"
    if requested is not None:
        call = {"name": "select_frames", "arguments": {"frame_indices": list(requested)}}
        action = f"<tool_call>{json.dumps(call)}</tool_call>"
    start, end = tokenizer.encode("<Think>"), tokenizer.encode("</Think>" + action)
    filler = tokenizer.encode(" blue")[:1]
    assert len(start) + len(end) <= words, f"{words} tokens are too few for this call"
    return start + filler * (words - len(start) - len(end)) + end


def _ratios(seconds: dict[str, list[Seconds]]) -> dict[str, object]:
    def total(way: str, phases: Sequence[str], turns: slice) -> float:
        return sum(turn[phase] for turn in seconds[way][turns] for phase in phases)

    def ratio(*phases: str, turns: slice = slice(None)) -> float:
        return round(total("published", phases, turns) / total("ours", phases, turns), 2)

    to_read = ("video", "vision", "prefill")
    ratios = {
        "total": ratio(*PHASES),
        "vision+prefill": ratio("vision", "prefill"),
        "last turn, video+vision+prefill": ratio(*to_read, turns=slice(-1, None)),
        **{phase: ratio(phase) for phase in PHASES},
    }
    rounded = {
        way: [{phase: round(turn[phase], 3) for phase in PHASES} for turn in turns]
        for way, turns in seconds.items()
    }
    return {"times_as_fast": ratios, "seconds": rounded}


if __name__ == "__main__":
    main()
