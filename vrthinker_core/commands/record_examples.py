"""The examples of the page, recorded by one command.

    python -m vrthinker_core examples [--judge nano]

The chosen judge judges all examples but two. The built-in judge never asks for frames that do not
exist, or for more frames than one call may bring. For these two examples, a script replies in the
style of the 7B, and the trace names its judge "scripted". Names say what an example teaches, not
which video is better; the first word is the row on the page.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from vrthinker_core.backends import Backend, ScriptedBackend
from vrthinker_core.drawn.video_files import write_video
from vrthinker_core.drawn.world import draw_pair
from vrthinker_core.judge import judge
from vrthinker_core.storage import os_errors
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Finished

SIZE = 336  # pixels per side of a clip: crisp in the page's players, small in the repository


@dataclass(frozen=True, slots=True)
class ExampleRecipe:
    """One comparison of two drawn clips."""

    name: str  # folder: row ("think" or "protocol"), place in the row, title
    seed: int  # of the drawn pair
    settings: Settings = Settings()
    script: tuple[str, ...] = ()  # replies, instead of the judge's


def _reply(snapshot: str, think: str, *actions: str) -> str:
    return "\n".join((f"<snapshot>{snapshot}</snapshot>", f"<think>{think}</think>", *actions))


def _call(argument: str, *indices: int) -> str:
    return f'<tool_call>{{"name": "select_frames", "arguments": {{"{argument}": {list(indices)}}}}}</tool_call>'


# Drawn pair 3_000_012_600: a green ball that is further back from frame 20 to 28 of the list, and a
# white ball in too much light.
RECOMMENDED = (
    _reply(
        "Video 1 (frames 1, 13, 25 and 37): a green ball goes to the left over wood, and a small yellow ring stands behind it. "
        "At frame 25 the ball is smaller and higher in the picture than at frames 13 and 37. "
        "Video 2 (frames 49, 61, 73 and 85): a white ball goes to the left over wood, and frame 73 is almost white.",
        "The prompt asks for a green ball that travels to the left on wood. "
        "Text alignment: the ball of Video 1 is green as asked and that of Video 2 is white, so Video 1 is better. "
        "Visual quality: Video 2 is washed out by far too much light at frame 73, so Video 1 is better. "
        "Motion quality: at frame 25 the ball of Video 1 is further back than at frames 13 and 37, but four frames of each "
        "video are too few to tell a jump from a detour, so they tie for now. "
        "Overall: colour and picture speak for one of the two, so Video 1 is better. "
        "I need later frames to settle how the balls move.",
        "<recommend answer>TA=1, VQ=1, MQ=0, OA=1, CF=3</recommend answer>",
        _call("target_frames", 100, 112),
    ),
    _reply(
        "No new frames came.",
        "Frames 100 and 112 do not exist: both videos together have 96. What I have seen is what I had seen before. "
        "Text alignment: only the first ball is green, so Video 1 is better. "
        "Visual quality: frame 73 is overexposed, so Video 1 is better. "
        "Motion quality: nothing new is known, so they tie for now. "
        "Overall: nothing has changed, so Video 1 is better. "
        "I look at the time around frame 25 and at the same moments of the other video instead.",
        "<recommend answer>TA=1, VQ=1, MQ=0, OA=1, CF=3</recommend answer>",
        _call("target_frames", 17, 20, 26, 29, 65, 68, 74, 77),
    ),
    _reply(
        "Video 1: at frame 17 the ball is as large as at frame 13; at frame 20 it is smaller and higher in the picture, and so it "
        "is at frame 26; at frame 29 it is large again. Video 2: at frames 65, 68, 74 and 77 the ball goes evenly to the left, and "
        "the last three of these frames are almost white.",
        "Between frames 17 and 20 the ball of Video 1 jumps back, and between frames 26 and 29 it jumps to the front again. "
        "Text alignment: Video 1 shows a green ball and Video 2 a white one, so Video 1 is better. "
        "Visual quality: frames 68, 74 and 77 are as overexposed as frame 73 was and frame 20 is clean, so Video 1 is better. "
        "Motion quality: the ball jumps twice between frames 17 and 29 of one video and moves evenly from frame 65 to frame 77 of "
        "the other, so Video 2 is better. "
        "Overall: the right colour and a clean picture weigh more than the jumps, so Video 1 is better.",
        "<final answer>TA=1, VQ=1, MQ=2, OA=1</final answer>",
    ),
)

# Drawn pair 3_000_000_449: a cylinder that moves away and flickers from frame 54 to 74, and a
# cylinder that comes closer.
TRUNCATED = (
    _reply(
        "Video 1: a blue cylinder on grass gets smaller from frame 16 to frame 112, so it moves away from the camera; a small "
        "orange cone stands behind it. "
        "Video 2: a blue cylinder on grass gets larger from frame 16 to frame 112, so it comes closer.",
        "The prompt asks for a blue cylinder that glides towards the camera over grass. "
        "Text alignment: the cylinder of Video 1 moves away and that of Video 2 comes closer, so Video 2 is better. "
        "Visual quality: frames 16, 48, 80 and 112 are clean in both, so they tie for now. "
        "Motion quality: both move evenly from frame 16 to frame 112, so they tie for now. "
        "Four frames leave long gaps, so I ask for frames 54, 58, 64, 70, 76 and 92 before I answer.",
        _call("frame_indices", 54, 58, 64, 70, 76, 92),
    ),
    _reply(
        "Video 1: frames 54, 58 and 70 are so bright that the far end of the grass is white, and frame 64 is very dark; the "
        "cylinder goes on moving away. Video 2: frames 54, 58, 64 and 70 are equally bright, and the cylinder goes on coming "
        "closer.",
        "Four of the six frames have come, which is as many as one call brings here. They are enough. "
        "Text alignment: at frames 54 to 70 the first cylinder still moves away and the second one still comes closer, so Video 2 "
        "is better. "
        "Visual quality: Video 1 flickers from glaring at frame 58 to dark at frame 64 and Video 2 does not, so Video 2 is better. "
        "Motion quality: the cylinders move evenly from frame 54 to frame 70, so they tie. "
        "Overall: Video 2 shows what was asked for and has the cleaner picture, so Video 2 is better.",
        "<answer>TA=2, VQ=2, MQ=0, OA=2</answer>",
    ),
)

EXAMPLES = (
    ExampleRecipe("think-1-what-four-frames-do-not-show", 3_000_002_493),
    ExampleRecipe("think-2-one-colour-in-the-prompt", 3_000_000_262, Settings(protocol="concat")),
    ExampleRecipe("think-3-equal-at-first-sight", 3_000_002_266),
    ExampleRecipe("think-4-picture-against-motion", 3_000_000_025),
    ExampleRecipe("protocol-1-told-to-answer-at-once", 3_000_000_166, Settings(max_turns=1)),
    ExampleRecipe(
        "protocol-2-more-frames-than-allowed",
        3_000_000_449,
        Settings(protocol="paired", frames_per_call=4),
        TRUNCATED,
    ),
    ExampleRecipe(
        "protocol-3-frames-that-do-not-exist",
        3_000_012_600,
        Settings(protocol="concat"),
        RECOMMENDED,
    ),
)


def record_examples(
    judge_backend: Backend, out: Path, progress: Callable[[int, int], None]
) -> Iterator[str]:
    """Write the examples into `out`, each two clips and a trace; yield a line for each.

    Raises `BadInput` if `out` cannot be written.
    """
    for done, example in enumerate(EXAMPLES):
        progress(done, len(EXAMPLES))
        drawn, folder = draw_pair(example.seed), out / example.name
        pair = VideoPair(drawn.prompt, folder / "first.mp4", folder / "second.mp4")
        with os_errors(f"Cannot write the examples into {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            for clip, path in ((drawn.first, pair.first), (drawn.second, pair.second)):
                write_video(clip, Path(path), SIZE)
        note = "A script replies here, not a model: it shows what the protocol allows."
        scripted = ScriptedBackend(example.script, notes=(note,)) if example.script else None
        backend = scripted or judge_backend
        *_, end = judge(pair, backend, example.settings, trace=folder / "trace.json")
        assert isinstance(end, Finished)
        labels = end.verdict.labels if end.verdict is not None else {}
        line = f"{example.name}: {end.stop.value}, judged {labels}, true {drawn.verdict.labels}"
        yield f"{line} {end.error}".rstrip()
    progress(len(EXAMPLES), len(EXAMPLES))
