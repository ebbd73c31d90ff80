"""Downloads of models from the Hugging Face hub, which can be paused."""

import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from huggingface_hub import constants, hf_hub_url
from huggingface_hub.file_download import http_get, repo_folder_name
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

from vrthinker_core.backends.checkpoint_files import fetch, hub_model, sha256
from vrthinker_core.errors import CheckpointError


class Paused(Exception):
    """The download is to stop where it is."""


class Download:
    """One model, fetched in a thread into the hub's cache.

    The hub's own client deletes a file that has come in part. Here the large files, which are named
    by their SHA-256, come first and are kept in part; the client then takes them from its cache.
    """

    def __init__(self, source: str) -> None:
        self.source, self.said = source, ""  # Why it broke off
        self.size = self.got = 0  # Bytes of the large files, 0 until known
        self._pause = threading.Event()
        self._thread = threading.Thread()

    @property
    def goes_on(self) -> bool:
        """Whether it is neither paused, broken off nor complete."""
        return self._thread.is_alive() and not self._pause.is_set()

    @property
    def share(self) -> float | None:
        """The share that has come, None if the size is unknown."""
        return min(1.0, self.got / self.size) if self.size else None

    @property
    def told(self) -> str:
        """How much has come, or why it broke off."""
        if not self.goes_on and self.said:
            return self.said
        came = f"{self.got / 1e9:.1f} of {self.size / 1e9:.1f} GB" if self.size else "It begins"
        return f"{came}. It goes on when this is closed." if self.goes_on else f"{came}, paused."

    def start(self) -> None:
        """Begin, or continue, in a thread."""
        if self.goes_on:
            return
        self._pause.set()  # One that is just pausing writes no more
        if self._thread.is_alive():
            self._thread.join()
        self._pause, self.said = threading.Event(), ""
        self._thread = threading.Thread(target=self._run, name="download", daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Stop after the next piece; `start` continues there."""
        self._pause.set()

    def wait(self, seconds: float) -> None:
        """Wait until nothing more is written."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._fetch()
        except Paused:
            return
        except CheckpointError as error:
            self.said = str(error)
        except Exception as error:  # noqa: BLE001 - errors of the hub's client and its HTTP client
            self.said = (
                f"The download of {self.source} broke off ({type(error).__name__}). "
                "What has come is kept: continue it."
            )

    def _fetch(self) -> None:
        info = hub_model(self.source)
        folder = repo_folder_name(repo_id=self.source, repo_type="model")
        blobs = Path(constants.HF_HUB_CACHE) / folder / "blobs"
        blobs.mkdir(parents=True, exist_ok=True)
        wanted = [
            (file, blobs / file.lfs.sha256, blobs / f"{file.lfs.sha256}.part")
            for file in info.siblings or ()
            if file.lfs and file.rfilename.endswith(".safetensors")
        ]
        self.size = sum(file.size or 0 for file, _, _ in wanted)
        come = (blob if blob.exists() else part for _, blob, part in wanted)
        self.got = sum(path.stat().st_size for path in come if path.exists())
        # What the hub's client counts bytes with
        bar: Any = lambda **_: nullcontext(SimpleNamespace(update=self._count))  # noqa: E731
        for file, blob, part in wanted:
            if blob.exists():
                continue
            with part.open("ab") as output:
                http_get(
                    hf_hub_url(self.source, file.rfilename, revision=info.sha),
                    output,
                    resume_size=output.tell(),
                    headers=build_hf_headers(),
                    expected_size=file.size,
                    tqdm_class=bar,
                )
            if sha256(part) != blob.name:
                part.unlink()
                raise CheckpointError(
                    f"A file of {self.source} came damaged: continue the download."
                )
            part.rename(blob)
        self._count(0)
        fetch(self.source)

    def _count(self, came: float) -> None:
        """Count bytes; raise `Paused` if the download is to pause."""
        if self._pause.is_set():
            raise Paused
        self.got += int(came)
