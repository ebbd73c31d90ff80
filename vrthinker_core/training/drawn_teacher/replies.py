"""The teacher's replies to a drawn pair, in the words of either dialect."""

from vrthinker_core.dialects.base import Dialect
from vrthinker_core.dialects.factory import make_dialect
from vrthinker_core.training.drawn_teacher import phrases
from vrthinker_core.training.drawn_teacher.evidence import Evidence, Flaw, SeenFrame
from vrthinker_core.training.drawn_teacher.looking import next_indices
from vrthinker_core.training.drawn_teacher.shown_facts import compare_facts, describe, restate
from vrthinker_core.training.drawn_world.scenes import DrawnPair
from vrthinker_core.types import Dimension, ProtocolName, Settings, Side, Verdict
from vrthinker_core.types.comparison import ANSWER_ORDER, SUB_SCORES

FIRST_CONFIDENCE, LATER_CONFIDENCE = (
    2,
    3,
)  # CF of a recommended answer after the first frames, and after a coarse look
FORCED_EVERY = 12  # One run in so many answers before it has seen all that it would


def write_lesson(pair: DrawnPair, protocol: ProtocolName) -> tuple[str, ...]:
    """The replies of a run to learn from: one in FORCED_EVERY answers where it would look again, as on its last turn it must."""
    turns = play_teacher(pair, make_dialect(Settings(), protocol))
    texts = [text for text, _, _ in turns]
    number, rest = divmod(pair.seed, FORCED_EVERY)
    last = 1 + number % 2  # The turn that answers
    if rest or len(texts) <= last:
        return tuple(texts)
    begun = texts[last - 1].partition(phrases.MORE)[0]
    return (*texts[: last - 1], begun + _final_answer(turns[last - 1][2]))


def play_teacher(pair: DrawnPair, dialect: Dialect) -> list[tuple[str, tuple[int, ...], Evidence]]:
    """Each reply, the frames it calls for, and the evidence it rests on; the last one is a final answer."""
    evidence = Evidence(pair, dialect)
    evidence.look(dialect.opening_refs)
    turns = []
    while True:
        wanted = next_indices(evidence)
        seen = Evidence(pair, dialect, list(evidence.looks))
        turns.append((_reply(seen, wanted), wanted, seen))
        if not wanted:
            return turns
        evidence.look(dialect.frame_refs(wanted))


def _reply(evidence: Evidence, wanted: tuple[int, ...]) -> str:
    """The reply after the last look; `wanted` are the frames it calls for, () for the final answer."""
    dialect = evidence.dialect
    snapshot, think = _snapshot(evidence), _think(evidence, more=bool(wanted))
    end = _call(evidence, wanted) if wanted else _final_answer(evidence)
    if dialect.name == "paired":
        return f"<Snapshot>\n{snapshot}</Snapshot>\n<Think>\n{think}{end}"
    return f"<snapshot>\n{snapshot}</snapshot>\n<think>\n{think}{end}"


def _call(evidence: Evidence, wanted: tuple[int, ...]) -> str:
    """From the end of the thinking on."""
    dialect = evidence.dialect
    if dialect.name == "paired":
        return f"</Think>\n{dialect.call(wanted)}"
    confidence = FIRST_CONFIDENCE if len(evidence.looks) == 1 else LATER_CONFIDENCE
    labels = f"{_labels(evidence.verdict)}, CF={confidence}"
    return f"</think>\n<recommend answer>{labels}</recommend answer>\n{dialect.call(wanted)}"


def _final_answer(evidence: Evidence) -> str:
    """From the end of the thinking on."""
    labels = _labels(evidence.verdict)
    if evidence.dialect.name == "paired":
        return f"</Think>\n<Answer>{labels}</Answer>"
    return f"</think>\n<final answer>{labels}</final answer>"


def _snapshot(evidence: Evidence) -> str:
    """What the frames of the last look show. First the prompt is restated, before anything is said of what was seen."""
    look = evidence.looks[-1]
    if len(evidence.looks) == 1:
        lines = [restate(evidence.pair.wanted)]
        for side, scene in evidence.pair.scenes.items():
            noted = "".join(_entry(frame) for frame in look if frame.side is side)
            lines.append(
                f"{describe(side, scene.facts)}: {noted}{phrases.SO_FAR}{_state(evidence, side)}.\n"
            )
        return "".join(lines)
    head = phrases.BOTH_VIDEOS if evidence.dialect.name == "paired" else phrases.ONE_LIST
    noted = "".join(_entry(frame, paired=evidence.dialect.name == "paired") for frame in look)
    states = [phrases.SO_FAR_OF.format(side=int(side)) + _state(evidence, side) for side in Side]
    return f"{head}{noted}{'; '.join(states)}.\n"


def _think(evidence: Evidence, *, more: bool) -> str:
    """Each dimension in one sentence, right behind its facts, and at last why more frames are needed."""
    labels = {dimension: int(label) for dimension, label in evidence.verdict if label is not None}
    lines = [compare_facts(evidence.pair)] if len(evidence.looks) == 1 else []
    wrong = [phrases.FACT_WORDS[count] for count in evidence.wrong.values()]
    lines.append(
        f"{phrases.alignment_head(evidence.dialect)}{wrong[0]} wrong, video 2 has{wrong[1]} wrong"
    )
    lines.append(phrases.better(labels[Dimension.TA], settled=True))
    for dimension, flaw, none in (
        (Dimension.VQ, evidence.picture_flaw, " is clear"),
        (Dimension.MQ, evidence.motion_flaw, f" {phrases.SMOOTHLY}"),
    ):
        flaws = [flaw(side) for side in Side]
        verb = " is" if dimension is Dimension.VQ else ""
        said = [f"{verb} {_at(each)}" if each else none for each in flaws]
        lines.append(f"{dimension.value}: video 1{said[0]}, video 2{said[1]}")
        lines.append(phrases.better(labels[dimension], settled=not more or None not in flaws))
    lines.append(_overall(labels, more=more))
    return "".join(lines) + (_why_more(evidence) + phrases.MORE if more else "")


def _overall(labels: dict[Dimension, int], *, more: bool) -> str:
    leads = ", ".join(
        f"{phrases.LEADS[labels[name]]}{topic}"
        for name, topic in zip(SUB_SCORES, phrases.TOPICS, strict=True)
    )
    return f"OA: {leads}{phrases.better(labels[Dimension.OA], settled=not more)}"


def _why_more(evidence: Evidence) -> str:
    if len(evidence.looks) == 1:
        return phrases.MAY_HIDE
    odd = [(side, evidence.odd_frames(side)) for side in Side if not evidence.settled(side)]
    return "".join(
        f"{phrases.NEAR.format(side=int(side))}#{frames[0].number}.\n"
        for side, frames in odd
        if frames
    )


def _entry(frame: SeenFrame, *, paired: bool = False) -> str:
    number = "video 2" if paired and frame.side is Side.SECOND else f"#{frame.number}"
    beside = [(each.number, each.places) for each in frame.beside]
    return phrases.entry(number, frame.places, beside, frame.state, frame.motion)


def _state(evidence: Evidence, side: Side) -> str:
    """Picture and motion of a video so far."""
    picture, motion = evidence.picture_flaw(side), evidence.motion_flaw(side)
    return f" {_at(picture) or 'clear'}, {_at(motion) or phrases.SMOOTHLY}"


def _at(flaw: Flaw | None) -> str:
    return f"{flaw.word} at #{flaw.number}" if flaw else ""


def _labels(verdict: Verdict) -> str:
    labels = dict(verdict)
    return ", ".join(
        f"{dimension.value}={int(labels[dimension] or 0)}" for dimension in ANSWER_ORDER
    )
