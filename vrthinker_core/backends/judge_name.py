"""Judges: every kind, and `JudgeName`, the only parser of `KIND:WHAT?option=value&...`."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import parse_qsl, urlsplit

from vrthinker_core.__about__ import ASSETS
from vrthinker_core.errors import BadInput
from vrthinker_core.types import ProtocolName
from vrthinker_core.words import encodable

Bits = Literal["4bit", "8bit"]
JudgeGroup = Literal["demo", "local", "servers", "hosted"]


@dataclass(frozen=True, slots=True)
class Host:
    """A host with an OpenAI-compatible API."""

    name: str
    url: str
    key: str  # Environment variable that holds the key
    keys_at: str  # Address of the page that gives out keys
    first: tuple[str, ...]  # Patterns of models to offer first, a good one for little money before
    sees: str = ""  # Pattern of models that take pictures, where the list does not say so
    tries_key_at: str = ""  # Path that refuses a wrong key, where the list of models is public


FACTORY = "vrthinker_core.backends.factory:open_"


@dataclass(frozen=True, slots=True)
class JudgeEntry:
    """A kind of judge. Another kind takes one entry, and what `opens` names."""

    form: str  # What to write behind --judge
    opens: str  # "MODULE:FUNCTION" from a JudgeName and a display name (or None) to a Backend
    group: JudgeGroup | None = None  # Where the page offers it; None: only --judge does
    options: tuple[str, ...] = ()  # What may stand behind "?"
    served: bool = False  # A server generates the replies, many at once
    host: Host | None = None


def _served(form: str, group: JudgeGroup | None, host: Host | None = None) -> JudgeEntry:
    return JudgeEntry(form, f"{FACTORY}served", group, ("protocol",), served=True, host=host)


OPENAI = Host(
    "OpenAI",
    "https://api.openai.com/v1",
    "OPENAI_API_KEY",
    "https://platform.openai.com/api-keys",
    (r"gpt-5-mini", r"gpt-4\.1-mini", r"gpt-4o-mini"),
    r"(gpt-(4o|4\.1|[5-9])|o[3-9])(?!.*(audio|realtime|transcribe|tts|search|image|codex))",
)
GEMINI = Host(
    "Gemini",
    "https://generativelanguage.googleapis.com/v1beta/openai",
    "GEMINI_API_KEY",
    "https://aistudio.google.com/apikey",
    (r"models/gemini-[\d.]+-flash", r"models/gemini-[\d.]+-flash-lite"),
    r"models/gemini-(?!.*(embedding|tts|image|audio|live|robotics))",
)
OPENROUTER = Host(
    "OpenRouter",
    "https://openrouter.ai/api/v1",
    "OPENROUTER_API_KEY",
    "https://openrouter.ai/keys",
    (r"qwen/qwen3-vl-.*instruct", r"qwen/qwen2\.5-vl-.*instruct", r"google/gemini-.*-flash"),
    tries_key_at="key",
)
HUGGING_FACE = Host(
    "Hugging Face",
    "https://router.huggingface.co/v1",
    "HF_TOKEN",
    "https://huggingface.co/settings/tokens, with the right to call Inference Providers",
    (r"Qwen/Qwen3-VL-.*Instruct", r"Qwen/Qwen2\.5-VL-.*Instruct"),
)

JUDGES: dict[str, JudgeEntry] = {
    "nano": JudgeEntry("nano (the demo judge)", f"{FACTORY}model", "demo"),
    "hf": JudgeEntry(
        "hf:ID_OR_FOLDER (?quantize=4bit or 8bit, ?device=cuda, mps, xpu or cpu)",
        f"{FACTORY}model",
        "local",
        ("quantize", "device"),
    ),
    "server": _served("server:URL#MODEL (?protocol=paired or concat)", None),
    "local": _served("local (a server on this machine)", "servers"),
    "openai": _served("openai:MODEL", "hosted", OPENAI),
    "gemini": _served("gemini:MODEL", "hosted", GEMINI),
    "openrouter": _served("openrouter:MODEL", "hosted", OPENROUTER),
    "hf-inference": _served("hf-inference:MODEL", "hosted", HUGGING_FACE),
    "scripted": JudgeEntry("scripted:FILE", f"{FACTORY}script"),
    "python": JudgeEntry("python:MODULE:ATTRIBUTE (a Backend of your own)", f"{FACTORY}own"),
}
"""Every kind by its name, in the order of `--help`."""

JUDGE_FORMS = ", or ".join(", ".join(each.form for each in JUDGES.values()).rsplit(", ", 1))
SERVER_FORM = "server:URL#MODEL, for example server:http://localhost:8000/v1#qunwang13/vrthinker"

DEFAULT_CHECKPOINT = "qunwang13/vrthinker"  # The published 7B, on a GPU with room for it
NANO = ASSETS / "nano"
NANO_NAME = "nano (built in)"
NANO_LIMITS = (
    "It understands only simple drawn scenes like the examples. "
    "For real videos choose another judge."
)
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
        form = JUDGES[near[0]].form.split()[0]
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


def host_of(kind: str) -> Host | None:
    """Return the host of a kind; None for any other kind."""
    return JUDGES[kind].host if kind in JUDGES else None


def model_title(model: str) -> str:
    """Return a model's id, or the last part of a path id."""
    return model.rstrip("/").rpartition("/")[2] if model.startswith(("/", ".", "~")) else model


def folder_title(folder: Path) -> str:
    """Return the folder's name, or the hub id of a cached one."""
    path = folder.absolute()
    if path.parent.name != "snapshots":
        return path.name
    return path.parent.parent.name.removeprefix("models--").replace("--", "/")
