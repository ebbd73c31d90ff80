"""A disk that fills while the base is trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.support.file_limit import file_limit
from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.errors import BadInput
from vrthinker_core.training.base.half_training import last_report
from vrthinker_core.training.base.model.vocabulary import make_tokenizer
from vrthinker_core.training.base.train_base import BaseOptions, train_part
from vrthinker_core.training.base.vision_training import VisionOptions


@torch.compiler.set_stance("force_eager")
def test_a_disk_that_fills_is_a_sentence_and_what_was_there_goes_on(tmp_path: Path) -> None:
    make_tokenizer(["A red ball moves right across the sand."]).save(str(tmp_path / "tokenizer.json"))
    options = BaseOptions(vision=VisionOptions(minutes=0.001, batch=4))
    train_part("vision", lambda _: None, not_cancelled, options=options, folder=tmp_path)
    step = last_report(tmp_path, "vision")["step"]
    with (tmp_path / "vision.jsonl").open("a") as lines:
        lines.write('{"step": 7, "minu')  # what fitted of a line
    longer = BaseOptions(vision=VisionOptions(minutes=0.1, batch=4, save_seconds=0))
    with file_limit(100_000), pytest.raises(BadInput, match=r"vision\.pt cannot be written, .*: make room and go on with --resume"):
        train_part("vision", pytest.fail, not_cancelled, options=longer, folder=tmp_path)
    assert last_report(tmp_path, "vision")["step"] == step
    train_part("vision", lambda _: None, not_cancelled, options=longer, folder=tmp_path)
    reports = [json.loads(line) for line in (tmp_path / "vision.jsonl").read_text("utf-8").splitlines()]
    assert [report["step"] for report in reports[:2]] == [step, step + 1]
