"""The marker of a checkpoint: which protocols it was trained for, and what it cannot take."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

from vrthinker_core.backends.base import Scope
from vrthinker_core.backends.local.checkpoint.checkpoint_files import (
    MARKER,
    folder_title,
    published_protocol,
    read_config,
    read_marker_file,
)
from vrthinker_core.errors import CheckpointError
from vrthinker_core.types import ProtocolName

Redirect = tuple[str, str]


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


def seal(folder: Path, said: Mapping[str, Any]) -> None:
    """Write the marker: `said`, and the checksum of every file, so that a changed one is refused. Raises OSError."""
    sums = {path.name: _sha256(path) for path in sorted(folder.iterdir()) if path.is_file() and path.name != MARKER}
    (folder / MARKER).write_text(json.dumps({**said, "sha256": sums}, indent=1) + "\n", "utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_marker(folder: Path, source: str) -> Marker:
    """The marker; a checkpoint without one is known by its published name or not at all. Raises CheckpointError."""
    content, title = read_marker_file(folder), folder_title(folder)
    protocols = _protocols(content.get("protocol"), title) or _published(folder, source)
    video_items = content.get("video_items", True)
    if not isinstance(video_items, bool):
        raise CheckpointError(f"{MARKER} of {title} is damaged: its `video_items` is neither true nor false.")
    scope = content.get("scope", "any")
    if scope not in get_args(Scope):
        raise CheckpointError(f"{MARKER} of {title} names the scope {scope!r}, and this version knows only {get_args(Scope)}.")
    return Marker(protocols, _forced(content.get("forced"), protocols, title), scope, video_items)


def _protocols(said: Any, title: str) -> tuple[ProtocolName, ...]:
    """One name, or a list of names of which the first is the default."""
    names = said if isinstance(said, list) else [] if said is None else [said]
    known = get_args(ProtocolName)
    for name in names:
        if name not in known:
            raise CheckpointError(f"{MARKER} of {title} names the protocol {name!r}, which is none of {known}.")
    return tuple(dict.fromkeys(cast(list[ProtocolName], names)))


def _published(folder: Path, source: str) -> tuple[ProtocolName, ...]:
    protocol = published_protocol((source, str(read_config(folder).get("_name_or_path", "")), folder_title(folder)))
    return () if protocol is None else (protocol,)


def _forced(said: Any, protocols: tuple[ProtocolName, ...], title: str) -> dict[ProtocolName, Redirect]:
    """One pair of texts for all protocols, or a table of pairs by protocol."""
    if said is None:
        return {}
    table = said if isinstance(said, dict) else dict.fromkeys(protocols or get_args(ProtocolName), said)
    if any(name not in get_args(ProtocolName) or not _is_redirect(pair) for name, pair in table.items()):
        raise CheckpointError(f"{MARKER} of {title} is damaged: its `forced` is no pair of texts.")
    return {name: (pair[0], pair[1]) for name, pair in table.items()}


def _is_redirect(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) and text for text in pair)
