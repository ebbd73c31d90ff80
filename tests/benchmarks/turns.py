"""python -m tests.benchmarks.turns [--quick] [--gpu] [--threads N] [--side PIXELS] [--pairs 4 12]

A whole run of six turns, this package's way and the published way, over the same random Qwen2.5-VL, the same two clips and the
same words, turn about: what weighs on the machine weighs on both. Prints the seconds of each phase and turn, the ratios, and the
most memory that each took beside the weights. The last line is JSON.

The model has 226 million weights, 12.6 million with `--quick`, and the shape of the 7B with `--gpu`. Pictures shrink with it, to
196 and 140 pixels: most work of the 7B lies in its weights, while a small model over as many tokens would spend most of it in
attention. `--side` sets another size.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

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


def main() -> None:
    """Run the benchmark."""
    options = _options()
    if options.threads:
        torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoint = random_checkpoint(folder, quick=options.quick, side=options.side, gpu=options.gpu)
        videos = (write_clip(folder / "a.mp4", 120, 640, 360), write_clip(folder / "b.mp4", 120, 640, 360, hue=80))
        found = {str(pairs): measure(checkpoint, videos, pairs, options.words) for pairs in options.pairs}
    weights = sum(weight.numel() for weight in checkpoint.model.parameters())
    print(json.dumps({"weights": weights, "side": options.side, "words": options.words, "pairs_per_call": found}))


def measure(checkpoint: Checkpoint, videos: tuple[Path, Path], pairs: int, words: int) -> dict[str, object]:
    """Both ways, turn about; gives seconds and ratios."""
    watch = PhaseTimer()
    hooks = watch.attach(checkpoint.model)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint.folder)
    published = PublishedLoop(checkpoint.model, tokenizer, checkpoint.processor, videos, watch)
    ours = OurLoop(checkpoint, videos, watch, pairs)
    spelling, wanted = SafeTokenizer(checkpoint.tokenizer), ()
    told: dict[str, list[Seconds]] = {"ours": [], "published": []}
    taken = {who: PeakMemory() for who in told}
    print(f"-- {pairs} pairs a call", flush=True)
    for turn in range(1, TURNS + 1):
        asks = None if turn == TURNS else tuple(1 + 2 * (pairs * (turn - 1) + n) for n in range(pairs))
        reply = given(spelling, asks, words)
        with taken["ours"].measure():
            ours.turn(reply, last=asks is None)
        told["ours"].append(watch.lap())
        with taken["published"].measure():
            text = published.turn(wanted, reply)
        assert text == spelling.decode(reply), "both write the same words"
        told["published"].append(watch.lap())
        for who, turns in told.items():
            print(f"turn {turn} {who:>9}: " + " ".join(f"{phase} {turns[-1][phase]:.2f}" for phase in PHASES), flush=True)
        wanted = asks or ()
    ours.close()
    for hook in hooks:
        hook.remove()
    megabytes = {who: footprint.peak_mb for who, footprint in taken.items()}
    print(f"most memory beside the weights: ours {megabytes['ours']} MB, published {megabytes['published']} MB")
    return {**_ratios(told), "peak_mb": megabytes}


def given(spelling: SafeTokenizer, asks: Sequence[int] | None, words: int) -> list[int]:
    """A reply of exactly `words` tokens: a call for frames, or the answer."""
    act = (
        "<Answer>TA=1, MQ=1, VQ=1, OA=1</Answer>"
        if asks is None
        else '<tool_call>{"name": "select_frames", "arguments": {"frame_indices": ' + str(list(asks)) + "}}</tool_call>"
    )
    start, end = spelling.encode("<Think>"), spelling.encode("</Think>" + act)
    filler = spelling.encode(" blue")[:1]
    assert len(start) + len(end) <= words, f"{words} tokens are too few for a call of {len(asks or ())} pairs"
    return start + filler * (words - len(start) - len(end)) + end


def _ratios(told: dict[str, list[Seconds]]) -> dict[str, object]:
    def spent(who: str, phases: Sequence[str], turns: slice = slice(None)) -> float:
        return sum(seconds[phase] for seconds in told[who][turns] for phase in phases)

    def ratio(*phases: str, turns: slice = slice(None)) -> float:
        return round(spent("published", phases, turns) / spent("ours", phases, turns), 2)

    found = {
        "total": ratio(*PHASES),
        "vision+prefill": ratio("vision", "prefill"),
        "last turn, video+vision+prefill": ratio("video", "vision", "prefill", turns=slice(-1, None)),
        **{phase: ratio(phase) for phase in PHASES},
    }
    for name, value in found.items():
        print(f"{name}: {value} times as fast")
    seconds = {who: [{phase: round(turn[phase], 3) for phase in PHASES} for turn in turns] for who, turns in told.items()}
    return {"times_as_fast": found, "seconds": seconds}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--threads", type=int, default=0, help="torch threads; 0 leaves torch its choice")
    parser.add_argument("--side", type=int, default=None, help="pictures as the model sees them; 196, quick 140, GPU 448")
    parser.add_argument("--pairs", type=int, nargs="+", default=None, help="pairs per call; 4 and 12, with --quick 12")
    parser.add_argument("--words", type=int, default=96, help="tokens of each reply")
    options = parser.parse_args()
    options.side = options.side or (448 if options.gpu else 140 if options.quick else 196)
    options.pairs = options.pairs or ([12] if options.quick else [4, 12])
    return options


if __name__ == "__main__":
    main()
