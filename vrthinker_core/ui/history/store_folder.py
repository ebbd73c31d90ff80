"""Where runs are kept when nobody says where: on a Hugging Face Space its persistent disk, elsewhere the user's cache folder."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

SPACE_DISK = Path("/data")


def usable_folder(chosen: Path | None, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder that was `chosen`, otherwise the first that can be written; None where there is none."""
    return next(
        (
            folder
            for folder in ([chosen] if chosen else _folders(environment))
            if _is_writable(folder)
        ),
        None,
    )


def _folders(environment: Mapping[str, str]) -> Iterator[Path]:
    if environment.get("SPACE_ID") and SPACE_DISK.is_dir():
        yield SPACE_DISK / "vr-thinker-runs"
    cache = environment.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    if cache or environment.get("HOME") or sys.platform == "win32":
        yield Path(cache or Path.home() / ".cache") / "vr-thinker" / "runs"


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
