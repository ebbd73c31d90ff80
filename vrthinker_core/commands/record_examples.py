"""The examples of the page, recorded by one command.

    python -m vrthinker_core examples [--judge nano]

The chosen judge judges all examples but three. The built-in judge never asks for frames that do not
exist, or for more frames than one call may bring, and cannot judge a real film. For these three a
script replies in the style of the 7B, and the trace is marked as scripted. Names say what an
example teaches, not which video is better; the first word is the row on the page.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copyfile

from vrthinker_core.__about__ import asset
from vrthinker_core.backends import Backend, ScriptedBackend
from vrthinker_core.drawn.video_files import write_video
from vrthinker_core.drawn.world import draw_pair
from vrthinker_core.errors import os_errors
from vrthinker_core.protocols import Concat, Paired
from vrthinker_core.runner import compare
from vrthinker_core.traces import to_json
from vrthinker_core.types import Settings, VideoPair

SIZE = 336  # pixels per side of a clip: crisp in the page's players, small in the repository


@dataclass(frozen=True, slots=True)
class ExampleRecipe:
    """One comparison of two clips."""

    name: str  # folder: row ("think", "real" or "protocol"), place in the row, title
    seed: int | None  # of the drawn pair; None if the clips lie in `assets/examples`
    settings: Settings = Settings()
    script: tuple[str, ...] = ()  # replies, instead of the judge's
    prompt: str = ""  # of clips that are not drawn


def _reply(snapshot: str, think: str, *actions: str) -> str:
    return "\n".join((f"<snapshot>{snapshot}</snapshot>", f"<think>{think}</think>", *actions))


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
        Concat().call((100, 112)),
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
        Concat().call((17, 20, 26, 29, 65, 68, 74, 77)),
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
        Paired().call((54, 58, 64, 70, 76, 92)),
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

# A cut of a film, and a copy of it that stands still from frame 18 to 42 and is blocky from 84 to 108
FILM = (
    _reply(
        "Both videos: at frame 16 a big grey rabbit leans out of a hole under a mossy bank, one hand on a boulder. At frame 48 it "
        "stands upright with both arms raised. At frame 80 it leans back with its mouth wide open. At frame 112 it holds one paw "
        "behind its head and lets the other arm hang. Grass, boulders and sky look alike.",
        "The prompt asks for a rabbit that climbs out, stretches and yawns, and both videos show all of it. "
        "Text alignment: both show the same actions in the same order, so they tie. "
        "Visual quality: fur and grass are sharp in all eight pictures, so they tie for now. "
        "Motion quality: the poses are the same at all four moments, so they tie for now. "
        "More than a second lies between two of these frames, and much can happen in it. The rabbit moves most between 16 and 48; "
        "between 80 and 112 it changes its pose once more. I look there.",
        Paired().call((24, 32, 40, 90, 106)),
    ),
    _reply(
        "Video 1: frames 24, 32 and 40 show exactly the same pose, the rabbit still leaning on the boulder. Frames 90 and 106 are "
        "made of coarse squares; the face and the grass can hardly be made out. "
        "Video 2: the rabbit bends down at frame 24, rises at frame 32 and stands with its arms apart at frame 40. Frames "
        "90 and 106 are sharp, and at frame 106 one paw goes to its head.",
        "Text alignment: Video 1 still reaches every action by frame 112, so they tie. "
        "Visual quality: frames 90 and 106 of Video 1 are coarse squares and those of Video 2 are sharp, so Video 2 is better. "
        "Motion quality: Video 1 does not move from frame 24 to frame 40 and yet stands upright at frame 48, so Video 2 is better so "
        "far. I want to see whether it jumps there, and where the squares begin and end.",
        Paired().call((42, 44, 82, 110)),
    ),
    _reply(
        "Video 1: at frame 42 the rabbit still leans on the boulder, and at frame 44 it stands upright with its arms apart. Frames "
        "82 and 110 are sharp. Video 2: frames 42 and 44 show nearly the same pose, the arms a little higher at frame 44; frames "
        "82 and 110 are sharp.",
        "Between frames 42 and 44 the rabbit of Video 1 goes from leaning to standing at once; nothing alive moves like that. In "
        "Video 2 it gets there step by step. The squares of Video 1 begin after frame 82 and are gone at frame 110. "
        "Text alignment: both show the rabbit climb out, stretch and yawn, so they tie. "
        "Visual quality: Video 1 is made of squares at frames 90 and 106, and Video 2 is sharp throughout, so Video 2 is better. "
        "Motion quality: Video 1 stands still up to frame 42 and jumps before frame 44, so Video 2 is better. "
        "Overall: nothing speaks for Video 1 and two things speak for the other, so Video 2 is better.",
        "<answer>TA=0, VQ=2, MQ=2, OA=2</answer>",
    ),
)

EXAMPLES = (
    ExampleRecipe("think-1-what-four-frames-do-not-show", 3_000_002_493),
    ExampleRecipe("think-2-one-colour-in-the-prompt", 3_000_000_262, Settings(protocol="concat")),
    ExampleRecipe("think-3-equal-at-first-sight", 3_000_002_266),
    ExampleRecipe("think-4-picture-against-motion", 3_000_000_025),
    ExampleRecipe(
        "real-1-a-film-and-its-copy",
        None,
        Settings(protocol="paired"),
        FILM,
        "A big grey rabbit climbs out of its hole in a grassy bank, stretches and yawns.",
    ),
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
        folder = out / example.name
        with os_errors(f"Cannot write the examples into {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            pair, true = _write_clips(example, folder)
        notes = ["A script replies here, not a model: it shows what the protocol allows."]
        if (source := folder / "SOURCE.txt").is_file():
            notes.append(f"Footage: {source.read_text('utf-8').partition(chr(10))[0]}.")
        scripted = ScriptedBackend(example.script, notes=tuple(notes)) if example.script else None
        backend = scripted or judge_backend
        run = compare(pair, backend, example.settings, trace=(path := folder / "trace.json"))
        end = run.finished
        assert end is not None
        if scripted:
            path.write_bytes(to_json(replace(run, finished=replace(end, scripted=True))))
        line = f"{example.name}: {end.stop.value}, judged {run.labels}, true {true}"
        yield f"{line} {end.error}".rstrip()
    progress(len(EXAMPLES), len(EXAMPLES))


def _write_clips(example: ExampleRecipe, folder: Path) -> tuple[VideoPair, object]:
    """Write both clips into `folder`; return the pair and its true labels, None if not known."""
    clips = folder / "first.mp4", folder / "second.mp4"
    if example.seed is None:
        stored = asset("examples") / example.name
        if stored.resolve() != folder.resolve():
            for name in ("first.mp4", "second.mp4", "SOURCE.txt"):
                copyfile(stored / name, folder / name)
        return VideoPair(example.prompt, *clips), None
    drawn = draw_pair(example.seed)
    for scene, path in zip((drawn.first, drawn.second), clips, strict=True):
        write_video(scene, path, SIZE)
    return VideoPair(drawn.prompt, *clips), drawn.verdict.labels
