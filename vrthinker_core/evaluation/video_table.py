"""The videos of several generators for the same prompts, from a folder or from a CSV. What is missing or wrong is named.

A folder holds one subfolder for each generator, with videos of equal names for equal prompts, and `prompts.csv` with the columns
`video, prompt`: the name, with or without its ending, and the prompt it was made from. A CSV has the columns
`generator, prompt, video`, with paths relative to its own folder.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from unicodedata import normalize

from vrthinker_core.errors import BadInput
from vrthinker_core.results.layout import TableRow, existing_file
from vrthinker_core.results.result import MissingRule
from vrthinker_core.results.table_file import read_table
from vrthinker_core.text import encodable

PROMPTS = "prompts.csv"  # In a folder of generators
PROMPT_COLUMNS = ("video", "prompt")
COLUMNS = ("generator", "prompt", "video")
VIDEO_SUFFIXES = frozenset({".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".gif"})
NAMED = 5  # At most so many names stand in one sentence


@dataclass(frozen=True, slots=True)
class VideoTable:
    """Which generator made which video. At least two generators have videos of the same name."""

    generators: tuple[str, ...]  # Sorted
    prompts: dict[str, str]  # Name of the videos to their prompt, sorted by name
    videos: dict[tuple[str, str], str]  # (generator, name) to an absolute path
    left_out: tuple[str, ...] = ()  # What is missing or could not be used, a sentence each
    missing: dict[tuple[str, str], str] = field(default_factory=dict)
    """(generator, name) of each video that is not there, to the name that its file should have."""
    rule: MissingRule = (
        "loses"  # What becomes of a pair of which one video alone is missing or cannot be decoded
    )


def read_videos(path: Path) -> VideoTable:
    """The videos of a folder or a CSV, the same whatever the order of its rows. Raises BadInput where there is nothing to rank."""
    if path.is_dir():
        return _read_folder(path.absolute())
    if path.is_file():
        return _read_csv(path.absolute())
    raise BadInput(f"There is no folder or CSV {encodable(str(path))} to rank.")


class _Collector:
    """Takes the videos one by one, and keeps a sentence about each that cannot be used."""

    def __init__(self) -> None:
        self.prompts: dict[str, str] = {}
        self.videos: dict[tuple[str, str], str] = {}
        self.named: dict[
            tuple[str, str], str
        ] = {}  # Names of files that a table has and the disk has not
        self.left_out: list[str] = []

    def add(self, generator: str, name: str, path: Path, where: str) -> None:
        """Take a video; `where` says where it was named."""
        if encodable(f"{generator}{path}") != f"{generator}{path}":
            self.left_out.append(
                f"{where} has a name that is not UTF-8: it is left out. Rename it."
            )
        elif (generator, name) in self.videos:
            self.left_out.append(
                f"{where} is a second video of {generator} for {_short(name)}: it is left out."
            )
        else:
            self.videos[generator, name] = str(path)

    def table(self) -> VideoTable:
        """What can be ranked, with a sentence about each generator that lacks videos. Raises BadInput if nothing can be."""
        generators = sorted({generator for generator, _ in self.videos})
        if len(generators) < 2:
            found = f"there is only {generators[0]}" if generators else "there is none"
            why = f" {self.left_out[0]}" if self.left_out else ""
            raise BadInput(
                encodable(f"A ranking needs videos of at least two generators, and {found}.{why}")
            )
        held = defaultdict(set)
        for generator, name in self.videos:
            held[name].add(generator)
        if all(len(owners) < 2 for owners in held.values()):
            raise BadInput(
                "No two generators have a video for the same prompt, so there is no pair to compare."
            )
        generators = sorted({generator for generator, _ in (*self.videos, *self.named)})
        for generator in generators:
            if gone := sorted(name for name, owners in held.items() if generator not in owners):
                self.left_out.append(f"{generator} has no video for {_list(gone)}.")
        if unused := sorted(self.prompts.keys() - held.keys()):
            self.left_out.append(f"No generator has a video for {_list(unused)}.")
        files = {name: Path(path).name for (_, name), path in self.videos.items()}
        ends = [(generator, name) for generator in generators for name in sorted(self.prompts)]
        missing = {
            end: self.named.get(end, files.get(end[1], ""))
            for end in ends
            if end not in self.videos
        }
        prompts, left_out = dict(sorted(self.prompts.items())), tuple(map(encodable, self.left_out))
        return VideoTable(
            tuple(generators), prompts, dict(sorted(self.videos.items())), left_out, missing
        )


def _read_folder(folder: Path) -> VideoTable:
    if not (folder / PROMPTS).is_file():
        raise BadInput(
            f"{encodable(str(folder))} has no {PROMPTS}: write one with the columns {' and '.join(PROMPT_COLUMNS)}."
        )
    found = _Collector()
    found.prompts = _read_prompts(folder / PROMPTS, found.left_out)
    names = {normalize("NFC", name): name for name in found.prompts} | {
        name: name for name in found.prompts
    }
    unknown: set[str] = set()
    for generator in [
        path for path in _listed(folder) if path.is_dir() and not path.name.startswith(".")
    ]:
        videos = _videos_in(generator)
        if not videos:
            found.left_out.append(
                f"The folder {generator.name} holds no video, so it is no generator."
            )
        for video in videos:
            if name := names.get(video.stem) or names.get(normalize("NFC", video.stem)):
                found.add(generator.name, name, video, f"{generator.name}/{video.name}")
            else:
                unknown.add(video.stem)
    if unknown:
        found.left_out.append(
            f"{PROMPTS} has no prompt for {_list(sorted(unknown))}: those videos are left out."
        )
    return found.table()


def _videos_in(folder: Path) -> list[Path]:
    return [
        path for path in _listed(folder) if path.suffix.lower() in VIDEO_SUFFIXES and path.is_file()
    ]


def _listed(folder: Path) -> list[Path]:
    """What a folder holds, sorted. Raises BadInput."""
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise BadInput(
            f"Cannot read {encodable(str(folder))}: {error.strerror or error}."
        ) from None


def _read_prompts(path: Path, left_out: list[str]) -> dict[str, str]:
    """Prompt by the name of its videos."""
    prompts: dict[str, str] = {}
    for row in read_table(path, PROMPT_COLUMNS):
        named, prompt = _values(row, PROMPT_COLUMNS)
        file = PureWindowsPath(named)  # whose separators are those of any system
        name = file.stem if file.suffix.lower() in VIDEO_SUFFIXES else named
        where = f"Row {row.number} of {path.name}"
        if row.fault:
            left_out.append(f"{where} is left out: {row.fault}")
        elif not name or not prompt:
            left_out.append(f"{where} has an empty field: it is left out.")
        elif name in prompts:
            left_out.append(f"{where} names {name} again: it is left out.")
        else:
            prompts[name] = prompt
    return prompts


def _read_csv(path: Path) -> VideoTable:
    found = _Collector()
    for row in sorted(read_table(path, COLUMNS), key=lambda each: _values(each, COLUMNS)):
        generator, prompt, video = _values(row, COLUMNS)
        whole = not row.fault and generator and prompt
        if whole:
            found.prompts[prompt] = prompt
        try:
            found.add(generator, prompt, _video_of(row, path.parent), f"Row {row.number}")
        except BadInput as bad:
            found.left_out.append(f"Row {row.number}: {bad}")
            if whole:
                found.named[generator, prompt] = PureWindowsPath(video).name
    return found.table()


def _video_of(row: TableRow, folder: Path) -> Path:
    """The video of a row that names all three. Raises BadInput with the sentence that says why the row has none."""
    if row.fault:
        raise BadInput(row.fault)
    if empty := [
        column for column, value in zip(COLUMNS, _values(row, COLUMNS), strict=True) if not value
    ]:
        raise BadInput(f"The field {empty[0]} is empty.")
    video = row.values["video"].strip()
    if "://" in video:
        raise BadInput(f"{_short(video)} is a web address: download it, and name the file.")
    return existing_file(folder, video)


def _values(row: TableRow, columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(row.values.get(column, "").strip() for column in columns)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"


def _list(names: Iterable[str]) -> str:
    names = [_short(name) for name in names]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
