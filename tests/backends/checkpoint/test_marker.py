"""What the files beside the weights say of protocols, forced answers, ends of replies and the context is sound, or refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.backends.checkpoint.test_checkpoint import edits, edits_text, refused
from tests.backends.support.random_model import noise_frame
from vrthinker_core import Settings
from vrthinker_core.backends import NANO
from vrthinker_core.backends.chat_template import VisionItem
from vrthinker_core.backends.checkpoint_files import GENERATION_CONFIG, MARKER
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.protocols import make_protocol
from vrthinker_core.types.messages import Completion, Message, Sampling

FORCED = {
    "paired": ["</Think>\n<tool_call>", "</Think>\n<Answer>"],
    "concat": ["</think>\n", "</think>\n<final answer>"],
}


@pytest.fixture
def judge(tmp_path: Path) -> Path:
    """The built-in judge's files, to be changed."""
    return Path(shutil.copytree(NANO, tmp_path / "judge"))


def concat_opening() -> list[Message]:
    protocol = make_protocol(Settings(), "concat")
    frames = [noise_frame(k, 112, 112) for k in range(len(protocol.opening_refs))]
    return list(protocol.opening_messages("A red ball moves right across the wood.", frames))


def test_a_checkpoint_may_speak_several_protocols_each_forced_in_its_own_words(judge: Path) -> None:
    edits(MARKER, protocol=["paired", "concat"], forced=FORCED)(judge)
    backend = TransformersBackend.load(str(judge))
    assert backend.protocols == ("paired", "concat")
    assert not backend.follows_instructions
    for protocol, own in FORCED.items():
        prompts = make_protocol(Settings(), protocol)  # type: ignore[arg-type]
        assert backend.loaded.forced_redirects[prompts.redirect] == tuple(own)


def test_one_forced_pair_serves_the_protocol_that_is_named(judge: Path) -> None:
    edits(MARKER, protocol="paired", forced=FORCED["paired"])(judge)
    loaded = TransformersBackend.load(str(judge)).loaded
    assert list(loaded.forced_redirects) == [make_protocol(Settings(), "paired").redirect]


def test_a_checkpoint_that_learnt_no_video_items_gets_every_frame_as_an_image(judge: Path) -> None:
    found = []
    for video_items in (True, False):
        edits(MARKER, video_items=video_items)(judge)
        backend = TransformersBackend.load(str(judge))
        rendered = backend.loaded.render(concat_opening())
        found.append([item for item in rendered if isinstance(item, VisionItem)])
    packed, single = found
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
def test_a_damaged_marker_is_refused_in_one_sentence(judge: Path, said: dict[str, Any]) -> None:
    edits(MARKER, **said)(judge)
    sentence = refused(judge)
    assert sentence.startswith(f"{MARKER} of judge is damaged")
    assert f" its `{next(iter(said))}` is " in sentence


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
    folder = shutil.copytree(checkpoint_folder, tmp_path / name)
    assert TransformersBackend.load(str(folder)).protocols == known


# -- the end of a reply, repetition and the context ----------------------------------------------------------------------


@pytest.mark.parametrize("token", ["2", [[2], 0], [2, -1], 100_000, 2.5, True, "x" * 1000])
def test_what_ends_a_reply_is_a_token(token: Any, copy: Path) -> None:
    edits(GENERATION_CONFIG, eos_token_id=token)(copy)
    sentence = refused(copy)
    assert sentence.startswith(f"{GENERATION_CONFIG} of judge is damaged: it ends replies with ")
    assert len(sentence) < 200


@pytest.mark.parametrize("penalty", ["x", float("nan"), float("inf"), -1.0, 0, 1e-300, [1.1]])
def test_the_repetition_penalty_is_a_number_that_can_be_applied(penalty: Any, copy: Path) -> None:
    edits(GENERATION_CONFIG, repetition_penalty=penalty)(copy)
    assert f"damaged: its repetition_penalty is {penalty!r}, not 0.01 to 100." in refused(copy)


@pytest.mark.parametrize(
    ("text", "cause"), [("{", "it is not JSON"), ("[]", "it holds no JSON object")]
)
def test_one_that_cannot_be_read_is_not_taken_for_one_that_is_not_there(
    text: str, cause: str, copy: Path
) -> None:
    (copy / GENERATION_CONFIG).write_text(text)
    assert refused(copy) == f"{GENERATION_CONFIG} of judge is damaged: {cause}."


def test_without_one_config_json_says_what_ends_a_reply(copy: Path) -> None:
    (copy / GENERATION_CONFIG).unlink()
    assert TransformersBackend.load(str(copy)).loaded.stop_tokens == {0, 2}
    edits_text(eos_token_id=100_000)(copy)
    assert refused(copy).startswith("config.json of judge is damaged: it ends replies with 100000")


@pytest.mark.parametrize(
    "said", [{}, {"eos_token_id": None, "repetition_penalty": None}, {"repetition_penalty": 1}]
)
def test_what_is_sound_is_taken(said: dict[str, Any], copy: Path) -> None:
    (copy / GENERATION_CONFIG).write_text(json.dumps(said))
    loaded = TransformersBackend.load(str(copy)).loaded
    assert (loaded.stop_tokens, loaded.repetition_penalty) == ({0, 2}, 1.0)


@pytest.mark.parametrize("tokens", [0, -5])
def test_a_context_holds_a_token(tokens: int, copy: Path) -> None:
    edits_text(max_position_embeddings=tokens)(copy)
    assert f"config.json of judge is damaged: it allows a context of {tokens} tokens." == refused(
        copy
    )
