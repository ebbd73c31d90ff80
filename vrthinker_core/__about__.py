"""The package itself: its version, and the files that a checkout has beside it."""

from pathlib import Path

from vrthinker_core.errors import BadInput

__version__ = "0.2.0"

ASSETS = Path(__file__).resolve().parents[1] / "assets"


def asset(name: str) -> Path:
    """A file or folder of `assets/`. Raises BadInput where that is not there, as after an installation from a wheel."""
    if not ASSETS.is_dir():
        raise BadInput(
            f"{ASSETS} is missing, and with it {name}: use a checkout of the project, or install one with pip install -e FOLDER."
        )
    return ASSETS / name
