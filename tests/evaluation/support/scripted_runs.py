"""Evaluations by a script whose answer follows from the pair, over real clips."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.support.engines import BatchScript
from tests.support.small_clips import write_clip
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.errors import BackendFailed, BackendRefused
from vrthinker_core.results.layout import EvaluationPair, pair_id
from vrthinker_core.results.result import EvaluationRun, PairResult, pairs_digest
from vrthinker_core.types import Preference, Settings, StopReason, Verdict
from vrthinker_core.types.messages import Message


def write_table(folder: Path, rows: int, *, broken: Sequence[int] = ()) -> Path:
    """A table of pairs of two clips, each row with a prompt of its own; rows of these numbers name a file that is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    write_clip(folder / "a.mp4", 8, 32, 32)
    write_clip(folder / "b.mp4", 8, 32, 32, hue=80)
    files = ["gone" if n in broken else "b" for n in range(1, rows + 1)]
    lines = [f"a.mp4,{b}.mp4,Prompt {n},{n % 3},{n % 2}" for n, b in enumerate(files, start=1)]
    path = folder / "pairs.csv"
    path.write_text("\n".join(["video1,video2,prompt,TA,OA", *lines, ""]))
    return path


def made_pairs(number: int) -> list[EvaluationPair]:
    """Pairs whose videos nobody opens."""
    names = [(f"Prompt {n}", f"a{n}.mp4", f"b{n}.mp4") for n in range(1, number + 1)]
    labels = [Verdict(OA=Preference(n % 3)) for n in range(1, number + 1)]
    return [
        EvaluationPair(
            pair_id(*names[n]), n + 1, *names[n], labels[n], "Sora", f"model {n % 4}", "", ""
        )
        for n in range(number)
    ]


def run_description(
    pairs: Sequence[EvaluationPair], judge: str = "scripted", settings: Settings = Settings()
) -> EvaluationRun:
    """What a run over these pairs is."""
    return EvaluationRun("csv", "pairs.csv", len(pairs), pairs_digest(pairs), judge, settings)


def answer(text: str) -> str:
    """A whole reply whose labels follow from the text."""
    told = hashlib.sha256(text.encode()).digest()
    labels = ", ".join(f"{name}={told[n] % 3}" for n, name in enumerate(("TA", "MQ", "VQ", "OA")))
    return f"<Snapshot>s</Snapshot><Think>t</Think><Answer>{labels}</Answer>"


def scripted_judge(*, batch: bool = False, pause: float = 0.001) -> ScriptedBackend:
    """Answers from the prompt; "fails" and "refused" in it make it fail."""
    return (BatchScript if batch else ScriptedBackend)(_reply, pause=pause)


def _reply(messages: Sequence[Message]) -> str | BackendFailed:
    text = messages[1].text
    if "refused" in text:
        return BackendRefused("The judge will not answer this.")
    return BackendFailed("The judge's process ended.") if "fails" in text else answer(text)


def made_result(pair: EvaluationPair) -> PairResult:
    """A result such as an engine gives, without a run."""
    label = Preference(int(pair.id[0], 16) % 3)
    verdict = Verdict(label, label, label, label)
    told = {"confidence": 4, "trace": f"traces/{pair.id}.json", "clip_seconds": (5.0, 6.0)}
    cost = {"turns": 2, "frames": 24, "prompt_tokens": 4000, "new_tokens": 300, "seconds": 2.5}
    return PairResult(pair, "scripted", StopReason.ANSWERED, verdict, **told, **cost)  # type: ignore[arg-type]


def made_results(pairs: Iterable[EvaluationPair]) -> Iterator[PairResult]:
    """An engine that opens nothing."""
    return map(made_result, pairs)
