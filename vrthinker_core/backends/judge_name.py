"""JudgeName: the only parser of judge names, `KIND:WHAT?option=value&...`."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import parse_qsl, urlsplit

from vrthinker_core.__about__ import ASSETS
from vrthinker_core.backends.registry import JUDGES
from vrthinker_core.errors import BadInput
from vrthinker_core.types import ProtocolName
from vrthinker_core.words import encodable

Bits = Literal["4bit", "8bit"]

JUDGE_FORMS = ", or ".join(", ".join(each.form for each in JUDGES.values()).rsplit(", ", 1))
"""Every form of a name, for `--help` and for errors."""

SERVER_FORM = "server:URL#MODEL, for example server:http://localhost:8000/v1#qunwang13/vrthinker"

DEFAULT_CHECKPOINT = "qunwang13/vrthinker"
"""Hub id of the published 7B checkpoint, the default on a GPU with room for it."""

NANO = ASSETS / "nano"
NANO_NAME = "nano (built in)"

NANO_LIMITS = (
    "It understands only simple drawn scenes like the examples. "
    "For real videos choose another judge."
)
"""A part of every note about the built-in judge."""

NANO_NOTE = f"Demo judge. {NANO_LIMITS}"

HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")

_OPTIONS: dict[str, tuple[str, str]] = {
    "quantize": (r"4bit|8bit", "4bit or 8bit"),
    "device": (r"cuda(?::\d{1,3})?|mps|xpu(?::\d{1,3})?|cpu", "cuda, mps, xpu or cpu"),
    "protocol": ("|".join(get_args(ProtocolName)), "paired or concat"),
}
"""For each option: its values as a pattern, and in words."""


@dataclass(frozen=True, slots=True)
class JudgeName:
    """The parsed name of a judge."""

    kind: str  # A key of `JUDGES`
    what: str = ""  # Folder or hub id, address, model of a host, or file; "" for nano
    model: str = ""  # Model of a server; "" for its only one
    quantize: Bits | None = None
    device: str | None = None
    protocol: ProtocolName | None = None  # The protocol that a served model was trained for

    @property
    def title(self) -> str:
        """Display name before opening; never a path, a user or a password."""
        match self.kind:
            case "nano":
                return NANO_NAME
            case "hf":
                # A hub id as it is, or the title of a folder
                is_id = HUB_ID.fullmatch(self.what) and not os.path.exists(self.what)  # noqa: PTH110 - never raises
                shown = self.what if is_id else folder_title(Path(self.what))
                return shown + (f" ({self.quantize})" if self.quantize else "")
            case "scripted":
                return Path(self.what).stem or "script"
            case "python":
                return self.what.replace(":", ".")
            case "server":
                return model_title(self.model) or urlsplit(self.what).netloc
            case _:
                return model_title(self.what) or self.kind

    def __str__(self) -> str:
        """Return the name as a person writes it."""
        options = "&".join(f"{name}={value}" for name in _OPTIONS if (value := getattr(self, name)))
        what = f":{self.what}" if self.what else ""
        model = f"#{self.model}" if self.model else ""
        return f"{self.kind}{what}{model}" + (f"?{options}" if options else "")

    def absolute(self) -> JudgeName:
        """Return the same judge with an absolute path, if the path exists."""
        path = Path(self.what)
        if self.kind not in ("hf", "scripted") or not path.exists():
            return self
        return replace(self, what=encodable(str(path.resolve())))


def parse_judge(text: str) -> JudgeName:
    """Read a judge's name; raise `BadInput`, which holds no secret."""
    kind, colon, rest = text.strip().partition(":")
    head, _, query = kind.partition("?")
    if not colon and head in JUDGES and ":" not in JUDGES[head].form.split()[0]:
        return _with_options(JudgeName(head), query)
    if head != kind or kind not in JUDGES or kind == "nano" or not rest:
        raise _no_judge(text.strip())
    if kind == "python" and not re.fullmatch(r"[\w.]+:\w+", rest):
        raise BadInput("Write python:MODULE:ATTRIBUTE, for example python:my_judge:judge.")
    if kind in ("scripted", "python"):
        return JudgeName(kind, rest)
    if kind == "server":
        return _server(rest)
    what, _, query = rest.partition("?")
    if not what.strip():
        raise _no_judge(text.strip())
    return _with_options(JudgeName(kind, what.strip()), query)


def _no_judge(text: str) -> BadInput:
    """Return the refusal of a name, with what was meant."""
    # Options and addresses may hold secrets, so they are not repeated
    shown, host = text.partition("?")[0][:80], r"(https?:|\[|[\w.-]+:\d+($|[/#]))"
    kind, _, rest = shown.partition(":")
    is_address = "://" in text or "@" in text
    near = difflib.get_close_matches(kind.lower(), JUDGES, 1, 0.7)
    way = f"Choose {JUDGE_FORMS}."
    if re.match(host, text) or near == ["server"]:
        way = f"Did you mean {SERVER_FORM}?"
    elif os.path.isdir(os.path.expanduser(shown)) or HUB_ID.fullmatch(shown):  # noqa: PTH111, PTH112 - never raise
        way = f"Did you mean hf:{shown}?"
    elif shown.startswith("gpt-"):
        way = f"Did you mean openai:{shown}?"
    elif near:
        form = (re.findall(rf"\b{near[0]}(?::[^\s,]+)?", JUDGE_FORMS) or near)[0]
        repeats = ":" in form and rest.strip() and not is_address
        way = f"Did you mean {f'{near[0]}:{rest}' if repeats else form}?"
    return BadInput(f"There is no {'such judge' if is_address else f'judge {shown!r}'}. {way}")


def judge_title(text: str) -> str:
    """Return a display name for any text, never a path or password."""
    try:
        return parse_judge(text).title
    except BadInput:
        kind = text.partition(":")[0]
        return kind if kind in JUDGES else re.split(r"[/@:]", text)[-1] or "judge"


def _server(rest: str) -> JudgeName:
    """Parse `URL#MODEL?protocol=NAME`; everything but the URL is optional."""
    url, names_model, behind = rest.partition("#")
    model, _, query = behind.partition("?")
    if not names_model:
        url, _, query = url.partition("?")
    if "@" in url:
        raise BadInput(
            "The address of a server must not hold a user or a password. "
            "Put the key into VRTHINKER_API_KEY."
        )
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise BadInput(f"This is no address of a server. Write {SERVER_FORM}.")
    if parts.query:
        raise BadInput(
            "The address of a server must not hold a query: "
            f"options stand behind the model, {SERVER_FORM}?protocol=paired."
        )
    return _with_options(JudgeName("server", url.rstrip("/"), model.strip()), query)


def _with_options(judge: JudgeName, query: str) -> JudgeName:
    pairs = parse_qsl(query, keep_blank_values=True)
    if query and (not pairs or len(dict(pairs)) != len(pairs)):
        raise BadInput(
            f"The options of {judge.kind} cannot be read: write ?option=value&option=value."
        )
    for name, value in pairs:
        known = JUDGES[judge.kind].options
        if name not in known:
            takes = f"It takes {' and '.join(known)}" if known else "It takes none"
            raise BadInput(f"A judge of the kind {judge.kind} has no such option. {takes}.")
        if not re.fullmatch(_OPTIONS[name][0], value):
            raise BadInput(f"The option {name} has an unknown value: write {_OPTIONS[name][1]}.")
    chosen: dict[str, Any] = dict(pairs)  # Each value matches its pattern
    return replace(judge, **chosen)


def model_title(model: str) -> str:
    """Return a model's id, or the last part of a path id."""
    return model.rstrip("/").rpartition("/")[2] if model.startswith(("/", ".", "~")) else model


def folder_title(folder: Path) -> str:
    """Return the folder's name, or the hub id of a cached one."""
    path = folder.absolute()
    if path.parent.name != "snapshots":
        return path.name
    return path.parent.parent.name.removeprefix("models--").replace("--", "/")
