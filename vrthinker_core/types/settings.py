"""The one table of settings for command line, page, API and MCP."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeGuard, TypeVar, cast

from annotated_types import Interval

from vrthinker_core.errors import BadInput

T = TypeVar("T")

MAX_NUMBER = 2**53 - 1  # JavaScript and JSON hold it exactly
MAX_TURNS = 64

Natural = Annotated[int, Interval(ge=0, le=MAX_NUMBER)]  # For counts and indices
Amount = Annotated[float, Interval(ge=0, le=MAX_NUMBER)]  # Neither NaN nor infinite


@dataclass(frozen=True)
class AtMost:
    """A limit on a list's length. Validation stops at the first wrong item."""

    items: int

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return handler(source) | {"max_length": self.items, "fail_fast": True}


Few = Annotated[tuple[T, ...], AtMost(1024)]
PerFrame = Annotated[tuple[T, ...], AtMost(256)]
PerToken = Annotated[tuple[T, ...], AtMost(65_536)]


# The two published prompt protocols; each checkpoint was trained for one
ProtocolName = Literal["concat", "paired"]

Preset = Literal["card", "clean", "paper", "paper-rapidata", "paper-mj-bench-video"]

SettingValue = str | int | float | None

OWN = "own"  # A form's word for None: the protocol's own value


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that a person chose; None means the protocol's own default."""

    protocol: Literal["auto", "concat", "paired"] = "auto"
    window: int | Literal["all"] | None = None
    max_turns: int | None = None
    frames_per_call: int | None = None
    max_new_tokens: int = 2048
    temperature: Amount = 0.0
    seed: int = 0
    preset: Preset = "card"
    opening: Literal["training", "card"] = "training"
    total: int = 96
    fit: Literal["squash", "letterbox"] = "squash"
    swap: Literal["off", "on"] = "off"
    frames: Literal["asked", "random"] = "asked"
    opening_frames: int = 8

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value that `SETTINGS` does not allow."""
        for row in SETTINGS:
            row.check(getattr(self, row.name))


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the table of settings."""

    name: str  # The field of `Settings`
    label: str
    help: str
    # Allowed words, each with its label in a form
    words: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[int, int | None] = (0, None)  # Of allowed numbers
    even: bool = False
    # Numbers that a form offers; others of their type within the limits may be typed
    offered: tuple[int | float, ...] = ()
    names: Mapping[float, str] = field(default_factory=dict)  # Labels of offered numbers
    protocol: ProtocolName | None = None  # The only protocol that uses the setting
    on_page: bool = True  # Otherwise for experiments: only command line and Python have it

    @property
    def default(self) -> SettingValue:
        """The value if nobody chose; None is the protocol's own value."""
        return cast(SettingValue, Settings.__dataclass_fields__[self.name].default)

    @property
    def number(self) -> type[int] | type[float] | None:
        """The type of allowed numbers; None if only words are allowed."""
        return type(self.offered[0]) if self.offered else None

    @property
    def is_switch(self) -> bool:
        """Whether the setting is off or on. On the command line it has no value."""
        return tuple(self.words) == ("off", "on")

    @property
    def range(self) -> str:
        """The allowed values: "all, or a whole number from 0 up"."""
        words = ", ".join(self.words)
        if self.number is None:
            return f"one of {words}"
        kind = "a whole number" if self.number is int else "a number"
        least, most = self.limits
        end = "up" if most is None else f"to {most}"
        numbers = f"{'an even number' if self.even else kind} from {least} {end}"
        return f"{words}, or {numbers}" if words else numbers

    def parse(self, value: object) -> SettingValue:
        """Parse the value that a person gave as text or number.

        None, "" and `OWN` give the default. Raises `BadInput` for a value out of the range.
        """
        if value is None or value in ("", OWN):
            return self.default
        if isinstance(value, bool) and self.is_switch:
            return "on" if value else "off"
        found = value
        if isinstance(value, str) and value not in self.words and self.number is not None:
            with suppress(ValueError):
                found = self.number(value) if len(value) <= 100 and value.isascii() else value
        if self.number is int and isinstance(found, float) and found.is_integer():
            found = int(found)  # JSON has one kind of number, and some programs write 3 as 3.0
        self.check(found)
        return found  # type: ignore[return-value]

    def check(self, value: object, maximum: int | None = None) -> None:
        """Raise `BadInput` outside the range, or above a protocol's smaller `maximum`."""
        if value is None and self.default is None:
            return
        if isinstance(value, str) and value in self.words:
            return
        least, most = self.limits
        most, wanted = most if maximum is None else maximum, f"be {self.range}"
        if _is_number(value, self.number):
            if most is None and value > MAX_NUMBER:
                most = MAX_NUMBER
            if most is not None and not least <= value <= most:
                wanted = f"lie between {least} and {most}"
            elif value >= least and not (self.even and value % 2):
                return
        try:
            given = " ".join(repr(value)[:40].split())
        except ValueError:  # Python prints no longer number
            given = "a number of more than 4,300 digits"
        raise BadInput(f'The setting "{self.label}" must {wanted}; it is {given}.')


def _is_number(value: object, kind: type[int] | type[float] | None) -> TypeGuard[int | float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(value, int):
        return kind is not None
    return kind is float and math.isfinite(value)


SETTINGS = (
    Setting(
        "protocol",
        "Protocol",
        "How frames are numbered and asked for. Automatic takes what the judge was trained for.",
        {"auto": "Automatic", "paired": "paired", "concat": "concat"},
    ),
    Setting(
        "window",
        "Memory window",
        "How many of its past requests the judge still sees.",
        {"all": "Keep everything"},
        offered=(0, 1, 2, 3),
        names={0: "Forget at once", 1: "1 round", 2: "2 rounds", 3: "3 rounds"},
    ),
    Setting(
        "max_turns",
        "Turns",
        "Maximum replies in one run. On the last turn the judge is asked to answer.",
        limits=(1, 32),
        offered=(1, 2, 3, 4, 6, 8, 12),
    ),
    Setting(
        "frames_per_call",
        "Frames per call",
        "Maximum frame indices in one request.",
        limits=(1, 12),
        offered=(1, 2, 4, 6, 8, 12),
    ),
    Setting(
        "max_new_tokens",
        "Tokens per reply",
        "Maximum tokens of one reply. A longer reply is cut off.",
        limits=(1, 32_768),
        offered=(256, 512, 1024, 2048, 4096, 8192),
    ),
    Setting(
        "temperature",
        "Temperature",
        "0 always takes the likeliest token, as in the paper's evaluation; higher values sample.",
        limits=(0, 2),
        offered=(0.0, 0.3, 0.7, 1.0),
    ),
    Setting(
        "seed",
        "Seed",
        "Equal seeds sample equal replies; without effect at temperature 0.",
        limits=(0, 2**31 - 1),
        offered=(0, 1, 2, 3),
    ),
    Setting(
        "preset",
        "Prompt wording",
        "The model card's wording, byte for byte, or with its four slips mended, or the paper's with "
        "the dimensions as VideoGen-Reward or another data set explains them.",
        {
            "card": "As on the card",
            "clean": "Slips mended",
            "paper": "As in the paper",
            "paper-rapidata": "As in the paper, for Rapidata",
            "paper-mj-bench-video": "As in the paper, for MJ-Bench-Video",
        },
        protocol="concat",
    ),
    Setting(
        "opening",
        "First frames",
        "How the first frames are chosen and packed: as the judge was trained, or as its model "
        "card does, with the nearest frames of the list.",
        {"training": "As trained", "card": "As on the card"},
        protocol="concat",
    ),
    Setting(
        "total",
        "Frames in the list",
        "N, the length of the one list of frames over both videos.",
        limits=(16, 1024),
        even=True,
        offered=(64, 96, 128),
        protocol="concat",
    ),
    Setting(
        "fit",
        "Frame shape",
        "How a frame becomes 448 x 448 pixels: squashed, as the judge was trained, or letterboxed.",
        {"squash": "Squashed", "letterbox": "Letterboxed"},
        protocol="paired",
    ),
    Setting(
        "swap",
        "Swap test",
        "After its verdict the judge compares the pair again with the sides swapped, to see "
        "whether it says the same.",
        {"off": "Off", "on": "On"},
    ),
    Setting(
        "frames",
        "Frames of a call",
        "The frames that a call asks for, or as many drawn at random: a control that tells whether "
        "looking matters.",
        {"asked": "As asked for", "random": "Drawn at random"},
        on_page=False,
    ),
    Setting(
        "opening_frames",
        "Number of first frames",
        "How many frames of both videos together are shown before the first turn, a multiple of 4.",
        limits=(4, 256),
        even=True,
        offered=(8, 32),
        protocol="concat",
        on_page=False,
    ),
)
"""Every field of `Settings`, in the order of a form."""

PAGE_SETTINGS = tuple(row for row in SETTINGS if row.on_page)
"""The rows that page, API and MCP offer."""

Settings.__doc__ = f"{Settings.__doc__}\n\nAttributes:\n" + "\n".join(
    f"    {row.name}: {row.help} ({row.range})" for row in SETTINGS
)


def setting(name: str) -> Setting:
    """Return the row with this name, or raise `KeyError`."""
    return {row.name: row for row in SETTINGS}[name]


def parse_settings(chosen: Mapping[str, object]) -> Settings:
    """Build settings from a visitor's values by name, as text or numbers.

    A missing name gets the default. Raises `BadInput` for an unknown name or a value out of range.
    """
    names = [row.name for row in PAGE_SETTINGS]
    if unknown := chosen.keys() - set(names):
        raise BadInput(
            f"There is no setting {min(map(str, unknown))[:40]!r}. There are {', '.join(names)}."
        )
    values: dict[str, Any] = {row.name: row.parse(chosen.get(row.name)) for row in PAGE_SETTINGS}
    return Settings(**values)
