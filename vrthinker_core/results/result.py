"""What judging one pair gave: the little of its trace that scores, reports and lists are made from."""

from dataclasses import dataclass
from typing import Literal

from vrthinker_core.dialects.label_probabilities import verdict_probabilities
from vrthinker_core.errors import LASTING_FAULTS, describe
from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.types import Dimension, Run, Side, StopReason, Trace, Verdict
from vrthinker_core.types.events import Finished
from vrthinker_core.types.messages import LabelProbabilities
from vrthinker_core.types.order import OrderCheck, order_of
from vrthinker_core.types.wording import OUTSIDE_SCOPE

ROW_FAULT = "BrokenRow"  # The fault of a pair that was never judged
LEFT_OUT = "LeftOut"  # Stands in place of a fault where people could not say themselves
OUTSIDE_FAULT = (
    "OutsideScope"  # The fault of a pair that its judge cannot judge, however often it is asked
)
OUTSIDE_REASON = f"{OUTSIDE_SCOPE} Choose another judge."

MissingRule = Literal[
    "loses", "leave-out"
]  # What a ranking makes of a pair of which one video alone cannot be read


@dataclass(frozen=True, slots=True)
class PairResult:
    """One line of `results.jsonl`. Sides are those of the data set: 1 is the pair's first video, in the second order too."""

    pair: EvaluationPair
    judge: str
    stop: StopReason = StopReason.FAILED
    verdict: Verdict | None = None
    provisional: bool = False  # No final answer came: the verdict is the last recommended one
    forced: bool = False
    outside_scope: bool = False  # The judge cannot judge such videos: there is no verdict, and the pair counts as failed
    confidence: int | None = (
        None  # CF of the reply that gave the verdict, 1 to 5; None where it gave none
    )
    probabilities: dict[Dimension, LabelProbabilities] | None = None
    """Of a tie, of 1 and of 2, for each label of the verdict, where the judge tells them; they add up to at most 1."""
    swapped: Verdict | None = (
        None  # The verdict of the second order, mapped back; None where it was not judged or said nothing
    )
    turns: int = 0
    frames: int = 0  # Pictures shown to the judge, in both videos and all turns
    prompt_tokens: int = 0  # Of all turns, each as it was sent
    new_tokens: int = 0
    seconds: float = 0.0
    clip_seconds: tuple[float, float] | None = None  # Lengths of both videos
    error: str = ""  # What went wrong and what to do
    fault: str = ""  # Name of the error, ROW_FAULT for a broken row; "" when nothing failed
    trace: str = ""  # File of the whole run, relative to the folder of the results
    unreadable: tuple[
        Side, ...
    ] = ()  # Videos that are missing or cannot be decoded, if that is why it failed
    format: Literal["vr-thinker-result/1"] = "vr-thinker-result/1"

    @property
    def judged(self) -> bool:
        """The run came to its own end; a pair that failed, or a broken row, says nothing about the judge."""
        return not self.fault and self.stop not in (StopReason.FAILED, StopReason.CANCELLED)

    @property
    def has_verdict(self) -> bool:
        """The judge said at least one label."""
        return self.judged and self.verdict is not None and bool(self.verdict.labels)

    @property
    def unreadable_generator(self) -> str:
        """Whose video alone cannot be read; "" if both can be, or neither."""
        if len(self.unreadable) != 1:
            return ""
        return (
            self.pair.first_generator
            if self.unreadable[0] is Side.FIRST
            else self.pair.second_generator
        )

    @property
    def left_out(self) -> bool:
        """The row is not judged although nothing is wrong with it: this is no failure."""
        return self.fault == LEFT_OUT

    @property
    def is_transient(self) -> bool:
        """It failed in a way that may not come again: the judge or its server stopped, a process died. It is judged once more."""
        return self.stop is StopReason.CANCELLED or self.fault not in (
            "",
            ROW_FAULT,
            LEFT_OUT,
            OUTSIDE_FAULT,
            *LASTING_FAULTS,
        )

    @property
    def order(self) -> OrderCheck | None:
        """Both orders compared; None unless both gave a verdict."""
        return (
            None
            if self.verdict is None or self.swapped is None
            else OrderCheck(self.verdict, self.swapped)
        )

    @property
    def flips(self) -> tuple[Dimension, ...]:
        """The dimensions without a reliable winner: swapping the sides changed it."""
        return self.order.flips if self.order else ()


def broken_row(pair: EvaluationPair, judge: str) -> PairResult:
    """The result of a row that cannot be judged, or is left out."""
    gone = tuple(
        side for side, path in zip(Side, (pair.first, pair.second), strict=True) if not path
    )
    fault = ROW_FAULT if pair.fault else LEFT_OUT
    return PairResult(pair, judge, error=pair.fault or pair.left_out, fault=fault, unreadable=gone)


def failed_result(pair: EvaluationPair, judge: str, error: Exception) -> PairResult:
    """The result of a pair that an error ended before there was a run."""
    return PairResult(pair, judge, error=describe(error), fault=type(error).__name__)


def result_of(pair: EvaluationPair, trace: Trace, file: str = "") -> PairResult:
    """The result of a run that has ended; `file` is where its trace is kept."""
    end = trace.finished or Finished(StopReason.CANCELLED)
    check = order_of(trace.runs)
    first, second = trace.started.clips
    return PairResult(
        pair,
        trace.started.judge,
        end.stop,
        end.verdict,
        end.provisional,
        end.forced,
        end.outside_scope,
        confidence=_confidence(trace, end),
        probabilities=verdict_probabilities(trace.turns, end.verdict) or None,
        swapped=check.second if check else None,
        turns=len(trace.turns),
        frames=sum(len(turn.frames) for turn in trace.turns),
        prompt_tokens=sum(turn.completion.prompt_tokens or 0 for turn in trace.turns),
        new_tokens=sum(turn.completion.new_tokens or 0 for turn in trace.turns),
        seconds=end.seconds,
        clip_seconds=(first.seconds, second.seconds) if first and second else None,
        error=OUTSIDE_REASON if end.outside_scope else end.error,
        fault=OUTSIDE_FAULT if end.outside_scope else end.fault,
        trace=file,
        unreadable=end.unreadable,
    )


def _confidence(run: Run, end: Finished) -> int | None:
    """Of the last reply that gave the labels of the verdict."""
    given = [
        turn.reply.confidence
        for turn in run.turns
        if end.verdict and turn.reply.verdict == end.verdict
    ]
    return given[-1] if given else None
