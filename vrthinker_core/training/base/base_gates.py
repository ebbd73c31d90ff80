"""What the parts of the base must read right before judging is taught: least shares on unseen pictures and conversations."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated

from annotated_types import Ge, Le

GateShare = Annotated[float, Ge(0), Le(1)]


@dataclass(frozen=True, slots=True)
class VisionGates:
    """Shares of unseen frames read right by the vision tower."""

    colour: GateShare = 0.97
    shape: GateShare = 0.96  # Where the picture is clear
    state: GateShare = 0.97  # Of the picture: clear, or how it is damaged
    place: GateShare = 0.92  # Within 3 % of the picture, the middle of a group too


@dataclass(frozen=True, slots=True)
class LanguageGates:
    """Shares of tokens of unseen conversations predicted right by the language model."""

    rare_motion: GateShare = 0.9  # Of frames that do not move on as usual
    damage: GateShare = 0.95  # Of frames whose picture is damaged
    words: GateShare = 0.97  # Colours, shapes, counts and directions


def missed_gates(report: Mapping[str, float], gates: VisionGates | LanguageGates) -> list[str]:
    """The figures of a report that are below their gate; what the report does not say is."""
    least = {name.replace("_", " "): share for name, share in asdict(gates).items()}
    return [name for name, share in least.items() if report.get(name, 0.0) < share]
