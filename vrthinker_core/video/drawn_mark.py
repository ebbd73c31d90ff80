"""The mark of a drawn video: its comment names its packets' SHA-256.

Re-encoding changes the packets, but most tools copy the comment. The digest exposes such a copy.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Final

_MARK: Final = "drawn by VR-Thinker, packets sha256 "
_MARKED: Final = re.compile(rf"(?:(.*); )?{_MARK}([0-9a-f]{{64}})", re.DOTALL)
UNSEALED: Final = f"{_MARK}{'0' * 64}"
"""Placeholder as long as the final mark, which replaces it in the written file."""


def sealed(digest: str) -> str:
    """Return the mark of a video whose packets have this SHA-256."""
    return _MARK + digest


def unmarked(comment: str) -> str | None:
    """Return the comment before the mark, or None without a mark."""
    found = _MARKED.fullmatch(comment)
    return None if found is None else found[1] or ""


class PacketDigest:
    """SHA-256 of a stream's packets, computed only if a mark exists."""

    def __init__(self, metadata: Mapping[str, str]) -> None:
        found = _MARKED.fullmatch(metadata.get("comment", ""))
        self._claimed = found and found[2]
        self._digest = hashlib.sha256()

    def add(self, packet: bytes | memoryview) -> None:
        """Add the next packet, in file order."""
        if self._claimed:
            self._digest.update(packet)

    @property
    def hexdigest(self) -> str:
        """Hex digest of all packets so far."""
        return self._digest.hexdigest()

    @property
    def drawn(self) -> bool:
        """Whether the mark exists and matches the added packets."""
        return self._claimed == self.hexdigest
