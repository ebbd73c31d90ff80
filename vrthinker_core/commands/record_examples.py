"""The examples of the page, recorded by one command.

    python -m vrthinker_core examples [--judge nano]

The chosen judge judges all examples but three. The built-in judge never asks for frames that do not
exist, or for more frames than one call may bring, and cannot judge a real film. These three were
written in the style of the 7B: they are recorded again with the replies of their stored traces,
which are marked as scripted. Names say what an example teaches, not which video is better; the
first word is the row on the page.
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
from vrthinker_core.runner import compare
from vrthinker_core.traces import load, to_json
from vrthinker_core.types import Settings, VideoPair

SIZE = 336  # pixels per side of a clip: crisp in the page's players, small in the repository


@dataclass(frozen=True, slots=True)
class ExampleRecipe:
    """One comparison of two clips."""

    name: str  # folder: row ("think", "real" or "protocol"), place in the row, title
    seed: int | None  # of the drawn pair; None if the clips lie in `assets/examples`
    settings: Settings = Settings()
    scripted: bool = False  # with the replies of its stored trace, instead of the judge's
    prompt: str = ""  # of clips that are not drawn


EXAMPLES = (
    ExampleRecipe("think-1-what-four-frames-do-not-show", 3_000_002_493),
    ExampleRecipe("think-2-one-colour-in-the-prompt", 3_000_000_262, Settings(protocol="concat")),
    ExampleRecipe("think-3-equal-at-first-sight", 3_000_002_266),
    ExampleRecipe("think-4-picture-against-motion", 3_000_000_025),
    ExampleRecipe(
        "real-1-a-film-and-its-copy",
        None,
        Settings(protocol="paired"),
        scripted=True,
        prompt="A big grey rabbit climbs out of its hole in a grassy bank, stretches and yawns.",
    ),
    ExampleRecipe("protocol-1-told-to-answer-at-once", 3_000_000_166, Settings(max_turns=1)),
    ExampleRecipe(
        "protocol-2-more-frames-than-allowed",
        3_000_000_449,
        Settings(protocol="paired", frames_per_call=4),
        scripted=True,
    ),
    ExampleRecipe(
        "protocol-3-frames-that-do-not-exist",
        3_000_012_600,
        Settings(protocol="concat"),
        scripted=True,
    ),
)


def record_examples(
    judge_backend: Backend, out: Path, progress: Callable[[int, int], None]
) -> Iterator[str]:
    """Write clips and traces of all examples, and yield a line for each. Raises `BadInput`."""
    for done, example in enumerate(EXAMPLES):
        progress(done, len(EXAMPLES))
        folder = out / example.name
        with os_errors(f"Cannot write the examples into {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            pair, true = _write_clips(example, folder)
        notes = ["A script replies here, not a model: it shows what the protocol allows."]
        if (source := folder / "SOURCE.txt").is_file():
            notes.append(f"Footage: {source.read_text('utf-8').partition(chr(10))[0]}.")
        backend = judge_backend
        if example.scripted:
            stored = load(asset("examples") / example.name / "trace.json")
            replies = tuple(turn.completion.text for turn in stored.turns)
            backend = ScriptedBackend(replies, notes=tuple(notes))
        run = compare(pair, backend, example.settings, trace=(path := folder / "trace.json"))
        end = run.finished
        assert end is not None
        if example.scripted:
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
    for scene, path in zip(drawn.scenes.values(), clips, strict=True):
        write_video(scene, path, size=SIZE)
    return VideoPair(drawn.prompt, *clips), drawn.verdict.labels
