"""The examples of the page: stored traces with their clips, all recorded by one command and labelled with the judge that made them.

    python -m vrthinker_core examples [--judge nano]

All but one are judged by the judge that is given. What the built-in judge never does (recommend, and reply in the other protocol)
comes from a script over drawn clips, and the trace says so: its judge is named "scripted".
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vrthinker_core.backends import Backend, ScriptedBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.judge import judge
from vrthinker_core.training.drawn_world.scenes import DrawnPair, draw_pair
from vrthinker_core.training.drawn_world.video_files import write_video
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Finished

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "examples"
SIZE = 336  # Pixels per side of the clips: crisp in the page's players, small in the repository

SCRIPTED_NOTE = "A script speaks here, not a model: it shows what the protocol allows."


@dataclass(frozen=True, slots=True)
class ExampleRecipe:
    """One comparison of two drawn clips."""

    name: str  # Folder of the example; the page shows them in the order of the names
    seed: int  # Which drawn pair
    settings: Settings = Settings()
    script: tuple[str, ...] = ()  # Replies in place of those of the judge that is given


def _reply(snapshot: str, think: str, *actions: str) -> str:
    return "\n".join((f"<snapshot>{snapshot}</snapshot>", f"<think>{think}</think>", *actions))


def _call(argument: str, *indices: int) -> str:
    return f'<tool_call>{{"name": "select_frames", "arguments": {{"{argument}": {list(indices)}}}}}</tool_call>'


RECOMMENDED = (
    _reply(
        "Video 1: a red cube comes closer over tiles. Video 2: an orange cube comes closer, and the picture is too bright.",
        "Video 2 has the wrong colour and washed-out light. The motion of both is not settled by four frames each.",
        "<recommend answer>TA=1, VQ=1, MQ=0, OA=1, CF=2</recommend answer>",
        _call("target_frames", 132, 140),
    ),
    _reply(
        "No new frames: the request was out of range.",
        "The list ends at 96. I look at the second half of each video instead.",
        "<recommend answer>TA=1, VQ=1, MQ=0, OA=1, CF=2</recommend answer>",
        _call("target_frames", 30, 33, 36, 39, 78, 81, 84, 87),
    ),
    _reply(
        "Video 1: between frames 30 and 33 the cube leaps to the side and later back. Video 2 moves evenly.",
        "Video 1 follows the prompt and is cleaner; Video 2 moves better.",
        "<final answer>TA=1, VQ=1, MQ=2, OA=1</final answer>",
    ),
)

EXAMPLES = (
    ExampleRecipe("1-wrong-colour-and-hidden-blocks", 3_000_000_044),
    ExampleRecipe("2-wrong-colour-and-dark", 3_000_000_059),
    ExampleRecipe("3-a-hidden-jitter", 3_000_000_004),
    ExampleRecipe("4-a-tie-of-two-flaws", 3_000_000_046),
    ExampleRecipe("5-forced-at-the-first-turn", 3_000_000_023, Settings(max_turns=1)),
    ExampleRecipe("6-recommended-then-final", 3_000_000_022, Settings(protocol="concat"), RECOMMENDED),
    ExampleRecipe("7-more-asked-than-allowed", 3_000_000_077, Settings(frames_per_call=4)),
)


def record_examples(
    judge_backend: Backend, out: Path, progress: Callable[[int, int], None], examples: Sequence[ExampleRecipe] = EXAMPLES
) -> Iterator[str]:
    """Write clips and traces of the examples into `out`; gives one line for each. Raises BadInput when `out` cannot be written."""
    for done, example in enumerate(examples):
        progress(done, len(examples))
        yield _record(judge_backend, out / example.name, example)
    progress(len(examples), len(examples))


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
