"""python -m tests.benchmarks.turns [--quick] [--gpu] [--threads N] [--side PIXELS] [--pairs 4 12]

A comparison of six turns: this package's loop and the published one, over the same model, clips and replies.

The two take their turns alternately: whatever else the machine does slows down both. Prints the seconds of each phase and turn, the
ratios, and the most memory that each took beside the weights. The last line is JSON.

The model is a random Qwen2.5-VL of 226 million weights, 12.6 million with `--quick`, and the shape of the 7B with `--gpu`. Images
shrink with it, to 196 and 140 pixels: most work of the 7B lies in its weights, while a small model over as many tokens would spend
most of it in attention. `--side` sets another size.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from tests.benchmarks.tools.memory_use import PeakMemory
from tests.benchmarks.tools.our_loop import OurLoop
from tests.benchmarks.tools.phase_timer import PHASES, PhaseTimer
from tests.benchmarks.tools.published_loop import PublishedLoop
from tests.benchmarks.tools.random_models import random_checkpoint
from tests.support.small_clips import write_clip
from vrthinker_core.backends.local.checkpoint.loader import Checkpoint
from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer

TURNS = 6
Seconds = dict[str, float]
"""Of each phase of a turn."""


def main() -> None:
    """Run the benchmark."""
    options = _options()
    if options.threads:
        torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoint = random_checkpoint(
            folder, quick=options.quick, side=options.side, gpu=options.gpu
        )
        videos = (
            write_clip(folder / "a.mp4", 120, 640, 360),
            write_clip(folder / "b.mp4", 120, 640, 360, hue=80),
        )
        figures = {
            str(pairs): measure(checkpoint, videos, pairs, options.words) for pairs in options.pairs
        }
    weights = sum(weight.numel() for weight in checkpoint.model.parameters())
    print(
        json.dumps(
            {
                "weights": weights,
                "side": options.side,
                "words": options.words,
                "pairs_per_call": figures,
            }
        )
    )


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
    published = PublishedLoop(
        checkpoint.model, stock_tokenizer, checkpoint.processor, videos, timer
    )
    ours = OurLoop(checkpoint, videos, timer, pairs)
    fetched = timer.lap()["video"]  # the videos are opened, and the first frames are there
    tokenizer = SafeTokenizer(checkpoint.tokenizer)
    seconds: dict[str, list[Seconds]] = {"ours": [], "published": []}
    memory = {way: PeakMemory() for way in seconds}
    shown: tuple[int, ...] = ()
    print(f"-- {pairs} pairs a call", flush=True)
    for turn in range(1, TURNS + 1):
        requested = (
            None if turn == TURNS else tuple(1 + 2 * (pairs * (turn - 1) + n) for n in range(pairs))
        )
        reply = make_reply(tokenizer, requested, words)
        with memory["ours"].measure():
            ours.turn(reply, last=requested is None)
        lap = timer.lap()
        # Ours fetches what a reply asks for at once, the published loop in the turn that shows it: it counts for that turn
        seconds["ours"].append({**lap, "video": fetched})
        fetched = lap["video"]
        with memory["published"].measure():
            text = published.turn(shown, reply)
        assert text == tokenizer.decode(reply), "both write the same text"
        seconds["published"].append(timer.lap())
        _print_turn(turn, seconds)
        shown = requested or ()
    ours.close()
    for hook in hooks:
        hook.remove()
    peaks = {way: each.peak_mb for way, each in memory.items()}
    print(
        f"most memory beside the weights: ours {peaks['ours']} MB, published {peaks['published']} MB"
    )
    return {**_ratios(seconds), "peak_mb": peaks}


def make_reply(tokenizer: SafeTokenizer, requested: Sequence[int] | None, words: int) -> list[int]:
    """A reply of exactly `words` tokens: a call for the frames `requested`, or the answer."""
    action = (
        "<Answer>TA=1, MQ=1, VQ=1, OA=1</Answer>"
        if requested is None
        else '<tool_call>{"name": "select_frames", "arguments": {"frame_indices": '
        + str(list(requested))
        + "}}</tool_call>"
    )
    start, end = tokenizer.encode("<Think>"), tokenizer.encode("</Think>" + action)
    filler = tokenizer.encode(" blue")[:1]
    assert len(start) + len(end) <= words, (
        f"{words} tokens are too few for a call of {len(requested or ())} pairs"
    )
    return start + filler * (words - len(start) - len(end)) + end


def _print_turn(turn: int, seconds: dict[str, list[Seconds]]) -> None:
    for way, turns in seconds.items():
        print(
            f"turn {turn} {way:>9}: "
            + " ".join(f"{phase} {turns[-1][phase]:.2f}" for phase in PHASES),
            flush=True,
        )


def _ratios(seconds: dict[str, list[Seconds]]) -> dict[str, object]:
    def total(way: str, phases: Sequence[str], turns: slice) -> float:
        return sum(turn[phase] for turn in seconds[way][turns] for phase in phases)

    def ratio(*phases: str, turns: slice = slice(None)) -> float:
        return round(total("published", phases, turns) / total("ours", phases, turns), 2)

    ratios = {
        "total": ratio(*PHASES),
        "vision+prefill": ratio("vision", "prefill"),
        "last turn, video+vision+prefill": ratio(
            "video", "vision", "prefill", turns=slice(-1, None)
        ),
        **{phase: ratio(phase) for phase in PHASES},
    }
    for name, value in ratios.items():
        print(f"{name}: {value} times as fast")
    rounded = {
        way: [{phase: round(turn[phase], 3) for phase in PHASES} for turn in turns]
        for way, turns in seconds.items()
    }
    return {"times_as_fast": ratios, "seconds": rounded}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="a small model, and 12 pairs a call only"
    )
    parser.add_argument(
        "--gpu", action="store_true", help="a random model of the 7B's shape on the GPU"
    )
    parser.add_argument(
        "--threads", type=int, default=0, help="torch threads; 0 leaves torch its choice"
    )
    parser.add_argument(
        "--side",
        type=int,
        default=None,
        help="pixels of an image's side for the model; 196, quick 140, GPU 448",
    )
    parser.add_argument(
        "--pairs",
        type=int,
        nargs="+",
        default=None,
        help="pairs per call; 4 and 12, with --quick 12",
    )
    parser.add_argument("--words", type=int, default=96, help="tokens of each reply")
    options = parser.parse_args()
    options.side = options.side or (448 if options.gpu else 140 if options.quick else 196)
    options.pairs = options.pairs or ([12] if options.quick else [4, 12])
    return options


if __name__ == "__main__":
    main()
