"""Labels: exactly 0, 1 or 2, in any notation; everything else is a named problem, never guessed."""

from __future__ import annotations

import pytest

from vrthinker_core.protocols import Paired
from vrthinker_core.types import ProblemKind, Reply


def read(body: str) -> Reply:
    return Paired().parse(f"<Think>t</Think><Answer>{body}</Answer>")


@pytest.mark.parametrize(
    "body",
    [
        "TA=1, MQ=0, VQ=2, OA=1",
        "ta=1\nmq=0\nvq=2\noa=1",
        "- **TA** = 1\n- **MQ** = 0\n- **VQ** = 2\n- **OA** = 1",
        '```json\n{"TA": "1", "MQ": 0, "VQ": 2, "OA": 1}\n```',
        "{'TA': 1, 'MQ': 0, 'VQ': 2, 'OA': 1}",
        "ＴＡ＝１，ＭＱ＝０，ＶＱ＝２，ＯＡ＝１",
        "TA=1/MQ=0/VQ=2/OA=1",
        "TA=1 | MQ=0 | VQ=2 | OA=1",
        "1. TA=1 2. MQ=0 3. VQ=2 4. OA=1",
        "1) TA=1, 2) MQ=0, 3) **VQ**=2; 4) OA=1",
        "_TA_=_1_, __MQ__: 0, _VQ_ = 2, __OA=1__",
        "1. Text Alignment (TA): 1, 2. Motion Quality (MQ): 0, 3. Visual Quality (VQ): 2, 4. Overall (OA): 1",
        "TA=1; 2) motion MQ=0; 3) visual quality VQ=2; 4) overall OA=1",
        "1 TA=1, 2 MQ=0, 3 VQ=2, 4 OA=1",
        "1 - TA=1, 2 - MQ=0, 3 - VQ=2, 4 - OA=1",
        "1. TA=1, 2. VQ=2, 3. MQ=0, and 4. OA=1",
        "1. TA=1 and 2. VQ=2 and 3. MQ=0 and 4. OA=1",
        "TA=1, MQ=0, VQ=2, OA=1, and 2 frames blur",
        "TA=1、MQ=0、VQ=2、OA=1",
        "1、TA=1\n2、MQ=0\n3、VQ=2\n4、OA=1",
        "TA=1, 0.9; MQ=0, 50% sure; VQ=2, 3/4 objects; OA=1, 3:1 in all",
        "TA: 1 -- 1 is closer; MQ=0 // 1 wins; VQ=2; 1's dog is there. OA=1, 4",
        "TA=1, 2 frames of it blur; MQ=0 (2 jumps), VQ=2, OA=1, 1 is better",
        "META=2, TA=1, TA=1, XMQ=1, MQ=0, VQ=2, OA=1",
        "Text Alignment (TA): 1, Motion Quality (MQ): 0, Visual Quality (VQ): 2, Overall (OA): 1",
        "TA (Text Alignment): 1, MQ (Motion) = 0, **VQ** (Visual Quality): 2, OA (overall, of both)=1",
        "文本TA=1，动作MQ=0，画面VQ=2，总体OA=1",
        "TA=1 or so; MQ=0 or tie; VQ=2 (video 2); OA=1 - video 1 is better",
        "TA=1? · MQ=0 / draw · VQ=2 // 2 frames blur · OA=1 | video 1",
        "T\u200bA=1, MQ=\u00a00, VQ=2\x00, OA=1\u00ad",
        r"TA=1\nMQ=0\nVQ=2\nOA=1",
        r"\n1. ta=1\r\n2. mq=0\r\n3. vq=2\r\n4. oa=1\r\n",
        r"- TA=1\\n- MQ=0\\n- VQ=2\\n- OA=1",
        r"{\n \"TA\": 1,\n \"MQ\": 0,\n \"VQ\": 2,\n \"OA\": 1\n}",
        r"\ta=1, \mq=0, \vq=2, \oa=1",
    ],
)
def test_a_complete_answer_is_read_in_any_notation(body: str) -> None:
    reply = read(body)
    assert reply.kind == "answer"
    assert reply.verdict.labels == {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1}
    assert reply.problems == ()


NUMBERS = [
    "3", "9", "12", "01", "1.5", "1,5", "1.0", "-1", "−1", "+1", "1e0", "0x1",
    "1/2", "0/1/2", "1//2", r"1\/2", "1⁄2", "1∕2", "1|2", "1||2", "0-2", "1‐2", "1‑2", "1−2", "1 2",
    "1=2", "1->2", "1 => 2", "1→2", "1&2", "1+1", "1?2", "1..2", "0...2", "1…2", "1_2", "_1__2_",
    "1, 2", "1 , 2", "1, 2)", "1; 2", "1;2", "1:2", "0、1、2", "1､ 2", "0、1或2", "1 或 2",
    "1 or 2", "1, or 2", "0, 1 or 2", "0, 1, or 2", "1 and/or 2", "0 and 1", "1, and 2",
    "0, 1, and 2", "1, 2.", "1 ; 2", "{0|1|2}", "1 vs 2", "1 vs. 2", "1/tie", "1 or a tie",
    "1 < 2", "2 > 1", "2≥1", "1 ≈ 2", "1 < video 2", "**1** < **2**", "1 beats 2", "2 is better than 1", "1 over the video 2",
    "2 out of 5", "2 of 5", "2 (out of 5)", "2 points", "1 star", "2★",
    '"1"/"2"', '"1" or "2"', "**1** or **2**", "`1` or `2`", "{1}", "<0/1/2>",
]  # fmt: skip
WORDS = ["tie", "Video 1", "null", "true", "?", "[1]", "1st", "1%", "1TA", "²", "①", "½", "Ⅰ", "١"]
TAGS = [
    "Answer", "ANSWER", "final answer", "Final  Answer", "final_answer", "final-answer", "FinalAnswer", "final\nanswer",
    'answer x="1"', "final\u00a0answer", "Ans\u200bwer",
    *(f"Ans{unseen}wer" for unseen in "\u034f\u061c\u2066\u2069\u206a\u206f\ufe00\ufe0f"),
]  # fmt: skip


@pytest.mark.parametrize("value", [*NUMBERS, *WORDS])
def test_anything_else_is_a_bad_value_and_the_others_are_kept(value: str) -> None:
    reply = read(f"TA={value}, MQ=0, VQ=1, OA=1")
    assert reply.kind == "invalid"
    assert [problem.kind for problem in reply.problems] == [ProblemKind.BAD_VALUE]
    assert reply.problems[0].detail == "The label of TA is not 0, 1 or 2."
    assert reply.verdict.labels == {"MQ": 0, "VQ": 1, "OA": 1}
    template = ", ".join(f"{name}={value}" for name in ("TA", "MQ", "VQ", "OA"))
    assert read(template).verdict.labels == {}


@pytest.mark.parametrize(
    "written",
    ["", "TA=", "TA 1", "X_TA=1", "TA1=1", "DATA=1", "éTA=1", "TA=<label>", "TA={}", 'TA={"x": 1}'],
)
def test_a_dimension_without_a_value_is_missing(written: str) -> None:
    reply = read(f"{written}, MQ=0, VQ=1, OA=1")
    assert [problem.kind for problem in reply.problems] == [ProblemKind.MISSING_DIMS]
    assert reply.problems[0].detail == "The answer has no label for TA."


@pytest.mark.parametrize("body", ["", " \n", "Video 1 is better."])
def test_an_answer_without_any_label(body: str) -> None:
    reply = read(body)
    found = [problem.kind for problem in reply.problems]
    assert found == [ProblemKind.MISSING_DIMS, ProblemKind.EMPTY_ANSWER]
    assert reply.verdict.labels == {}


@pytest.mark.parametrize(
    ("body", "first"),
    [
        ("TA=1, MQ=0, VQ=1, OA=1, OA=2", ProblemKind.CONFLICT),
        ("TA=1, TA=2, MQ=0", ProblemKind.CONFLICT),
        ("TA=1, TA=3, MQ=0, VQ=1, OA=1", ProblemKind.BAD_VALUE),
        ("TA=3, MQ=0", ProblemKind.BAD_VALUE),
    ],
)
def test_the_worst_problem_comes_first(body: str, first: ProblemKind) -> None:
    assert read(body).problems[0].kind is first


@pytest.mark.parametrize(
    ("written", "confidence"), [("CF=1", 1), ("cf: 5", 5), ("CF=３", 3), ("", None)]
)
def test_the_confidence_may_stand_anywhere(written: str, confidence: int | None) -> None:
    for body in (
        f"{written}, TA=1, MQ=0, VQ=1, OA=1",
        f"TA=1, MQ=0, {written}, VQ=1, OA=1",
        f"TA=1, MQ=0, VQ=1, OA=1, {written}",
    ):
        reply = read(body)
        assert (reply.kind, reply.confidence) == ("answer", confidence)


@pytest.mark.parametrize("written", ["CF=9", "CF=0", "CF=2.5", "CF=high", "CF=1, CF=2"])
def test_a_confidence_out_of_range_is_left_out_and_not_fatal(written: str) -> None:
    reply = read(f"TA=1, MQ=0, VQ=1, OA=1, {written}")
    assert (reply.kind, reply.confidence) == ("answer", None)
    assert [problem.kind for problem in reply.problems] == [ProblemKind.BAD_CONFIDENCE]


@pytest.mark.parametrize("tag", TAGS)
def test_tag_names_are_read_in_any_notation(tag: str) -> None:
    body = "TA=1, MQ=0, VQ=2, OA=1"
    for text in (
        f"<{tag}>{body}</{tag}>",
        f"< {tag} >{body}</ {tag} >",
        f"<{tag}><{tag}>{body}</{tag}></{tag}>",
        f"<{tag}>{body}",
    ):
        assert Paired().parse(text).kind == "answer"


@pytest.mark.parametrize(
    "tag", ["recommend answer", "Recommended Answer", "recommend_answer", "RECOMMEND-ANSWER"]
)
def test_a_recommended_answer_is_never_final(tag: str) -> None:
    assert Paired().parse(f"<{tag}>TA=1, MQ=0, VQ=2, OA=1</{tag}>").kind == "recommend"


@pytest.mark.parametrize("tag", ["&lt;Answer&gt;", "<answers>", "</Answer>"])
def test_what_is_no_opening_tag_opens_nothing(tag: str) -> None:
    problems = Paired().parse(f"{tag}TA=1, MQ=0, VQ=2, OA=1</Answer>").problems
    assert [problem.kind for problem in problems] == [ProblemKind.NO_ACTION]
