"""The examples of the page: stored traces with their clips, all recorded by one command and labelled with the judge that made them.

    python -m vrthinker_core examples [--judge nano]

All but two are judged by the judge that is given. What the built-in judge never does (ask for frames that do not exist, or for more
than one call may bring) comes from a script over drawn clips, written as the 7B writes, and the trace says so: its judge is named
"scripted". Names say what is learnt, not which video is better; the first word is their row.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from vrthinker_core.backends import Backend, ScriptedBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.judge import judge
from vrthinker_core.training.drawn_world.scenes import DrawnPair, draw_pair
from vrthinker_core.training.drawn_world.video_files import write_video
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Finished

SIZE = 336  # Pixels per side of the clips: crisp in the page's players, small in the repository

SCRIPTED_NOTE = "A script replies here, not a model: it shows what the protocol allows."


@dataclass(frozen=True, slots=True)
class ExampleRecipe:
    """One comparison of two drawn clips."""

    name: str  # Folder of the example: its row ("think" or "protocol"), its place in the row, its title
    seed: int  # Which drawn pair
    settings: Settings = Settings()
    script: tuple[str, ...] = ()  # Replies in place of those of the judge that is given


def _reply(snapshot: str, think: str, *actions: str) -> str:
    return "\n".join((f"<snapshot>{snapshot}</snapshot>", f"<think>{think}</think>", *actions))


def _call(argument: str, *indices: int) -> str:
    return f'<tool_call>{{"name": "select_frames", "arguments": {{"{argument}": {list(indices)}}}}}</tool_call>'


# Drawn pair 3_000_000_022: a red cube that jumps aside from frame 32 to 40 of the list, and an orange one in too much light.
RECOMMENDED = (
    _reply(
        "Video 1 (frames 1, 13, 25 and 37): a red cube on grey and white tiles gets larger from frame to frame, so it comes "
        "closer. "
        "Video 2 (frames 49, 61, 73 and 85): an orange cube comes closer over tiles that are almost white, and a small green ring "
        "stands behind it.",
        "The prompt asks for a red cube that drifts closer over tiles in the sun. "
        "Text alignment: the cube of Video 1 is red as asked and that of Video 2 is orange, so Video 1 is better. "
        "Visual quality: Video 2 is washed out by far too much light at frames 49, 61, 73 and 85, so Video 1 is better. "
        "Motion quality: at frame 37 the cube of Video 1 stands further to the right than at frame 25, but four frames of each "
        "video are too few to tell a jump from a drift, so they tie for now. "
        "Overall: colour and picture speak for one of the two, so Video 1 is better. "
        "I need later frames to settle how the cubes move.",
        "<recommend answer>TA=1, VQ=1, MQ=0, OA=1, CF=3</recommend answer>",
        _call("target_frames", 100, 112),
    ),
    _reply(
        "No new frames came.",
        "Frames 100 and 112 do not exist: both videos together have 96. What I have seen is what I had seen before. "
        "Text alignment: only the first cube is red, so Video 1 is better. "
        "Visual quality: frames 49 to 85 are overexposed, so Video 1 is better. "
        "Motion quality: nothing new is known, so they tie for now. "
        "Overall: nothing has changed, so Video 1 is better. "
        "I look at the time around frame 37 and at the same moments of the other video instead.",
        "<recommend answer>TA=1, VQ=1, MQ=0, OA=1, CF=3</recommend answer>",
        _call("target_frames", 30, 33, 36, 39, 78, 81, 84, 87),
    ),
    _reply(
        "Video 1: at frame 30 the cube is near the middle; at frame 33 it stands about a third of the picture further to the "
        "right, and it is still there at frames 36 and 39. Video 2: at frames 78, 81, 84 and 87 the cube comes closer by equal "
        "steps.",
        "Between frames 30 and 33 the cube of Video 1 jumps aside, and nothing in the scene explains it. "
        "Text alignment: Video 1 shows a red cube and Video 2 an orange one, so Video 1 is better. "
        "Visual quality: frame 81 is as overexposed as frame 61 was and frame 33 is clean, so Video 1 is better. "
        "Motion quality: the cube jumps between frames 30 and 33 of one video and moves evenly from frame 78 to frame 87 of the "
        "other, so Video 2 is better. "
        "Overall: the right colour and a clean picture weigh more than one jump, so Video 1 is better.",
        "<final answer>TA=1, VQ=1, MQ=2, OA=1</final answer>",
    ),
)

# Drawn pair 3_000_000_077: a cone that moves away and flickers from frame 52 to 78, and one that moves left.
TRUNCATED = (
    _reply(
        "Video 1: a blue cone on sand gets smaller from frame 16 to frame 112, so it moves away from the camera. "
        "Video 2: a blue cone on sand keeps its size and moves to the left from frame 16 to frame 112.",
        "The prompt asks for a close shot of sand with a blue cone that travels left. "
        "Text alignment: the cone of Video 1 moves away and that of Video 2 moves left, so Video 2 is better. "
        "Visual quality: frames 16, 48, 80 and 112 are clean in both, so they tie for now. "
        "Motion quality: both move evenly from frame 16 to frame 112, so they tie for now. "
        "Four frames leave long gaps, so I ask for frames 52, 58, 64, 70, 76 and 92 before I answer.",
        _call("frame_indices", 52, 58, 64, 70, 76, 92),
    ),
    _reply(
        "Video 1: frame 52 is very dark, and frames 58, 64 and 70 are so bright that the sand is almost white; the cone goes on "
        "moving away. Video 2: frames 52, 58, 64 and 70 look alike, and the cone goes on to the left.",
        "Four of the six frames have come, which is as many as one call brings here. They are enough. "
        "Text alignment: at frames 52 to 70 the first cone still moves away and the second one still moves left, so Video 2 is "
        "better. "
        "Visual quality: Video 1 flickers from dark at frame 52 to glaring at frame 58 and Video 2 does not, so Video 2 is better. "
        "Motion quality: the cones move evenly from frame 52 to frame 70, so they tie. "
        "Overall: Video 2 shows what was asked for and has the cleaner picture, so Video 2 is better.",
        "<answer>TA=2, VQ=2, MQ=0, OA=2</answer>",
    ),
)

EXAMPLES = (
    ExampleRecipe("think-1-what-four-frames-do-not-show", 3_000_000_044),
    ExampleRecipe("think-2-one-colour-in-the-prompt", 3_000_000_059, Settings(protocol="concat")),
    ExampleRecipe("think-3-equal-at-first-sight", 3_000_000_004),
    ExampleRecipe("think-4-picture-against-motion", 3_000_000_046),
    ExampleRecipe("protocol-1-told-to-answer-at-once", 3_000_000_023, Settings(max_turns=1)),
    ExampleRecipe("protocol-2-more-frames-than-allowed", 3_000_000_077, Settings(protocol="paired", frames_per_call=4), TRUNCATED),
    ExampleRecipe("protocol-3-frames-that-do-not-exist", 3_000_000_022, Settings(protocol="concat"), RECOMMENDED),
)


def record_examples(judge_backend: Backend, out: Path, progress: Callable[[int, int], None]) -> Iterator[str]:
    """Write clips and traces of the examples into `out`; gives one line for each. Raises BadInput when `out` cannot be written."""
    for done, example in enumerate(EXAMPLES):
        progress(done, len(EXAMPLES))
        yield _record(judge_backend, out / example.name, example)
    progress(len(EXAMPLES), len(EXAMPLES))


def _record(judge_backend: Backend, folder: Path, example: ExampleRecipe) -> str:
    drawn = draw_pair(example.seed)
    pair = _write_videos(drawn, folder)
    backend = ScriptedBackend(example.script, notes=(SCRIPTED_NOTE,)) if example.script else judge_backend
    *_, end = judge(pair, backend, example.settings, trace=folder / "trace.json")
    assert isinstance(end, Finished)
    labels = end.verdict.labels if end.verdict is not None else {}
    return f"{example.name}: {end.stop.value}, judged {labels}, true {drawn.verdict.labels} {end.error}".rstrip()


def _write_videos(drawn: DrawnPair, folder: Path) -> VideoPair:
    first, second = folder / "first.mp4", folder / "second.mp4"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_video(drawn.first, first, SIZE)
        write_video(drawn.second, second, SIZE)
    except OSError as error:
        raise BadInput(f"Cannot write the examples into {folder}: {error.strerror or error}.") from None
    return VideoPair(drawn.prompt, first, second)
