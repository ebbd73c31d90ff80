"""SFT rows: what `export` writes comes back token for token, and published rows are read with their pictures."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.training.labelled_pairs.test_open_pairs import EXAMPLE, TRACE, VIDEOS
from tests.training.rows.test_conversation import CONCAT, PAIRED, judged
from tests.training.test_token_rows import nano
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.commands.export_rows import export_rows
from vrthinker_core.dialects import make_dialect
from vrthinker_core.dialects.factory import frame_layout
from vrthinker_core.errors import BadInput
from vrthinker_core.traces import to_json
from vrthinker_core.training.labelled_pairs.open_clips import ClipFrames, OpenClips
from vrthinker_core.training.labelled_pairs.row_file import read_json_rows
from vrthinker_core.training.labelled_pairs.sft_file import SftFile
from vrthinker_core.training.rollouts import LabelledPair, Rollout
from vrthinker_core.training.rows.rollout_trace import to_rollout
from vrthinker_core.training.rows.teaching import RowFilter
from vrthinker_core.training.token_rows import token_rows
from vrthinker_core.types import ProtocolName, Settings, Trace, Verdict, VideoPair

__all__ = ["nano"]


def over_files(trace: Trace, folder: Path) -> Rollout:
    """The rollout of a trace over its own videos."""
    layout = frame_layout(make_dialect(trace.started.settings, trace.started.dialect))  # type: ignore[arg-type]
    videos = VideoPair(trace.started.prompt, folder / "first.mp4", folder / "second.mp4")
    with OpenClips(layout) as clips:
        pair = LabelledPair(trace.started.prompt, Verdict(), ClipFrames(videos, clips))
        return to_rollout(trace, pair, keep_tokens=True)


def read_back(traces: Path, out: Path) -> list[Rollout]:
    assert export_rows([traces], "sft", out, RowFilter()).rows
    with SftFile(out) as file:
        return [stored.rollout for stored in file.rollouts(keep_tokens=True)]


def test_a_real_run_comes_back_token_for_token(nano: TransformersBackend, tmp_path: Path) -> None:
    (rollout,) = read_back(EXAMPLE, tmp_path / "rows.jsonl")
    rows = list(token_rows(rollout, nano.loaded))
    assert rows == list(token_rows(over_files(TRACE, EXAMPLE), nano.loaded))
    written = [token for turn in TRACE.turns for token in (*turn.completion.tokens, nano.loaded.tokenizer.control.im_end)]
    assert [label for row in rows for label in row.labels if label >= 0] == written
    assert rollout.correct


@pytest.mark.parametrize(
    ("replies", "protocol", "settings"),
    [(PAIRED, "paired", Settings(window=1, fit="letterbox")), ([*CONCAT[:2], CONCAT[3]], "concat", Settings(window=1, total=48))],
    ids=["paired", "concat"],
)
def test_a_run_with_a_window_comes_back_as_it_was_sent(
    replies: list[str], protocol: ProtocolName, settings: Settings, tmp_path: Path
) -> None:
    if protocol == "concat":
        replies = [reply.replace("90", "40").replace("60", "41") for reply in replies]
    trace, sent = judged(tmp_path, replies, protocol, settings)
    (rollout,) = read_back(tmp_path / "trace.json", tmp_path / "rows.jsonl")
    assert list(rollout.prompts) == sent
    pictures = [[frame.rgb for message in prompt for frame in message.frames] for prompt in sent]
    assert [[frame.rgb for message in prompt for frame in message.frames] for prompt in rollout.prompts] == pictures
    assert [turn.completion.text for turn in rollout.run.turns] == [turn.completion.text for turn in trace.turns]
    assert rollout.run.started.settings == trace.started.settings


def published(folder: Path, **more: Any) -> Path:
    """Two pictures, and a row of the published shape over them."""
    for number, colour in enumerate(((200, 10, 10), (10, 200, 10))):
        Image.new("RGB", (56, 28), colour).save(folder / f"{number}.png")
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "You compare."}]},
        {
            "role": "user",
            "content": [
                {"type": "image", "image": "0.png"},
                {"type": "image", "image": "1.png"},
                {"type": "text", "text": "A dog."},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": PAIRED[0]}]},
        {"role": "user", "content": [{"type": "video", "video": ["0.png", "1.png"]}, {"type": "text", "text": "Here."}]},
        {"role": "assistant", "content": PAIRED[-1]},
    ]
    (folder / "rows.jsonl").write_text(json.dumps({"message_list": messages} | more) + "\n")
    return folder / "rows.jsonl"


def test_published_rows_are_read_with_their_pictures(tmp_path: Path) -> None:
    with SftFile(published(tmp_path)) as file:
        (stored,) = file.rollouts(keep_tokens=False)
    rollout = stored.rollout
    assert [len(prompt) for prompt in rollout.prompts] == [2, 4]
    assert [[frame.rgb[:3] for frame in message.frames] for message in rollout.prompts[1]] == [
        [],
        [bytes((200, 10, 10)), bytes((10, 200, 10))],
        [],
        [bytes((200, 10, 10)), bytes((10, 200, 10))],
    ]
    assert {(frame.width, frame.height) for frame in rollout.prompts[0][1].frames} == {(56, 28)}
    assert rollout.run.finished is not None
    assert rollout.run.finished.verdict == rollout.run.turns[-1].reply.verdict
    assert rollout.pair.prompt == "A dog."


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"message_list": 3}, "is no SFT row with a message_list"),
        ({"message_list": []}, "is no SFT row with a message_list"),
        ({"message_list": [{"role": "user", "content": "A dog."}]}, "holds no reply to learn"),
        ({"message_list": [{"role": "assistant", "content": PAIRED[-1]}]}, "there is no message of the user"),
        ({"taught": [1]}, '"taught" names message 1'),
        ({"taught": [-1]}, '"taught" names message -1'),
        ({"labels": {"OA": 3}}, "OA is 3, which is no label"),
        ({"labels": {"XX": 1}}, "XX is 1, which is no label"),
        ({"message_list": [{"role": "user", "content": [{"type": "image", "image": "gone.png"}]}]}, "no file gone.png"),
        ({"message_list": [{"role": "user", "content": [{"type": "image", "image": "rows.jsonl"}]}]}, "no picture"),
    ],
)
def test_a_row_that_is_none_is_named(more: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with SftFile(published(tmp_path, **more)) as file, pytest.raises(BadInput) as refused:
        list(file.rollouts(keep_tokens=False))
    assert str(refused.value).startswith("Row 1 of rows.jsonl")
    assert sentence in str(refused.value)


def test_a_prompt_may_hold_every_kind_of_line(tmp_path: Path) -> None:
    prompt = "A dog.\u2028Then a cat.\x85And a cow."
    shutil.copytree(EXAMPLE, tmp_path / "traces")
    (tmp_path / "traces" / "trace.json").write_bytes(to_json(replace(TRACE, started=replace(TRACE.started, prompt=prompt))))
    assert export_rows([tmp_path / "traces"], "rl", tmp_path / "rows.jsonl", RowFilter()).rows
    assert [row["prompt"] for row in read_json_rows(tmp_path / "rows.jsonl")] == [prompt]


def test_frames_that_are_others_today_are_never_learnt(tmp_path: Path) -> None:
    assert export_rows([EXAMPLE], "sft", tmp_path / "rows.jsonl", RowFilter()).rows
    text = (tmp_path / "rows.jsonl").read_text("utf-8")
    (tmp_path / "rows.jsonl").write_text(text.replace('"index": 16,', '"index": 17,'), "utf-8")
    assert text != (tmp_path / "rows.jsonl").read_text("utf-8")
    with SftFile(tmp_path / "rows.jsonl") as file, pytest.raises(BadInput, match="another frame"):
        list(file.rollouts(keep_tokens=True))
    assert VIDEOS[0].exists()
