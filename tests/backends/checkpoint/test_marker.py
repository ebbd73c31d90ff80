"""What a checkpoint's marker says of its protocols: one or several, how each is forced to answer, and whether it takes videos."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.backends.support.random_model import noise_frame
from vrthinker_core import Settings
from vrthinker_core.backends import NANO
from vrthinker_core.backends.chat_template import VisionItem
from vrthinker_core.backends.checkpoint_files import MARKER
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import CheckpointError
from vrthinker_core.protocols import make_protocol
from vrthinker_core.types.messages import Completion, Message, Sampling

FORCED = {
    "paired": ["</Think>\n<tool_call>", "</Think>\n<Answer>"],
    "concat": ["</think>\n", "</think>\n<final answer>"],
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The built-in judge's files, to be changed."""
    return Path(shutil.copytree(NANO, tmp_path / "judge"))


def mark(folder: Path, **said: Any) -> None:
    marker = json.loads((folder / MARKER).read_text())
    (folder / MARKER).write_text(json.dumps(marker | said))


def concat_opening(side: int = 112) -> list[Message]:
    protocol = make_protocol(Settings(), "concat")
    frames = [noise_frame(k, side, side) for k in range(len(protocol.opening_refs))]
    return list(protocol.opening_messages("A red ball moves right across the wood.", frames))


def items(backend: TransformersBackend) -> list[VisionItem]:
    return [
        item for item in backend.loaded.render(concat_opening()) if isinstance(item, VisionItem)
    ]


def test_a_checkpoint_may_speak_several_protocols_and_begins_with_the_first(copy: Path) -> None:
    mark(copy, protocol=["paired", "concat"], forced=FORCED)
    backend = TransformersBackend.load(str(copy))
    assert backend.protocols == ("paired", "concat")
    assert not backend.follows_instructions


def test_each_protocol_is_forced_in_its_own_words(copy: Path) -> None:
    mark(copy, protocol=["paired", "concat"], forced=FORCED)
    loaded = TransformersBackend.load(str(copy)).loaded
    for protocol, own in FORCED.items():
        prompts = make_protocol(Settings(), protocol)  # type: ignore[arg-type]
        assert loaded.forced_redirects[prompts.redirect] == tuple(own)


def test_one_forced_pair_serves_the_protocol_that_is_named(copy: Path) -> None:
    mark(copy, protocol="paired", forced=FORCED["paired"])
    loaded = TransformersBackend.load(str(copy)).loaded
    assert list(loaded.forced_redirects) == [make_protocol(Settings(), "paired").redirect]


def test_a_checkpoint_that_learnt_no_video_items_gets_every_frame_as_an_image(copy: Path) -> None:
    mark(copy, video_items=True)
    packed = items(TransformersBackend.load(str(copy)))
    mark(copy, video_items=False)
    backend = TransformersBackend.load(str(copy))
    single = items(backend)
    assert [item.kind for item in packed] == ["video"]
    assert [item.kind for item in single] == ["image"] * 8
    assert [key for item in single for key in item.frame_keys] == list(packed[0].frame_keys)
    *_, completion = backend.open_conversation().stream(
        concat_opening(), Sampling(max_new_tokens=2)
    )
    assert isinstance(completion, Completion)


@pytest.mark.parametrize(
    "said",
    [
        {"protocol": ["paired", "other"]},
        {"protocol": 7},
        {"protocol": ["paired", None]},
        {"forced": ["one"]},
        {"forced": "ab"},
        {"forced": {"concat": ["a", ""]}},
        {"forced": {"other": ["a", "b"]}},
        {"scope": "all"},
        {"video_items": "no"},
    ],
    ids=str,
)
def test_a_damaged_marker_is_refused_in_one_sentence(copy: Path, said: dict[str, Any]) -> None:
    mark(copy, **said)
    with pytest.raises(
        CheckpointError, match=rf"{MARKER} of judge is damaged[^\n]* its `{next(iter(said))}` is "
    ):
        TransformersBackend.load(str(copy))


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("vr-thinker", ("concat",)),
        ("vrthinker", ("paired",)),
        ("VRThinker", ("paired",)),
        ("my-vrthinker", ()),
    ],
)
def test_published_checkpoints_are_known_by_name(
    checkpoint_folder: Path, tmp_path: Path, name: str, known: tuple[str, ...]
) -> None:
    assert (
        TransformersBackend.load(str(shutil.copytree(checkpoint_folder, tmp_path / name))).protocols
        == known
    )
