"""`--frames random`, the control: as many frames as a judge asks for are drawn, and everything says so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.evaluation.support.scripted_runs import write_table
from tests.support.blank_frames import frames
from tests.support.drawn_rollouts import look
from tests.support.engines import CALL, BatchScript
from tests.test_cli import call
from vrthinker_core import compare
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.branch_plan import plan_branch
from vrthinker_core.deliberation import Deliberation
from vrthinker_core.drawn.world import Fault, draw_facts, draw_scene
from vrthinker_core.evaluation.job import evaluate
from vrthinker_core.protocols import make_protocol, with_defaults
from vrthinker_core.results.result import RESULTS, read_results
from vrthinker_core.runner import judge_branch, judge_many, whole_traces
from vrthinker_core.traces import load
from vrthinker_core.types import ProtocolName, Settings, Trace, VideoPair
from vrthinker_core.types.events import TurnEnded
from vrthinker_core.types.messages import Completion, Message
from vrthinker_core.types.wording import CONTROL

RANDOM = Settings(frames="random")
ANSWER = "<Think>t</Think><Answer>TA=1, MQ=1, VQ=1, OA=1</Answer>"


def draws(settings: Settings, *calls: str, protocol: ProtocolName = "paired", prompt: str = "A ball.") -> list[tuple[int, ...]]:  # fmt: skip
    """The frames that come after each call."""
    prompts = make_protocol(settings, protocol)
    run = Deliberation(prompt, prompts, with_defaults(settings, prompts), frames)
    found = []
    for text in calls:
        run.take(Completion(text))
        assert run.last_call is not None
        found.append(run.last_call.asked)
    return found


def test_as_many_frames_as_asked_for_are_drawn_by_seed_pair_and_turn() -> None:
    calls = look(10, 20, 30), look(10, 20, 30)
    first, second = found = draws(RANDOM, *calls)
    assert found == draws(RANDOM, *calls) == draws(replace(RANDOM, window=1), *calls)
    opening = {16, 48, 80, 112}
    assert len({*first, *second}) == 6, "none is drawn twice"
    assert not opening & {*first, *second}
    assert draws(RANDOM, *calls, prompt="A cat.")[0] != first
    assert draws(replace(RANDOM, seed=1), *calls)[0] != first
    assert draws(Settings(), *calls) == [(10, 20, 30)] * 2


def test_what_was_shown_comes_again_only_if_nothing_else_is_left() -> None:
    settings = replace(RANDOM, protocol="concat", total=16)
    calls = [look(*range(1, n), field="target_frames") for n in (7, 5)]
    first, second = draws(settings, *calls, protocol="concat")
    opening = {1, 3, 5, 7, 9, 11, 13, 15}
    assert (len(first), len(second)) == (6, 4)
    assert {*range(1, 17)} - opening <= {*first, *second}


def shown(trace: Trace) -> list[object]:
    return [(turn.told, [frame.ref for frame in turn.frames]) for turn in trace.turns]


def test_every_engine_a_stored_run_and_a_branch_show_the_same_frames(pair: VideoPair, tmp_path: Path) -> None:  # fmt: skip
    def script(messages: Sequence[Message]) -> str:
        return (CALL, CALL, ANSWER)[len(messages) // 2 - 1]

    trace = compare(pair, ScriptedBackend(script), RANDOM, trace=tmp_path / "run.json")
    assert "Retrieved 2 frame pairs" in trace.turns[1].told
    assert "[10, 30]" not in trace.turns[1].told, "the judge is told what it really sees"
    for kind in (ScriptedBackend, BatchScript):
        for _, other in whole_traces(judge_many([pair, pair], kind(script), RANDOM)):
            assert shown(other) == shown(trace)
    kept = load(tmp_path / "run.json")
    plan = plan_branch(kept, 3)
    events = judge_branch(plan, pair, ScriptedBackend(script))
    turns = [event.turn for event in events if isinstance(event, TurnEnded)]
    assert shown(replace(kept, turns=tuple(turns))) == shown(trace)
    assert CONTROL in kept.started.notes
    code, out, _ = call("replay", tmp_path / "run.json")
    assert (code, out.count(CONTROL)) == (0, 2), "a note, and beside the verdict"


FLAW = range(62, 65)


def flawed(seed: int, settings: Settings) -> bool:
    """Whether a judge that asks for the three frames of a flaw is shown one."""
    rng = np.random.default_rng(seed)
    scene = draw_scene(rng, draw_facts(rng), Fault("noisy", FLAW, 1.0, seed))
    (indices,) = draws(replace(settings, seed=seed), look(*FLAW))
    return any(scene.picture_state(index) != "clear" for index in indices)


def test_a_judge_that_knows_where_to_look_finds_a_short_flaw_only_if_it_is_heard() -> None:
    assert all(flawed(seed, Settings()) for seed in range(40))
    assert sum(flawed(seed, RANDOM) for seed in range(40)) < 10  # 3 of 124 frames: 7 % of runs


def test_a_report_says_that_it_is_a_control_and_a_ranking_has_none(tmp_path: Path) -> None:
    table, control = write_table(tmp_path / "data", 4), tmp_path / "out"
    evaluate("csv", table, ScriptedBackend([CALL, ANSWER]), RANDOM, out=control)
    page = (control / "report.html").read_text("utf-8")
    assert CONTROL in page
    assert "(control: frames drawn at random)</title>" in page
    code, out, _ = call("report", control)
    assert (code, " ".join(out.split()).count(CONTROL)) == (0, 1)
    told = json.loads((control / "report.json").read_text("utf-8"))
    assert told["summary"]["settings"]["frames"] == "random"
    assert all(result.control for result in read_results(control / RESULTS))
    code, _, error = call("rank", tmp_path, "--frames", "random")
    assert (code, "use it with evaluate" in error) == (2, True)
