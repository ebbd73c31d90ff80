"""The marker of a checkpoint: which protocols it was trained for, and what it cannot take."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from annotated_types import MinLen

from vrthinker_core.backends.base import Scope
from vrthinker_core.backends.judge_name import folder_title
from vrthinker_core.backends.local.checkpoint.checkpoint_files import (
    MARKER,
    published_protocol,
    read_config,
    read_marker_file,
)
from vrthinker_core.errors import CheckpointError
from vrthinker_core.files.type_adapter import type_adapter
from vrthinker_core.types import ProtocolName

Phrase = Annotated[str, MinLen(1)]
Redirect = tuple[Phrase, Phrase]


@dataclass(frozen=True, slots=True)
class Marker:
    """What `vrthinker.json` says of a checkpoint besides its checksums."""

    protocols: tuple[ProtocolName, ...] = ()
    """Those it was trained for; the first is the one it speaks where none is chosen. Empty where they are not known."""
    forced: Mapping[ProtocolName, Redirect] = field(default_factory=dict)
    """How to make a checkpoint answer that knows only its protocols' own sentences, by protocol; empty for other checkpoints.

    (a, b) as in `Sampling.redirect`: the text with which it opens a tool call, and the text that replaces it.
    """
    scope: Scope = "any"  # The videos on which its verdict stands
    video_items: bool = True  # It was trained on frames packed as a video; else each frame is sent to it as an image


@dataclass(frozen=True, slots=True)
class _Said:
    """The marker's fields as they may stand there."""

    protocol: ProtocolName | tuple[ProtocolName, ...] | None = None
    forced: Redirect | dict[ProtocolName, Redirect] | None = None  # One pair is for all protocols
    scope: Scope = "any"
    video_items: Literal[True, False] = True


def seal(folder: Path, said: Mapping[str, Any]) -> None:
    """Write the marker: `said`, and the checksum of every file, so that a changed one is refused. Raises OSError."""
    sums = {
        path.name: _sha256(path)
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name != MARKER
    }
    (folder / MARKER).write_text(json.dumps({**said, "sha256": sums}, indent=1) + "\n", "utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_marker(folder: Path, source: str) -> Marker:
    """The marker; a checkpoint without one is known by its published name or not at all. Raises CheckpointError."""
    from pydantic import ValidationError

    content, title = read_marker_file(folder), folder_title(folder)
    try:
        said = type_adapter(_Said).validate_python(content)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        found = f"its `{name}` is {repr(content[name])[:100]}"
        raise CheckpointError(
            f"{MARKER} of {title} is damaged, or later than this version: {found}."
        ) from None
    named = (
        (said.protocol,) if isinstance(said.protocol, str) else dict.fromkeys(said.protocol or ())
    )
    protocols = tuple(named) or _published(folder, source)
    forced = said.forced or {}
    if isinstance(forced, tuple):
        forced = dict.fromkeys(protocols or get_args(ProtocolName), forced)
    return Marker(protocols, forced, said.scope, said.video_items)


def _published(folder: Path, source: str) -> tuple[ProtocolName, ...]:
    config = read_config(folder) if (folder / "config.json").is_file() else {}
    protocol = published_protocol(
        (source, str(config.get("_name_or_path", "")), folder_title(folder))
    )
    return () if protocol is None else (protocol,)
