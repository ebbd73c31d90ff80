"""The mark of a video that this project drew: its comment names the SHA-256 of its own packets.

Re-encoding changes the packets and most tools copy the comment, so a digest of the content is what makes the mark mean something.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Final

_MARK: Final = "drawn by VR-Thinker, packets sha256 "
_MARKED: Final = re.compile(rf"(?:(.*); )?{_MARK}([0-9a-f]{{64}})", re.DOTALL)
UNSEALED: Final = f"{_MARK}{'0' * 64}"
"""The mark before the packets are known: as long as the final one, so it can be replaced in the written file."""


def sealed(digest: str) -> str:
    """The mark of a video whose packets have this SHA-256."""
    return _MARK + digest


def unmarked(comment: str) -> str | None:
    """The comment in front of the mark; None for a comment without a mark."""
    found = _MARKED.fullmatch(comment)
    return None if found is None else found[1] or ""


class PacketDigest:
    """Collects the packets of one video stream. Without a mark in the file's metadata nothing is hashed."""

    def __init__(self, metadata: Mapping[str, str]) -> None:
        found = _MARKED.fullmatch(metadata.get("comment", ""))
        self._claimed = found and found[2]
        self._digest = hashlib.sha256()

    def add(self, packet: bytes | memoryview) -> None:
        """Take the next packet, in the order of the file."""
        if self._claimed:
            self._digest.update(packet)

    @property
    def hexdigest(self) -> str:
        """Of all packets so far."""
        return self._digest.hexdigest()

    @property
    def drawn(self) -> bool:
        """Whether the mark is there and names the packets that were added."""
        return self._claimed == self.hexdigest
