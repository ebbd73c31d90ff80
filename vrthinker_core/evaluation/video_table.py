"""Videos of several generators for the same prompts: a folder or CSV.

A folder holds one subfolder for each generator, with videos of equal names for equal prompts, and
`prompts.csv` with the columns `video, prompt`: the name, with or without its ending, and the prompt
it was made from. A CSV has the columns `generator, prompt, video`, with paths relative to its own
folder. What is missing or wrong is named.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from unicodedata import normalize

from vrthinker_core.errors import BadInput, os_errors
from vrthinker_core.results.layout import TableRow, existing_file, read_table, text_in
from vrthinker_core.results.result import MissingRule
from vrthinker_core.words import encodable

PROMPTS = "prompts.csv"  # in a folder of generators
PROMPT_COLUMNS = ("video", "prompt")
COLUMNS = ("generator", "prompt", "video")
VIDEO_SUFFIXES = frozenset({".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".gif"})


@dataclass(frozen=True, slots=True)
class VideoTable:
    """Which generator made which video. At least two generators have videos of the same name."""

    generators: tuple[str, ...]  # sorted
    prompts: dict[str, str]  # name of the videos to their prompt, sorted by name
    videos: dict[tuple[str, str], str]  # (generator, name) to an absolute path
    left_out: tuple[str, ...] = ()  # what is missing or could not be used, a sentence each
    missing: dict[tuple[str, str], str] = field(default_factory=dict)
    """(generator, name) of each missing video, to the name that its file should have."""
    rule: MissingRule = "loses"
    """What becomes of a pair with one video that is missing or cannot be decoded."""


def read_videos(path: Path) -> VideoTable:
    """Read the videos of a folder or a CSV. Raises BadInput if there is nothing to rank."""
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
        self.named: dict[tuple[str, str], str] = {}  # files that a table has and the disk has not
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
        """Make the table, with a sentence about each gap. Raises BadInput for nothing to rank."""
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
                "No two generators have a video for the same prompt, so there is no pair to "
                "compare."
            )
        generators = sorted({generator for generator, _ in (*self.videos, *self.named)})
        for generator in generators:
            if gone := sorted(name for name, owners in held.items() if generator not in owners):
                self.left_out.append(f"{generator} has no video for {_list(gone)}.")
        if unused := sorted(self.prompts.keys() - held.keys()):
            self.left_out.append(f"No generator has a video for {_list(unused)}.")
        files = {name: Path(path).name for (_, name), path in self.videos.items()}
        missing = {
            (generator, name): self.named.get((generator, name), files.get(name, ""))
            for generator in generators
            for name in sorted(self.prompts)
            if (generator, name) not in self.videos
        }
        return VideoTable(
            tuple(generators),
            dict(sorted(self.prompts.items())),
            dict(sorted(self.videos.items())),
            tuple(map(encodable, self.left_out)),
            missing,
        )


def _read_folder(folder: Path) -> VideoTable:
    if not (folder / PROMPTS).is_file():
        raise BadInput(
            f"{encodable(str(folder))} has no {PROMPTS}: write one with the columns "
            f"{' and '.join(PROMPT_COLUMNS)}."
        )
    found = _Collector()
    _read_prompts(folder / PROMPTS, found)
    names = {normalize("NFC", name): name for name in found.prompts}
    names |= {name: name for name in found.prompts}
    unknown: set[str] = set()
    for generator in _listed(folder):
        if not generator.is_dir() or generator.name.startswith("."):
            continue
        videos = [
            path
            for path in _listed(generator)
            if path.suffix.lower() in VIDEO_SUFFIXES and path.is_file()
        ]
        if not videos:
            found.left_out.append(
                f"The folder {generator.name} holds no video, so it is no generator."
            )
        for video in videos:
            if name := names.get(video.stem) or names.get(normalize("NFC", video.stem), ""):
                found.add(generator.name, name, video, f"{generator.name}/{video.name}")
            else:
                unknown.add(video.stem)
    if unknown:
        found.left_out.append(
            f"{PROMPTS} has no prompt for {_list(sorted(unknown))}: those videos are left out."
        )
    return found.table()


def _read_prompts(path: Path, found: _Collector) -> None:
    for row in read_table(path, PROMPT_COLUMNS):
        named, prompt = _values(row, PROMPT_COLUMNS)
        file = PureWindowsPath(named)  # splits at slashes and backslashes
        name = file.stem if file.suffix.lower() in VIDEO_SUFFIXES else named
        where = f"Row {row.number} of {PROMPTS}"
        if row.fault:
            found.left_out.append(f"{where} is left out: {row.fault}")
        elif not name or not prompt:
            found.left_out.append(f"{where} has an empty field: it is left out.")
        elif name in found.prompts:
            found.left_out.append(f"{where} names {name} again: it is left out.")
        else:
            found.prompts[name] = prompt


def _listed(folder: Path) -> list[Path]:
    with os_errors(f"Cannot read {encodable(str(folder))}"):
        return sorted(folder.iterdir())


def _read_csv(path: Path) -> VideoTable:
    found = _Collector()
    for row in sorted(read_table(path, COLUMNS), key=lambda each: _values(each, COLUMNS)):
        generator, prompt, video = fields = _values(row, COLUMNS)
        whole = not row.fault and generator and prompt
        if whole:
            found.prompts[prompt] = prompt
        try:
            if row.fault:
                raise BadInput(row.fault)
            if "" in fields:
                raise BadInput(f"The field {COLUMNS[fields.index('')]} is empty.")
            if "://" in video:
                raise BadInput(f"{_short(video)} is a web address: download it, and name the file.")
            found.add(generator, prompt, existing_file(path.parent, video), f"Row {row.number}")
        except BadInput as bad:
            found.left_out.append(f"Row {row.number}: {bad}")
            if whole:
                found.named[generator, prompt] = PureWindowsPath(video).name
    return found.table()


def _values(row: TableRow, columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text_in(row, column) for column in columns)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"


def _list(names: Iterable[str]) -> str:
    """Name at most five in one sentence."""
    names = [_short(name) for name in names]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
