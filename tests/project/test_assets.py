"""The package without the files beside it, as a wheel installs it: whatever needs one says what is missing, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from vrthinker_core import __about__, open_backend
from vrthinker_core.backends.served_model import recognise
from vrthinker_core.commands.train_command import resolved_model
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.html import render_page
from vrthinker_core.ui.routes import VIEW, joined

NEEDED_FOR: dict[str, Callable[[], object]] = {
    "the built-in judge": partial(open_backend, "nano"),
    "the best judge": open_backend,
    "the built-in judge on a server": partial(recognise, {"id": "nano"}, None),
    "training it further": partial(resolved_model, "nano"),
    "a report": partial(render_page, "Report", "", []),
    "the page": partial(joined, *VIEW),
}


@pytest.mark.parametrize("what", NEEDED_FOR.values(), ids=NEEDED_FOR)
def test_what_a_wheel_lacks_is_named(
    what: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(__about__, "ASSETS", tmp_path / "assets")
    with pytest.raises(
        BadInput, match=r"assets is missing, and with it .*: use a checkout .* pip install -e"
    ):
        what()
