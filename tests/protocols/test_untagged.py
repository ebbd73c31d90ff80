"""An answer that everybody can read, without its tag: of a judge that was not trained in the format, at the end, never an example."""

from __future__ import annotations

from itertools import product

import pytest

from tests.support.engines import end_of
from vrthinker_core import VideoPair, judge
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.protocols.paired import Paired
from vrthinker_core.types import ProblemKind, StopReason

PAIRED = Paired()
PLAIN = "TA=1, VQ=2, MQ=0, OA=1"
BODIES = [
    PLAIN,
    "TA: 1, VQ: 2, MQ: 0, OA: 1.",
    "**TA=1**, **VQ=2**, **MQ=0**, **OA=1**",
    "\n- TA: 1\n- VQ: 2\n- MQ: 0\n- OA: 1",
    "\n1. Text alignment (TA): 1\n2. Visual quality (VQ): 2\n3. Motion quality (MQ): 0\n4. Overall (OA): 1",
    '{"TA": 1, "VQ": 2, "MQ": 0, "OA": 1}',
    '\n{"answer": {"TA": "1", "VQ": "2", "MQ": "0", "OA": "1"}}',
    "`TA=1; VQ=2; MQ=0; OA=1`",
]
HEADS = ["Answer: ", "**Final answer:** ", "### Final Answer\n", "My verdict: ", "Final judgment: "]
READ = [f"{head}{body}" for head, body in product(HEADS, BODIES)]
FENCED = [
    f'```json\n{{"TA": 1, "VQ": 2,{gap}"MQ": 0, "OA": 1}}\n```{end}'
    for gap, end in product((" ", "\n  "), ("", "\n"))
]
BEFORE = [
    "",
    "Video 1 follows the prompt. It does not flicker.\n\n",
    "<Think>The block is red.</Think>\n",
    "The block is red.\n</Think>\n\n",
]

THOUGHTS = [f"<Think>So far {head}{body}" for head, body in product(("\n", "I say.\n"), READ[:10])]
THOUGHTS += [f"<Think>\n{answer}\n</Think>\nLet me look again." for answer in READ[:20]]
QUOTED = [f"The caption reads:\n> {answer}" for answer in READ[:10]]
QUOTED += [f'The caption reads "{answer}"' for answer in READ[:10]]
QUOTED += [f'The prompt said\n"\n{head}{PLAIN}"' for head in HEADS * 2]
QUOTED += [f"The last reply wrote:\n{head}{PLAIN}" for head in HEADS * 2]
INTRODUCTIONS = (
    *("For example:", "I should end with", "The format is as follows."),
    "If video 1 were better, I would say",
)
EXAMPLES = [f"{said}\n{answer}" for said, answer in product(INTRODUCTIONS, READ[:10])]
COMPARISONS = (
    *("TA=1 < 2, VQ=2, MQ=0, OA=1", "TA=1, VQ=2 out of 5, MQ=0, OA=1"),
    *("TA=1, VQ=2, MQ=0, OA=1 or 2", "TA=1/2, VQ=2, MQ=0, OA=1", "TA=1, VQ=2, MQ=0, OA=10"),
    *("TA=1, VQ=2, OA=1", "TA=1, VQ=2, MQ=0, OA=1, TA=2"),
    f"{PLAIN}, but I am not sure. I need more frames.",
)
COMPARED = [f"{head}{body}" for head, body in product(HEADS, COMPARISONS)]


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("answer", [*READ, *FENCED])
def test_a_readable_answer_at_the_end_counts_and_is_named(before: str, answer: str) -> None:
    reply = PAIRED.parse(before + answer, trained=False)
    assert reply.kind == "answer"
    assert [int(label) for label in reply.verdict.labels.values()] == [1, 0, 2, 1]
    assert [problem.kind for problem in reply.problems] == [ProblemKind.UNTAGGED]
    assert PAIRED.parse(before + answer).kind == "invalid", "a trained judge is held to its format"


@pytest.mark.parametrize("text", [*THOUGHTS, *QUOTED, *EXAMPLES, *COMPARED])
def test_nothing_is_read_from_thoughts_quotations_examples_and_comparisons(text: str) -> None:
    assert all(len(kind) >= 40 for kind in (THOUGHTS, QUOTED, EXAMPLES, COMPARED))
    assert PAIRED.parse(text, trained=False).verdict is None
    assert PAIRED.parse(f"{READ[0]}\n\n{text}", trained=False).kind == "invalid"


@pytest.mark.parametrize("protocol", [None, "paired"])
def test_only_a_judge_that_was_not_trained_may_answer_so(
    protocol: str | None, pair: VideoPair
) -> None:
    backend = ScriptedBackend([f"I looked.\n{READ[1]}"], protocol=protocol)
    assert (end_of(judge(pair, backend)).stop is StopReason.ANSWERED) is (protocol is None)
