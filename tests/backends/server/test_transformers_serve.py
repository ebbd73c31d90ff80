"""The built-in judge behind a real `transformers serve` says what it says in this process, character for character."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.drawn_pairs import drawn_pairs
from tests.support.served_models import transformers_serving
from tests.support.slow import slow
from vrthinker_core import VideoPair, judge
from vrthinker_core.backends import Backend
from vrthinker_core.backends.judge_name import parse_judge
from vrthinker_core.backends.server_backend import ServerBackend
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.types import Verdict
from vrthinker_core.types.events import Trace, add_event


def run(pair: VideoPair, backend: Backend) -> tuple[list[str], Verdict | None]:
    trace: Trace | None = None
    for event in judge(pair, backend):
        trace = add_event(trace, event)
    assert trace is not None
    assert trace.finished is not None
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
    assert verdict is not None
    assert verdict.whole
