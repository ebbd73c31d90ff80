"""What a trained model is saved with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.local.checkpoint.checkpoint_files import MARKER, check_files
from vrthinker_core.backends.local.checkpoint.loader import open_checkpoint
from vrthinker_core.training.run.saved_judge import save_judge
from vrthinker_core.types import ProtocolName


@pytest.mark.parametrize(
    "said", [None, {}, {"protocol": []}, {"protocol": "paired"}, {"protocol": ["concat", "paired"]}]
)
def test_the_protocol_that_was_learnt_is_named_where_the_model_named_none(
    said: dict[str, object] | None, tmp_path: Path
) -> None:
    source, made = Path(shutil.copytree(NANO, tmp_path / "source")), tmp_path / "made"
    (source / MARKER).unlink()
    if said is not None:
        (source / MARKER).write_text(json.dumps(said))
    learnt: tuple[ProtocolName, ...] = ("concat",)
    before = open_checkpoint(str(source))
    save_judge(before.model, str(source), made, learnt)
    check_files(made)
    assert open_checkpoint(str(made)).marker.protocols == (before.marker.protocols or learnt)
