"""The first two stages: learn others' runs, then own right runs."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import cast

import torch

from vrthinker_core.backends.checkpoint import open_for_rendering
from vrthinker_core.backends.checkpoint_files import locate
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput, VideoError
from vrthinker_core.system import free_memory
from vrthinker_core.traces import load
from vrthinker_core.training.config import PartsConfig
from vrthinker_core.training.data import kind_of, named_sets, open_pairs
from vrthinker_core.training.filters import (
    OUTCOMES,
    Outcome,
    Reason,
    choice_lines,
    choose_runs,
    read_identity,
    read_outcomes,
    refusal,
)
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.pair_set import ClipFrames, OpenClips, PairSet
from vrthinker_core.training.rollouts import LabelledPair, Rollout
from vrthinker_core.training.run_folder import StageRun
from vrthinker_core.training.sft import (
    TokenRow,
    bounded_rows,
    optimizer_steps,
    rows_a_step,
    too_few_steps,
    train_sft,
)
from vrthinker_core.training.teacher import Teacher, kept_rollouts, run_teacher
from vrthinker_core.training.traces import (
    NotForTraining,
    StoredRollout,
    TraceFile,
    is_of,
    known_verdict,
    read_traces,
    run_protocol,
    to_rollout,
    trace_videos,
)
from vrthinker_core.types import ProtocolName, Run, VideoPair
from vrthinker_core.types.frames import FramePlan
from vrthinker_core.words import count as counted

HOPELESS = 2_000  # Runs after which a teacher without a kept one is given up
SAMPLES = "samples"  # Folder of the judge's own runs; a further process adds its number

ReadyRuns = Callable[[ExitStack], Iterator[StoredRollout | Reason]]
"""The runs of a folder, or why one cannot be learnt from; the stack closes their videos."""


def open_ready_runs(data: str) -> ReadyRuns | None:
    """Return the runs that `data` names; None if it names pairs alone."""
    kind, _, rest = data.partition(":")
    path = Path(rest if kind == "traces" and rest else data)
    if not path.is_dir():
        return None
    if (path / OUTCOMES).is_file():
        return partial(_teachers_runs, path)
    return partial(_traced_runs, path) if "traces" in (kind, kind_of(path)) else None


def taught_pairs(data: str) -> str:
    """Return the pairs of a teacher's folder, else `data`. Raises BadInput."""
    folder = Path(data)
    if not (folder / OUTCOMES).is_file():
        return data
    given = read_identity(folder).get("data")
    if not isinstance(given, str) or not given:
        raise BadInput(
            f"{folder} does not say which pairs its teacher was given: give a folder that the "
            "command teacher made."
        )
    for each in named_sets(given):
        if each.path is not None and not each.path.exists():
            raise BadInput(f"The pairs of the runs in {folder} are gone: put {each.path} back.")
    return given


def _teachers_runs(folder: Path, videos: ExitStack) -> Iterator[StoredRollout | Reason]:
    """Yield the reasons of refused runs, then the kept runs."""
    outcomes = read_outcomes(folder)
    yield from (Reason(each.reason) for each in outcomes if not each.kept)
    kept = [each for each in outcomes if each.kept]
    # The command teacher plays in one protocol
    for first in kept[:1]:
        protocol = run_protocol(load(folder / first.file))
        plans = {protocol.name: protocol.frame_plan}
        pairs = videos.enter_context(open_pairs(taught_pairs(str(folder)), plans))
        if parts := read_identity(folder).get("parts"):
            pairs = pairs.part("cold-start", PartsConfig(**parts))
        yield from kept_rollouts(folder, pairs, kept, keep_tokens=False)


def _traced_runs(folder: Path, videos: ExitStack) -> Iterator[StoredRollout | Reason]:
    """Yield the first run of each trace, with known labels."""
    opened: dict[FramePlan, OpenClips] = {}

    def read(file: TraceFile, number: int, clips: OpenClips) -> Rollout:
        file = replace(file, trace=load(file.path))
        prompt = file.trace.started.prompt
        first, second = (Path(video["path"]) for video in trace_videos(file, file.trace))
        source = ClipFrames(VideoPair(prompt, first, second), clips)
        pair = LabelledPair(prompt, known_verdict(file), source, number)
        return to_rollout(file.trace, pair, keep_tokens=False)

    for number, file in enumerate(read_traces([folder])):
        try:
            plan = run_protocol(file.trace).frame_plan
            if plan not in opened:
                opened[plan] = videos.enter_context(OpenClips(plan))
            yield StoredRollout.read(partial(read, file, number, opened[plan]))
        except NotForTraining:
            yield Reason.STORED
        except VideoError:
            yield Reason.VIDEO


def passing(
    runs: Iterable[StoredRollout | Reason],
    most: int,
    say: Callable[[str], None],
    held_out: Sequence[LabelledPair] = (),
) -> Iterator[StoredRollout]:
    """Yield runs that pass the filters; `say` hears why others fail."""
    passed, refused = 0, Counter[Reason]()
    for entry in runs:
        if passed == most:
            break
        if isinstance(entry, Reason):
            refused[entry] += 1
        elif _is_of_any(entry.rollout.run, held_out):
            refused[Reason.HELD_OUT] += 1
        elif why := refusal(entry.rollout.run, entry.rollout.pair.truth):
            refused[why[0]] += 1
        else:
            passed += 1
            yield entry
    told = [f"{passed:,} of {counted(passed + refused.total(), 'run')} pass the filters"]
    told += [f"{number:,} not: {reason}" for reason, number in refused.most_common()]
    say("; ".join(told) + ".")


def _is_of_any(run: Run, pairs: Sequence[LabelledPair]) -> bool:
    for pair in pairs:
        with suppress(VideoError):  # A pair whose videos cannot be read measures nothing
            if is_of(run, pair):
                return True
    return False


def learn_ready(
    run: StageRun, runs: ReadyRuns, held_out: Sequence[LabelledPair] = ()
) -> Path | None:
    """Fine-tune on stored runs that pass the filters, but for held-out pairs.

    Returns the trained checkpoint, None if the stage was stopped. Raises BadInput.
    """
    wanted = run.config.cold_start.traces
    with ExitStack() as videos:
        return _fine_tune(run, passing(runs(videos), wanted, run.time_budget.say, held_out), wanted)


def cold_start(run: StageRun, teacher: Teacher) -> Path | None:
    """Let a teacher play until enough runs pass; fine-tune on these.

    Returns the trained checkpoint, None if the stage was stopped. Raises BadInput.
    """
    wanted, out = run.config.cold_start.traces, run.folder.path / "teacher"
    if not run.folder.has_learnt:
        if run.folder.processes.main:
            _let_teach(run, teacher, out)
            torch.cuda.empty_cache()  # The teacher may have lain on other processes' GPUs, too
        if run.over:
            return None
    chosen = [each for each in read_outcomes(out) if each.kept][:wanted]
    rollouts = kept_rollouts(out, teacher.pairs, chosen, keep_tokens=False)
    return _fine_tune(run, rollouts, len(chosen))


def _let_teach(run: StageRun, teacher: Teacher, out: Path) -> None:
    """Play pairs until enough runs are kept."""
    config, budget = run.config, run.time_budget
    wanted = config.cold_start.traces
    kept = sum(each.kept for each in read_outcomes(out)) if (out / OUTCOMES).exists() else 0
    if kept >= wanted:
        return
    settings = replace(config.settings, seed=config.seed)
    teacher = replace(teacher, settings=settings, live=min(32, wanted), keep_all=False)
    numbers = count() if teacher.pairs.size is None else range(teacher.pairs.size)
    made = 0

    def enough() -> bool:
        return kept >= wanted or budget.over or (kept == 0 and made >= HOPELESS)

    for outcome in run_teacher(teacher, numbers, out, enough):
        made, kept = made + 1, kept + outcome.kept
        budget.tell(StepMetrics("teacher", min(kept, wanted), 0.0, 0.0), wanted)


def rejection(run: StageRun, pairs: PairSet) -> Path | None:
    """Let the judge play; fine-tune on a balanced choice of right runs.

    Returns the trained checkpoint, None if the stage was stopped. Raises BadInput.
    """
    folder, options = run.folder, run.config.rejection
    learnt = folder.has_learnt
    if not learnt:
        _sample(run, pairs)
        folder.processes.wait()
        if run.over:
            return None
    outcomes = _all_outcomes(folder.path)
    chosen = choose_runs(outcomes, each=options.per_pair, most=options.most)
    for line in () if learnt else choice_lines(outcomes, chosen):
        run.time_budget.say(line)
    rollouts = kept_rollouts(folder.path, pairs, chosen, keep_tokens=True)
    return _fine_tune(run, rollouts, len(chosen))


def _sample(run: StageRun, pairs: PairSet) -> None:
    """Play this process's share of the pairs that are left."""
    config, processes, options = run.config, run.folder.processes, run.config.rejection
    judge = Teacher(
        run.folder.state.model,
        lambda: TransformersBackend.load(run.source, device=processes.device),
        pairs,
        settings=replace(config.settings, temperature=options.temperature, seed=config.seed),
        samples=options.samples,
        live=64,
        keep_all=False,
    )
    out = run.folder.path / (SAMPLES if processes.main else f"{SAMPLES}-{processes.number}")
    # By as many processes as there were before
    played = Counter(outcome.pair for outcome in _all_outcomes(run.folder.path, but=out))
    most = min(options.pairs, pairs.size or options.pairs)
    shared = range(processes.number, most, processes.count)
    mine = [number for number in shared if played[number] < options.samples]
    runs = run_teacher(judge, mine, out, lambda: run.time_budget.over)
    for made, _ in enumerate(runs, start=1):
        metrics = StepMetrics("samples", made, 0.0, 0.0)
        run.time_budget.tell(metrics, len(mine) * options.samples)


def _all_outcomes(run: Path, but: Path | None = None) -> list[Outcome]:
    """Return the outcomes of all processes, with files relative to `run`."""
    found = {}
    for out in sorted(path.parent for path in run.glob(f"{SAMPLES}*/{OUTCOMES}")):
        for each in read_outcomes(out) if out != but else ():
            file = each.file and f"{out.name}/{each.file}"
            found[each.pair, each.sample] = replace(each, file=file)
    return list(found.values())


def _fine_tune(run: StageRun, rollouts: Iterable[StoredRollout], most: int) -> Path | None:
    """Train on the rollouts; return the result, None if stopped before.

    A source that names no protocol makes a judge of the rollouts' protocols. Raises BadInput.
    """
    config, folder, processes = run.config, run.folder, run.folder.processes.count
    sft = config.cold_start if folder.state.stage == "cold-start" else config.rejection
    rows, protocols = _rows(run, rollouts, most)
    if run.over:
        return None
    steps, each = optimizer_steps(len(rows), sft, processes), rows_a_step(sft, processes)
    if few := too_few_steps(steps, config.least_steps):
        raise BadInput(f"This stage has too little to learn: {few}.")
    run.time_budget.say(
        f"Rows to learn from: {len(rows):,}, in {steps:,} optimizer steps of {each:,}."
    )
    with run.record() as record:
        checkpoint, out = locate(run.source), folder.checkpoints
        made = train_sft(
            rows, checkpoint, sft, config, out, lambda step: record(step, steps), protocols
        )
    return run.finish(made)


def _rows(
    run: StageRun, rollouts: Iterable[StoredRollout], most: int
) -> tuple[list[TokenRow], list[ProtocolName]]:
    """Return the rows by the source's tokenizer, and their protocols.

    Raises BadInput.
    """
    judge = TransformersBackend(open_for_rendering(run.source), run.source)
    protocols: list[ProtocolName] = []

    def checked() -> Iterator[StoredRollout]:
        for number, stored in enumerate(rollouts, start=1):
            run.time_budget.tell(StepMetrics("rows", number, 0.0, 0.0), most)
            spoken = cast(ProtocolName, stored.rollout.run.started.dialect)
            if judge.protocols and spoken not in judge.protocols:
                made_for = " and ".join(judge.protocols)
                raise BadInput(
                    f"A run speaks {spoken}, and the model was made for {made_for}: take runs of "
                    "that protocol."
                )
            protocols.extend({spoken}.difference(protocols))
            yield stored

    # This process's share of a quarter of the free memory keeps frames
    room = free_memory() // (4 * int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    try:
        rows = list(bounded_rows(checked(), judge.loaded, room))
    except NotForTraining as error:
        raise BadInput(f"A kept run cannot be learnt from: {error}.") from None
    if not rows:
        raise BadInput(
            "No run passes the filters, so there is nothing to learn from: give more pairs, or a "
            "better teacher."
        )
    return rows, protocols
