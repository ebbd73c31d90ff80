"""Many replies out of shared steps: each is the one it is alone, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from tests.backends.support.random_model import generate, noise_frame
from tests.backends.test_kv_cache import FILMED, OPENING, answered, windowed
from vrthinker_core.backends.base import BatchBackend, GenerationRequest, StreamItem, not_cancelled
from vrthinker_core.backends.local.engine.batched_cache import BatchedCache
from vrthinker_core.backends.local.engine.kv_cache import PrefixCache
from vrthinker_core.backends.local.text.chat_template import render_prompt
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BackendFailed, ContextFull
from vrthinker_core.types.messages import Completion, GeneratedText, Image, Message, Sampling, Text

OPENINGS = (
    OPENING,
    FILMED,
    Message("user", (Text("No picture at all."),)),
    Message("user", (Image(noise_frame(77, 140, 28)), Text("One."))),
    Message("user", (*(Image(noise_frame(n, 28, 28)) for n in range(5)), Text("Five small ones."))),
)


def together(backend: TransformersBackend, questions: Sequence[GenerationRequest]) -> list[StreamItem]:
    """How each ends; checks on the way that pieces spell the reply and that nothing follows an end."""
    pieces: dict[int, str] = {}
    ends: dict[int, StreamItem] = {}
    for position, said in backend.stream_batch(questions):
        assert position not in ends
        if isinstance(said, str):
            pieces[position] = pieces.get(position, "") + said
        else:
            ends[position] = said
    for position, end in ends.items():
        if isinstance(end, Completion):
            assert pieces.get(position, "") == end.text
    return [ends[position] for position in range(len(questions))]


def as_text(end: StreamItem) -> object:
    """What can be compared: everything of a reply but the time it took."""
    return replace(end, seconds=0.0, pieces=()) if isinstance(end, Completion) else (type(end), str(end))


def kept(messages: list[Message], window: int | None) -> list[Message]:
    """The messages with the frames of the last `window` answers."""
    rounds = [n for n, message in enumerate(messages) if n and message.role == "user"]
    gone = rounds[: max(0, len(rounds) - window)] if window is not None else []
    return [windowed(message) if n in gone else message for n, message in enumerate(messages)]


@pytest.mark.parametrize("window", [None, 1, 2])
@pytest.mark.parametrize("which", ["small", "nano"])
def test_each_reply_of_a_batch_is_the_one_it_is_alone(request: pytest.FixtureRequest, which: str, window: int | None) -> None:
    """Several turns; replies of different lengths; frames that leave; one conversation that pauses for a turn."""
    backend: TransformersBackend = request.getfixturevalue(which)
    many, single = [backend.open_conversation() for _ in OPENINGS], [backend.open_conversation() for _ in OPENINGS]
    histories = [[opening] for opening in OPENINGS]
    for turn in range(4):
        live = [n for n in range(len(OPENINGS)) if (n + turn) % 4]
        samplings = [Sampling(max_new_tokens=6 + 5 * n) for n in live]
        asked = [kept(histories[n], window) for n in live]
        ends = together(backend, [GenerationRequest(many[n], m, s) for n, m, s in zip(live, asked, samplings, strict=True)])
        for n, messages, sampling, end in zip(live, asked, samplings, ends, strict=True):
            alone = generate(single[n], messages, sampling)
            assert as_text(end) == as_text(alone)
            histories[n] += [
                Message("assistant", (GeneratedText(alone.text, alone.tokens),)),
                answered(turn, noise_frame(20 + turn), noise_frame(n)),
            ]


def test_the_logits_of_a_shared_step_are_those_of_a_step_alone(small: TransformersBackend) -> None:
    judge = small.loaded
    side, alone = ([PrefixCache(judge.model, judge.vision) for _ in OPENINGS] for _ in range(2))
    for opening, *both in zip(OPENINGS, side, alone, strict=True):
        for reading in both:
            reading.prefill(render_prompt([opening], judge.tokenizer, judge.vision.vision_item), not_cancelled)
    block = BatchedCache(judge.model, side)
    for step in range(8):
        live = [n for n in range(len(side)) if (n + step) % 3]
        logits = block.decode({id(side[n]): 100 + 7 * step + n for n in live})
        for n in live:
            torch.testing.assert_close(logits[id(side[n])], alone[n].decode(100 + 7 * step + n), atol=1e-4, rtol=0)


def test_forced_answers_and_samples_are_each_row_s_own(small: TransformersBackend) -> None:
    plain = [generate(small.open_conversation(), [opening], Sampling(max_new_tokens=24)).text for opening in OPENINGS]
    samplings = [
        Sampling(24, redirect=(plain[0][3:6], "<Answer>TA=")),
        Sampling(24, temperature=1.5, seed=3),
        Sampling(24, redirect=(plain[2][:4], "")),
        Sampling(24),
        Sampling(24, redirect=(plain[4][8:10], "no ")),
    ]
    ends = together(small, [GenerationRequest(small.open_conversation(), [o], s) for o, s in zip(OPENINGS, samplings, strict=True)])
    alone = [generate(small.open_conversation(), [o], s) for o, s in zip(OPENINGS, samplings, strict=True)]
    assert [as_text(end) for end in ends] == [as_text(end) for end in alone]
    assert plain[0] != alone[0].text


def test_a_cancel_ends_one_row_and_no_other(small: TransformersBackend) -> None:
    asked = iter([False] * 6 + [True] * 100)
    questions = [GenerationRequest(small.open_conversation(), [opening], Sampling(20)) for opening in OPENINGS]
    questions[1] = replace(questions[1], cancelled=lambda: next(asked))
    ends = together(small, questions)
    whole = [generate(small.open_conversation(), [opening], Sampling(20)) for opening in OPENINGS]
    cut = ends[1]
    assert isinstance(cut, Completion)
    assert cut.stop == "cancelled"
    assert 0 < len(cut.tokens) < 20
    assert whole[1].tokens[: len(cut.tokens)] == cut.tokens
    assert [as_text(end) for n, end in enumerate(ends) if n != 1] == [as_text(end) for n, end in enumerate(whole) if n != 1]
    assert generate(questions[1].conversation, [OPENINGS[1]], Sampling(20)).tokens == whole[1].tokens, "the conversation can go on"


def test_a_row_that_fails_fails_alone(small: TransformersBackend) -> None:
    torn = [Message("user", (Image(replace(noise_frame(99), key="torn", rgb=b"123")),))]
    long = [Message("user", (Text("blue ball " * 3000),))]
    closed, dying = small.open_conversation(), small.open_conversation()
    closed.close()

    def dies(calls: list[int] = []) -> bool:  # noqa: B006 - counts
        calls.append(0)
        if len(calls) > 5:
            raise RuntimeError("the kernel failed")
        return False

    ends = together(
        small,
        [
            GenerationRequest(small.open_conversation(), torn, Sampling(9)),
            GenerationRequest(small.open_conversation(), [OPENING], Sampling(9)),
            GenerationRequest(small.open_conversation(), long, Sampling(9)),
            GenerationRequest(closed, [OPENING], Sampling(9)),
            GenerationRequest(dying, [OPENING], Sampling(9), dies),
            GenerationRequest(small.open_conversation(), [FILMED], Sampling(9)),
        ],
    )
    assert [type(end) for end in ends] == [BackendFailed, Completion, ContextFull, BackendFailed, BackendFailed, Completion]
    assert as_text(ends[1]) == as_text(generate(small.open_conversation(), [OPENING], Sampling(9)))
    assert as_text(ends[5]) == as_text(generate(small.open_conversation(), [FILMED], Sampling(9)))
    assert "the kernel failed" in str(ends[4])
    assert generate(dying, [OPENING], Sampling(9)).reused_tokens == 0


def test_a_reader_who_walks_away_leaves_conversations_that_can_go_on(small: TransformersBackend) -> None:
    questions = [GenerationRequest(small.open_conversation(), [opening], Sampling(20)) for opening in OPENINGS]
    stream = small.stream_batch(questions)
    for _ in range(12):
        next(stream)
    del stream
    for question, opening in zip(questions, OPENINGS, strict=True):
        more = generate(question.conversation, [opening], Sampling(20))
        assert more.tokens == generate(small.open_conversation(), [opening], Sampling(20)).tokens


def test_frames_of_all_rows_are_seen_in_one_pass(small: TransformersBackend) -> None:
    passes = []
    hook = small.loaded.model.model.visual.register_forward_hook(lambda *_: passes.append(1))
    asked = [[Message("user", (Image(noise_frame(200 + n)), Image(noise_frame(300)), Text("Compare.")))] for n in range(4)]
    together(small, [GenerationRequest(small.open_conversation(), messages, Sampling(3)) for messages in asked])
    hook.remove()
    assert len(passes) == 1


def test_the_backend_says_that_it_can(small: TransformersBackend) -> None:
    assert isinstance(small, BatchBackend)
