"""The version of the package, and the assets of a checkout."""

from pathlib import Path

from vrthinker_core.errors import BadInput

__version__ = "0.3.0"

ASSETS = Path(__file__).resolve().parents[1] / "assets"


def asset(name: str) -> Path:
    """Return a path in `assets/`. Raises `BadInput` if `assets/` is missing, as in a wheel."""
    if not ASSETS.is_dir():
        raise BadInput(
            f"{ASSETS} is missing, and with it {name}: use a checkout of the project, or install "
            "one with pip install -e FOLDER."
        )
    return ASSETS / name
