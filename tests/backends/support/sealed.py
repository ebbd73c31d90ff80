"""Writes the `vrthinker.json` of a checkpoint as the built-in judge's was written: its protocol and a checksum of every file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from vrthinker_core.backends.checkpoint_files import MARKER
from vrthinker_core.types import ProtocolName


def write_marker(folder: Path, protocol: ProtocolName) -> None:
    """Seal a checkpoint: one in which a single bit has changed since is refused."""
    files = sorted(
        path
        for path in folder.iterdir()
        if path.suffix in (".json", ".jinja", ".safetensors") and path.name != MARKER
    )
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    (folder / MARKER).write_text(
        json.dumps({"protocol": protocol, "sha256": sums}), encoding="utf-8"
    )
