"""Pictures cross the wire once where the server keeps them, and again where it has forgotten them."""

from __future__ import annotations

import base64
import io
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture

from tests.backends.server.support import (
    GENERAL,
    VLLM,
    ask,
    carried,
    next_turn,
    open_judge,
    opening,
    parts,
)
from tests.backends.support.random_model import noise_frame
from tests.support.drawn_pairs import drawn_pairs
from tests.support.faulty_server import ANSWER, refuses, says, serving
from tests.support.served_models import transformers_serving
from tests.support.slow import slow
from vrthinker_core import VideoPair, judge
from vrthinker_core.backends import Backend
from vrthinker_core.backends.judge_name import parse_judge
from vrthinker_core.backends.pictures import PictureCache
from vrthinker_core.backends.server_backend import ServerBackend
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.types import Side, Verdict
from vrthinker_core.types.events import add_event

MISS = refuses(400, "Cache miss for image at index 0 but data is not provided.")


def test_a_later_turn_carries_only_its_new_pictures() -> None:
    with serving(cards=VLLM) as server:
        conversation = open_judge(server).open_conversation()
        messages = opening(1, 2)
        ask(conversation, messages)
        ask(conversation, next_turn(messages, ANSWER, 3))
        ask(conversation, next_turn(next_turn(messages, ANSWER, 3), ANSWER))
        conversation.close()
    assert [carried(body) for body in server.bodies] == [4, 2, 0]
    named = [
        [part["uuid"] for part in parts(body) if part["type"] == "image_url"]
        for body in server.bodies
    ]
    assert [len(ids) for ids in named] == [4, 6, 6]
    assert named[1][:4] == named[0]
    assert len(set(named[1])) == 6


def test_forgotten_pictures_are_sent_again_and_then_not_again() -> None:
    with serving(says(), MISS, says(), says(), cards=VLLM) as server:
        conversation = open_judge(server).open_conversation()
        ask(conversation, opening(1))
        assert ask(conversation, next_turn(opening(1), ANSWER, 3))[1].text == ANSWER
        ask(conversation, next_turn(next_turn(opening(1), ANSWER, 3), ANSWER))
        conversation.close()
    assert [carried(body) for body in server.bodies] == [2, 2, 4, 0]


def test_a_server_that_knows_no_ids_gets_every_picture_each_time() -> None:
    for server_kind, answers in (
        (GENERAL, [says()]),
        (VLLM, [refuses(400, "Unknown field: uuid"), says()]),
    ):
        with serving(*answers, cards=server_kind) as server:
            conversation = open_judge(server).open_conversation()
            ask(conversation, opening(1))
            ask(conversation, next_turn(opening(1), ANSWER, 3))
            conversation.close()
        assert [carried(body) for body in server.bodies[-2:]] == [2, 4]
        assert not any("uuid" in part for body in server.bodies[-2:] for part in parts(body))


def test_a_picture_is_the_frame_pixel_for_pixel_and_is_encoded_once() -> None:
    cache, frame = PictureCache(), noise_frame(3, 30, 20, Side.FIRST)
    encoded = cache.png(frame)
    assert cache.png(frame) is encoded
    pixels = np.asarray(Picture.open(io.BytesIO(base64.b64decode(encoded))))
    assert pixels.tobytes() == frame.rgb
    assert pixels.shape == (20, 30, 3)


def test_the_cache_is_bounded_and_ids_are_of_the_pixels() -> None:
    frames = [noise_frame(k, 32, 32, Side.FIRST) for k in range(6)]
    size = len(PictureCache().png(frames[0]))
    cache = PictureCache(max_bytes=3 * size + size // 2)
    first = cache.png(frames[0])
    for frame in frames[1:]:
        cache.png(frame)
    assert cache.png(frames[0]) is not first
    assert cache.png(frames[0]) == first
    assert len({cache.picture_id(frame) for frame in frames}) == 6
    assert PictureCache().picture_id(frames[0]) == cache.picture_id(frames[0])


def run(pair: VideoPair, backend: Backend) -> tuple[list[str], Verdict | None]:
    trace = reduce(add_event, judge(pair, backend), None)
    assert not trace.finished.error
    return [turn.completion.text for turn in trace.turns], trace.finished.verdict


@pytest.mark.timeout(600)
@slow
def test_replies_are_those_of_this_process(tmp_path: Path, nano: TransformersBackend) -> None:
    """Its parser takes every call out of a reply; here it stands in its place again."""
    (pair,) = drawn_pairs(1, 2_000_000_100, tmp_path / "pairs", 112)
    with transformers_serving(tmp_path) as address:
        served = ServerBackend.open(parse_judge(f"server:{address}?protocol=paired"))
        texts, verdict = run(pair, served)
    assert (texts, verdict) == run(pair, nano)
    assert "<tool_call>" in texts[0]
    assert verdict.whole
