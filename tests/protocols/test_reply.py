"""Reading replies: what holds for any text, and which part counts where a reply has several."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, strategies as st

from vrthinker_core.protocols import Concat, Paired, PromptProtocol, to_expected
from vrthinker_core.types import Preference, ProblemKind, Reply, Verdict

PAIRED, CONCAT = Paired(), Concat()
WHOLE = "TA=1, MQ=0, VQ=1, OA=1"
OTHER = "TA=2, MQ=2, VQ=2, OA=2"
CALL = '<tool_call>{"frame_indices": [7]}</tool_call>'

LABEL = st.sampled_from([None, *Preference])
VERDICT = st.builds(Verdict, LABEL, LABEL, LABEL, LABEL)
PIECES = st.sampled_from([
    "<Think>", "</Think>", "<snapshot>", "</Snapshot >", "<Answer>", "</Answer>", "<recommend answer>", "</recommend_answer>",
    "<tool_call>", "</tool_call>", '{"frame_indices": [7, 8]}', "```json", "NaN", "1e400", "//", "/*", "<tool_response>", "<|im_end|>",
    WHOLE, OTHER, "TA=", "CF=3", "12", "-1", "\ud800", "\u200b", "\x00", *"{}[],\"'\\<> \n",
])  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join)


def answer_text(
    verdict: Verdict, protocol: PromptProtocol, *, final: bool = True, confidence: int | None = None
) -> str:
    """An answer as the cards write it; a label that is None is left out."""
    tag = ("Answer" if protocol is PAIRED else "final answer") if final else "recommend answer"
    values = {**verdict.labels, "CF": confidence}
    names = [name for name in ("TA", "VQ", "MQ", "OA", "CF") if values.get(name) is not None]
    return f"<{tag}>{', '.join(f'{name}={values[name]}' for name in names)}</{tag}>"


def kinds(reply: Reply) -> list[ProblemKind]:
    return [problem.kind for problem in reply.problems]


@given(TEXTS, st.booleans(), st.sampled_from([PAIRED, CONCAT]))
@example("", True, PAIRED)
def test_any_text_gives_a_consistent_reply(text: str, cut: bool, protocol: PromptProtocol) -> None:
    reply = protocol.parse(text, cut=cut)
    assert text.startswith(reply.text)
    assert (reply.text == text) is (ProblemKind.INVENTED not in kinds(reply))
    assert (reply.kind == "invalid") <= bool(reply.problems), "an unusable reply says why"
    assert len(set(kinds(reply))) == len(reply.problems)
    assert all(problem.detail.endswith(".") for problem in reply.problems)
    if reply.wants is not None:
        valid = range(128) if protocol is PAIRED else range(1, 97)
        assert set(reply.wants.indices) <= set(valid)
        assert len(set(reply.wants.indices)) == len(reply.wants.indices) <= protocol.frames_per_call
    read = to_expected(reply)
    assert json.loads(json.dumps(read, allow_nan=False)) == read
    json.dumps(read, ensure_ascii=False).encode("utf-8")


@given(TEXTS, st.sampled_from([PAIRED, CONCAT]))
def test_the_kept_text_is_read_the_same_again(text: str, protocol: PromptProtocol) -> None:
    first = protocol.parse(text)
    again = protocol.parse(first.text)
    for part in ("text", "kind", "verdict", "wants", "think"):
        assert getattr(again, part) == getattr(first, part)


@given(VERDICT, st.booleans(), st.none() | st.integers(1, 5), st.sampled_from([PAIRED, CONCAT]))
def test_a_rendered_answer_is_read_back(
    verdict: Verdict, final: bool, confidence: int | None, protocol: PromptProtocol
) -> None:
    reply = protocol.parse(answer_text(verdict, protocol, final=final, confidence=confidence))
    assert (reply.verdict, reply.final, reply.confidence) == (verdict, final, confidence)
    assert reply.kind == (("answer" if final else "recommend") if verdict.whole else "invalid")


@given(VERDICT, st.sampled_from([PAIRED, CONCAT]))
def test_answers_and_calls_in_reasoning_are_quotations(
    verdict: Verdict, protocol: PromptProtocol
) -> None:
    answer = answer_text(verdict, protocol)
    reply = protocol.parse(f"<Snapshot>{answer}{CALL}</Snapshot><Think>{CALL}{answer}</Think>")
    assert (reply.verdict, reply.wants) == (None, None)
    assert kinds(reply) == [ProblemKind.NO_ACTION]


def final(labels: str) -> str:
    return f"<Answer>{labels}</Answer>"


def recommended(labels: str) -> str:
    return f"<recommend answer>{labels}</recommend answer>"


@pytest.mark.parametrize(
    ("text", "kind", "overall"),
    [
        (final(WHOLE) + final(OTHER), "answer", 2),
        (final(WHOLE) + final("TA=2"), "answer", 1),
        (final(WHOLE) + recommended(OTHER), "answer", 1),
        (recommended(OTHER) + final(WHOLE), "answer", 1),
        (recommended(WHOLE) + recommended(OTHER), "recommend", 2),
        (recommended(WHOLE) + final("TA=2"), "recommend", 1),
        (final(WHOLE) + CALL, "answer", 1),
        (CALL + recommended(WHOLE), "tool", 1),
        (CALL + final("TA=2"), "tool", None),
        (f"<tool_call>{{'frame_indices': [7]}} don't {final(WHOLE)} it's</tool_call>", "answer", 1),
        (f"<tool_call>{{'frame_indices': [7]}}{final(WHOLE)}{{}}</tool_call>", "answer", 1),
        (f"<tool_call>{{</tool_call>{final(WHOLE)}}}</tool_call>", "answer", 1),
        (recommended(f"\n{final(WHOLE)}"), "recommend", 1),
        (recommended(f"<Final answer>{final(WHOLE)}</final answer>") + CALL, "tool", 1),
        (f"<recommend answer>{recommended(f'<answer>{WHOLE}')}{CALL}", "tool", 1),
        (recommended(OTHER + final(WHOLE)), "answer", 1),
        (recommended("") + final(WHOLE), "answer", 1),
        (final(f"<Think>why {OTHER}</Think>{WHOLE}"), "answer", 1),
        (
            final(f"<Snapshot>s</Snapshot>TA=1, MQ=0<Think>t {final(OTHER)}</Think>, VQ=1, OA=1"),
            "answer",
            1,
        ),
        (f"<Answer>{WHOLE}<Think>t</Think>", "answer", 1),
        (f"<Answer>{WHOLE}<Think>t</Think>{OTHER}", "answer", 1),
        (f"<Answer><Think>t {OTHER}</Think>{WHOLE}", "answer", 1),
        (f"<Answer>Well: <Snapshot>s</Snapshot><Think>t</Think>{WHOLE}{CALL}", "answer", 1),
        (recommended(f"<think>t</think>{WHOLE}") + CALL, "tool", 1),
    ],
)
def test_which_answer_counts(text: str, kind: str, overall: int | None) -> None:
    reply = PAIRED.parse(text)
    assert reply.kind == kind
    assert reply.verdict.labels.get("OA") == overall


def test_a_call_beside_a_complete_answer_is_recorded_as_ignored() -> None:
    reply = PAIRED.parse(f"{CALL}<Answer>{WHOLE}</Answer>")
    assert kinds(reply) == [ProblemKind.IGNORED_CALL]
    assert reply.wants.indices == (7,)


@pytest.mark.parametrize(
    ("text", "stopped", "cut"),
    [
        (f"<Think>t<Answer>{WHOLE}</Answer>", "answer", "invalid"),
        (f"<Think>t{CALL}", "tool", "invalid"),
        (f"<Snapshot>s<Think>t</Think><Answer>{WHOLE}", "answer", "answer"),
        (f"<Think><Think>t</Think></Think><Answer>{WHOLE}", "answer", "answer"),
        (f"<Think>a<Think>t</Think><Answer>{WHOLE}", "answer", "answer"),
        ('<tool_call>{"frame_indices": [7]}', "tool", "tool"),
        ('<tool_call>{"frame_indices": [7]}</tool_c', "tool", "tool"),
        ('<tool_call>{"frame_indices": [7]', "tool", "invalid"),
        ("<tool_call>{'frame_indices': [7]}</tool_call>", "tool", "tool"),
        ('<tool_call>{"frame_indices": [1, 12', "invalid", "invalid"),
        (f'{CALL}<tool_call>{{"frame_indices": [1, 12', "tool", "tool"),
        ("<Answer>TA=1, MQ=0, VQ=1, OA=", "invalid", "invalid"),
        (f"<Answer>{WHOLE}</Ans", "answer", "answer"),
        ("<tool_call>{'frame_indices': [7]}<|im_end|>", "tool", "tool"),
    ],
)
def test_what_a_cut_by_the_token_limit_changes(text: str, stopped: str, cut: str) -> None:
    assert PAIRED.parse(text).kind == stopped
    reply = PAIRED.parse(text, cut=True)
    assert reply.kind == cut
    if cut == "invalid":
        assert kinds(reply)[0] is ProblemKind.TRUNCATED


def test_without_a_usable_answer_the_labels_that_were_readable_are_kept() -> None:
    reply = PAIRED.parse("<recommend answer>TA=1</recommend answer><Answer></Answer>")
    assert (reply.verdict, reply.final) == (Verdict(TA=Preference.FIRST), False)
    reply = PAIRED.parse("<Answer>TA=2</Answer><recommend answer>TA=1</recommend answer>")
    assert (reply.verdict, reply.final) == (Verdict(TA=Preference.SECOND), True)


def test_an_answer_that_was_complete_before_the_cut_is_not_truncated() -> None:
    reply = PAIRED.parse("<Answer>TA=3, MQ=0, VQ=1, OA=1</Answer> and", cut=True)
    assert kinds(reply)[0] is ProblemKind.BAD_VALUE


@pytest.mark.parametrize(
    "begin",
    ["<|im_end|>", "<tool_response>", "< Tool-Response id=1>", "<|image_pad|>", "＜|im_end|＞"],
)
def test_invented_environment_is_cut_away(begin: str) -> None:
    own = f"\u200b<Think>t</Think>{CALL}\n"
    reply = PAIRED.parse(f"{own}{begin}user<Answer>{OTHER}</Answer>", cut=True)
    assert reply.text == own
    assert reply.kind == "tool"
    assert reply.verdict is None
    assert kinds(reply) == [ProblemKind.INVENTED]


def test_the_words_of_the_environment_cut_only_right_behind_a_call() -> None:
    words = "After selecting frames: Here are the selected frames"
    invented = f"{CALL}\n\n{words}<Answer>{OTHER}</Answer>"
    assert CONCAT.parse(invented).text == f"{CALL}\n\n"
    left_open = CONCAT.parse(invented.replace("</tool_call>", ""))
    assert (left_open.text, left_open.kind) == ('<tool_call>{"frame_indices": [7]}\n\n', "tool")
    for quoted in (CALL.replace("]", f'], "why": "{words}"'), f"<think>{words}.</think>"):
        assert CONCAT.parse(f"{quoted}<final answer>{WHOLE}").kind == "answer"


def test_a_cut_keeps_no_invisible_character_that_stood_beside_it() -> None:
    reply = PAIRED.parse(f"\u200b{CALL}\u200b\u200b<|im_end|>\u200b")
    assert (reply.text, kinds(reply)) == (f"\u200b{CALL}", [ProblemKind.INVENTED])


@pytest.mark.parametrize("text", ["", " \n", "\ufeff\u200b\x00", f"<|im_start|>assistant{CALL}"])
def test_nothing_visible_or_all_invented_is_empty(text: str) -> None:
    assert kinds(PAIRED.parse(text)) == [ProblemKind.EMPTY] + [ProblemKind.INVENTED] * (
        CALL in text
    )


def test_reasoning_is_quoted_as_written() -> None:
    noted = "<Synthesis> Ｖ1 is “A” </Synthesis><Think>one</Think><Think>two </Think>"
    reply = PAIRED.parse(noted + CALL)
    assert (reply.snapshot, reply.think) == ("Ｖ1 is “A”", "one\ntwo")


def test_conformance_values_hold_only_what_applies() -> None:
    assert to_expected(PAIRED.parse(f"<Answer>{WHOLE}, CF=4</Answer>")) == {
        "kind": "answer",
        "answer": {"TA": 1, "MQ": 0, "VQ": 1, "OA": 1},
        "confidence": 4,
        "think": "",
        "snapshot": "",
    }
    tool = to_expected(PAIRED.parse("<tool_call>[NaN, 1e400, null, true, 1.5, 3]</tool_call>"))
    assert (tool["indices"], tool["truncated"]) == ([3], False)
    assert tool["dropped"] == ["NaN", "1e400", None, "true", 1.5]
    broken = to_expected(PAIRED.parse("<Answer>TA=1</Answer>"))
    assert (broken["error"], broken["partial"]) == ("missing_dims", {"TA": 1})


QUOTING = '<tool_call>{"frame_indices": [10], "why": "' + f'<Answer>{WHOLE}</Answer>"}}'


@pytest.mark.parametrize(
    "text",
    [QUOTING, f"{QUOTING}\n", f"{QUOTING}<Think>t</Think>", QUOTING.replace("{", "```json\n{", 1)],
)
def test_an_answer_in_a_call_without_its_closing_tag_is_a_quotation(text: str) -> None:
    reply = PAIRED.parse(text)
    assert (reply.kind, reply.wants.indices, reply.verdict) == ("tool", (10,), None)
    assert PAIRED.parse(f"{text}<Answer>{WHOLE}</Answer>").kind == "answer"


def test_labels_behind_a_call_inside_an_answer_count() -> None:
    reply = PAIRED.parse(f"<Answer>{CALL}{WHOLE}</Answer>")
    assert (reply.kind, kinds(reply)) == ("answer", [ProblemKind.IGNORED_CALL])
    left_open = PAIRED.parse(f"<Answer>{CALL}Perhaps {WHOLE}")
    assert left_open.kind == "tool", "nothing says that it is still the answer"


def test_reasoning_inside_a_call_is_left_out() -> None:
    reply = PAIRED.parse('<tool_call><Think>x</Think>{"frame_indices": [10]}</tool_call>')
    assert (reply.wants.indices, reply.problems) == ((10,), ())
