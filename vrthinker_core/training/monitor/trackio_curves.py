"""Curves in trackio: a local store of this machine, without an account; `trackio show` opens them. Never needed to train."""

import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from vrthinker_core.errors import BadInput

PROJECT = "vr-thinker"


class TrackioCurves:
    """The curves of one training run; a run that is resumed goes on with its own."""

    def __init__(self, folder: Path) -> None:
        """`folder` gives the run its name. Raises BadInput where trackio is not installed."""
        try:
            trackio = import_module("trackio")
        except ImportError:
            raise BadInput("Curves take trackio: run pip install -e '.[train]', or train without --set trackio=true.") from None
        absolute = folder.absolute()
        with redirect_stdout(sys.stderr):
            self._run: Any = trackio.init(
                PROJECT,
                name=f"{absolute.parent.name}-{absolute.name}".strip("-"),
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
