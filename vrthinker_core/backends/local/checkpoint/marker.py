"""Marker: a checkpoint's trained protocols and its limits."""

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
    """The contents of `vrthinker.json` besides its checksums."""

    protocols: tuple[ProtocolName, ...] = ()
    """The protocols the checkpoint was trained for, the default first. Empty if unknown."""
    forced: Mapping[ProtocolName, Redirect] = field(default_factory=dict)
    """For each protocol, the redirect that makes this checkpoint answer.

    A checkpoint needs such redirects if it knows only its protocols' own sentences; others have
    none. A redirect is (a, b) as in `Sampling.redirect`: the text that opens a tool call, and its
    replacement.
    """
    scope: Scope = "any"  # The videos for which its verdict is valid
    video_items: bool = True  # Trained on frames packed as a video; else each frame is an image


@dataclass(frozen=True, slots=True)
class _Said:
    """The marker's fields as they may stand in the file."""

    protocol: ProtocolName | tuple[ProtocolName, ...] | None = None
    forced: Redirect | dict[ProtocolName, Redirect] | None = None  # A pair is for all protocols
    scope: Scope = "any"
    video_items: Literal[True, False] = True


def seal(folder: Path, said: Mapping[str, Any]) -> None:
    """Write the marker: `said`, and the checksum of every file.

    A changed file is then refused. Raises `OSError`.
    """
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
    """Read the marker of a checkpoint.

    Without a marker, a checkpoint's protocol comes from its published name, or is unknown. Raises
    `CheckpointError`.
    """
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
