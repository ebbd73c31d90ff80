"""What a checkpoint says of the ends of replies, of repetition and of its context is sound, or it is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.backends.checkpoint.test_checkpoint import refused, rewrite
from vrthinker_core.backends.transformers_local import TransformersBackend

GENERATION = "generation_config.json"


@pytest.mark.parametrize("token", ["abc", "2", [[2], 0], [2, -1], 100_000, 2.5, True, "x" * 1000])
def test_what_ends_a_reply_is_a_token(token: Any, copy: Path) -> None:
    rewrite(copy, GENERATION, lambda content: content.update(eos_token_id=token))
    assert refused(copy).startswith(f"{GENERATION} of judge is damaged: it ends replies with ")
    assert len(refused(copy)) < 200


@pytest.mark.parametrize("penalty", ["x", float("nan"), float("inf"), -1.0, 0, 1e-300, [1.1]])
def test_the_repetition_penalty_is_a_number_that_can_be_applied(penalty: Any, copy: Path) -> None:
    rewrite(copy, GENERATION, lambda content: content.update(repetition_penalty=penalty))
    assert (
        refused(copy)
        == f"{GENERATION} of judge is damaged: its repetition_penalty is {penalty!r}, not 0.01 to 100."
    )


@pytest.mark.parametrize(
    ("text", "cause"), [("{", "it is not JSON"), ("[]", "it holds no JSON object")]
)
def test_one_that_cannot_be_read_is_not_taken_for_one_that_is_not_there(
    text: str, cause: str, copy: Path
) -> None:
    (copy / GENERATION).write_text(text)
    assert refused(copy) == f"{GENERATION} of judge is damaged: {cause}."


def test_without_one_config_json_says_what_ends_a_reply(copy: Path) -> None:
    (copy / GENERATION).unlink()
    assert TransformersBackend.load(str(copy)).loaded.stop_tokens == {0, 2}
    rewrite(
        copy, "config.json", lambda content: content["text_config"].update(eos_token_id=100_000)
    )
    assert refused(copy).startswith("config.json of judge is damaged: it ends replies with 100000")


@pytest.mark.parametrize(
    "said", [{}, {"eos_token_id": None, "repetition_penalty": None}, {"repetition_penalty": 1}]
)
def test_what_is_sound_is_taken(said: dict[str, Any], copy: Path) -> None:
    (copy / GENERATION).write_text(json.dumps(said))
    loaded = TransformersBackend.load(str(copy)).loaded
    assert (loaded.stop_tokens, loaded.repetition_penalty) == ({0, 2}, 1.0)


@pytest.mark.parametrize("tokens", [0, -5])
def test_a_context_holds_a_token(tokens: int, copy: Path) -> None:
    rewrite(
        copy,
        "config.json",
        lambda content: content["text_config"].update(max_position_embeddings=tokens),
    )
    assert (
        refused(copy) == f"config.json of judge is damaged: it allows a context of {tokens} tokens."
    )
