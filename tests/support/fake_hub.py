"""A small Hugging Face hub: one model, whose large file comes in slow pieces."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.loopback_server import LoopbackServer, QuietHandler, serving

COMMIT = "0" * 39 + "1"
PIECE = 64 * 1024


class FakeHub(LoopbackServer):
    """Keeps the ranges of the large file that were asked for."""

    def __init__(self, name: str, files: dict[str, bytes], pause: float) -> None:
        super().__init__(_Handler)
        self.name, self.files, self.pause = name, files, pause
        self.ranges: list[str] = []

    def card(self, path: str) -> dict[str, object]:
        data = self.files[path]
        large = path.endswith(".safetensors")
        sha256 = hashlib.sha256(data).hexdigest()
        lfs = {"sha256": sha256, "size": len(data), "pointerSize": 1, "oid": sha256}
        oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        more = {"lfs": lfs} if large else {}
        names = {"rfilename": path, "path": path, "type": "file", "blobId": oid, "oid": oid}
        return {**names, "size": len(data), **more}


class _Handler(QuietHandler):
    server: FakeHub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        server, path = self.server, self.path.partition("?")[0]
        cards = [server.card(name) for name in server.files]
        if path.startswith(f"/api/models/{server.name}/tree/"):
            return self.tell(cards)
        if path.startswith(f"/api/models/{server.name}"):
            return self.tell({"id": server.name, "sha": COMMIT, "siblings": cards})
        found = re.fullmatch(f"/{server.name}/resolve/[^/]+/(.+)", path)
        if found is None or found[1] not in server.files:
            return self.send_error(404)
        return self.give(found[1])

    def tell(self, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def give(self, name: str) -> None:
        data, card = self.server.files[name], self.server.card(name)
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        self.send_response(206 if asked else 200)
        etag = card["lfs"]["sha256"] if "lfs" in card else card["oid"]  # type: ignore[index]
        self.send_header("ETag", f'"{etag}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(data) - start))
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        if "lfs" in card:
            self.server.ranges.append(self.headers.get("Range", ""))
        for place in range(start, len(data), PIECE):
            self.wfile.write(data[place : place + PIECE])
            time.sleep(self.server.pause if "lfs" in card else 0)


@contextmanager
def fake_hub(name: str, files: dict[str, bytes], pause: float = 0.0) -> Iterator[FakeHub]:
    """A hub with one model."""
    with serving(FakeHub(name, files, pause)) as server:
        yield server
