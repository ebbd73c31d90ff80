"""Curves in trackio: a local store of this machine, without an account; `trackio show` opens them. Never needed to train."""

import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from vrthinker_core.errors import BadInput

PROJECT = "vr-thinker"


def name_of(folder: Path) -> str:
    """What a folder and the one above it call its run; folders elsewhere may have the same name."""
    absolute = folder.absolute()
    return f"{absolute.parent.name}-{absolute.name}".strip("-")


class TrackioCurves:
    """The curves of one training run; a run that is resumed goes on with its own."""

    def __init__(self, name: str) -> None:
        """`name`: of the run. Raises BadInput where trackio is not installed."""
        try:
            trackio = import_module("trackio")
        except ImportError:
            raise BadInput(
                "Curves take trackio: run pip install -e '.[train]', or train without --set trackio=true."
            ) from None
        with redirect_stdout(sys.stderr):
            self._run: Any = trackio.init(
                PROJECT,
                name=name,
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    def add(self, step: int, figures: dict[str, float]) -> None:
        """One point of each curve."""
        self._run.log(figures, step=step)

    def close(self) -> None:
        """Write what is still on its way."""
        with redirect_stdout(sys.stderr):
            self._run.finish()
