"""`run.json`: the identity of an evaluation. Results of two never mix in one folder."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from vrthinker_core.__about__ import __version__
from vrthinker_core.backends.judge_name import parse_judge
from vrthinker_core.errors import BadInput
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.storage import type_adapter, write_atomically
from vrthinker_core.types import Settings

RUN = "run.json"  # beside the results


@dataclass(frozen=True, slots=True)
class RunStart:
    """One start of an evaluation: the first one or a resumed one."""

    at: str  # time in UTC, ISO 8601
    engine: str
    concurrency: int
    limit: int | None
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """Data set, judge and settings of an evaluation. Only the starts of a run may differ."""

    dataset: str  # layout of the data set
    path: str  # its place at the start
    pairs: int  # number in the whole data set
    digest: str  # of all pairs and their labels, independent of row order and video folder
    judge: str  # as chosen, with absolute paths
    settings: Settings
    starts: tuple[RunStart, ...] = ()
    format: Literal["vr-thinker-evaluation/1"] = "vr-thinker-evaluation/1"

    def difference(self, other: "EvaluationRun") -> str:
        """Return the difference from another run in words, "" if the same."""
        if (self.dataset, self.digest) != (other.dataset, other.digest):
            same = (self.dataset, self.path) == (other.dataset, other.path)
            before = " as it was before its rows changed" if same else ""
            return f"the data set {self.path} ({self.dataset}, {self.pairs:,} rows){before}"
        # Earlier versions stored relative paths.
        if resolved_judge(self.judge) != resolved_judge(other.judge):
            return f"the judge {self.judge}"
        its = asdict(other.settings)
        others = [
            f"{name} {'left to the protocol' if value is None else value}"
            for name, value in asdict(self.settings).items()
            if value != its[name]
        ]
        return f"the settings {', '.join(others)}" if others else ""


def resolved_judge(choice: str) -> str:
    """Return the judge's name with absolute paths. An unreadable name stays as it is."""
    try:
        return str(parse_judge(choice).absolute())
    except BadInput:
        return choice


def read_run(folder: Path) -> EvaluationRun:
    """Read the evaluation of a folder; raises `BadInput` if there is none."""
    from pydantic import ValidationError

    try:
        return type_adapter(EvaluationRun).validate_json((folder / RUN).read_bytes())
    except OSError:
        raise BadInput(f"{folder} holds no evaluation.") from None
    except ValidationError:
        raise BadInput(f"{folder / RUN} describes no evaluation that is known here.") from None


def write_run(folder: Path, run: EvaluationRun) -> None:
    """Write the description into the folder; raises `OSError`."""
    write_atomically(folder / RUN, type_adapter(EvaluationRun).dump_json(run, indent=1) + b"\n")


def pairs_digest(pairs: Iterable[EvaluationPair], *, ordered: bool = False) -> str:
    """Return the digest of the pairs and labels of a data set.

    Independent of the videos' folder, and of the row order unless `ordered`.
    """
    lines = [f"{pair.id} {pair.labels.labels}" for pair in pairs]
    return hashlib.sha256("\n".join(lines if ordered else sorted(lines)).encode()).hexdigest()


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of packages that affect results."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "vrthinker": __version__}
    for name in ("torch", "transformers", "av", "openai", "ray"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
