"""`run.json`: what an evaluation is, so that its folder is read rightly and never mixed with another one."""

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from vrthinker_core.__about__ import __version__
from vrthinker_core.backends.judge_name import parse_judge
from vrthinker_core.errors import BadInput
from vrthinker_core.files.atomic_file import write_atomically
from vrthinker_core.files.type_adapter import type_adapter
from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.types import Settings

RUN = "run.json"  # Beside the results
PACKAGES = (
    "torch",
    "transformers",
    "av",
    "openai",
    "ray",
)  # Whose versions are kept, where they are installed


@dataclass(frozen=True, slots=True)
class RunStart:
    """One start of an evaluation: the first, or one that went on."""

    at: str  # Time in UTC, ISO 8601
    engine: str
    concurrency: int
    limit: int | None
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """What was judged, by whom, and how. Two runs are the same where these agree; only their starts may differ."""

    dataset: str  # The layout
    path: str  # Where it lay
    pairs: int  # Of the whole data set
    digest: str  # Of all pairs with people's labels, whatever the order of the rows and wherever the videos lie
    judge: str  # As it was chosen, a path in it absolute
    settings: Settings
    starts: tuple[RunStart, ...] = ()
    format: Literal["vr-thinker-evaluation/1"] = "vr-thinker-evaluation/1"

    def difference(self, other: "EvaluationRun") -> str:
        """What differs between the two, "" where they are the same run."""
        if self.dataset != other.dataset or self.digest != other.digest:
            changed = (self.dataset, self.path) == (other.dataset, other.path)
            return f"the data set {self.path} ({self.dataset}, {self.pairs:,} rows){' as it was before its rows changed' * changed}"
        if resolved_judge(self.judge) != resolved_judge(
            other.judge
        ):  # earlier versions kept a relative path
            return f"the judge {self.judge}"
        mine, its = asdict(self.settings), asdict(other.settings)
        others = [
            f"{name} {'left to the protocol' if value is None else value}"
            for name, value in mine.items()
            if value != its[name]
        ]
        return f"the settings {', '.join(others)}" if others else ""


def resolved_judge(choice: str) -> str:
    """The same for the same judge, whichever folder it is named from; a name that cannot be read stays as it is."""
    try:
        return str(parse_judge(choice).absolute())
    except BadInput:
        return choice


def read_run(folder: Path) -> EvaluationRun:
    """What the evaluation in a folder is. Raises BadInput where there is none."""
    from pydantic import ValidationError

    try:
        return type_adapter(EvaluationRun).validate_json((folder / RUN).read_bytes())
    except OSError:
        raise BadInput(f"{folder} holds no evaluation.") from None
    except ValidationError:
        raise BadInput(f"{folder / RUN} describes no evaluation that is known here.") from None


def write_run(folder: Path, run: EvaluationRun) -> None:
    """Keep it. Raises OSError."""
    write_atomically(folder / RUN, type_adapter(EvaluationRun).dump_json(run, indent=1) + b"\n")


def pairs_digest(pairs: Iterable[EvaluationPair], *, ordered: bool = False) -> str:
    """The digest of a data set: equal for equal pairs with equal labels, wherever the videos lie; `ordered` in the same order."""
    lines = [f"{pair.id} {pair.labels.labels}" for pair in pairs]
    return hashlib.sha256("\n".join(lines if ordered else sorted(lines)).encode()).hexdigest()


def installed_versions() -> dict[str, str]:
    """Of Python, of this package and of the others that have a say in the results."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "vrthinker": __version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
