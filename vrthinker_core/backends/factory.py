"""Opens the judge that was chosen: the built-in one, a checkpoint, a server or a script. Only a checkpoint needs torch."""

import json
from pathlib import Path
from typing import Any, get_args

from vrthinker_core.__about__ import asset
from vrthinker_core.backends.base import Backend
from vrthinker_core.backends.built_in import NANO_LIMITS, NANO_NAME, NANO_NOTE
from vrthinker_core.backends.scripted import ScriptedBackend
from vrthinker_core.errors import BadInput, CheckpointError
from vrthinker_core.text import filled_lines
from vrthinker_core.types import ProtocolName

DEFAULT_CHECKPOINT = (
    "qunwang13/vrthinker"  # Hub id of the published 7B checkpoint: the default where there is a GPU
)

CHOICES = "nano, hf:ID_OR_PATH, server:URL#MODEL or scripted:FILE"

MAX_PAUSE = 60  # Seconds after each piece of a script's text


def open_backend(choice: str | None = None, name: str | None = None) -> Backend:
    """Open a judge: one of `CHOICES`, or, for None, the best one this machine can run. A script has JSON lines with `reply`.

    `name` replaces the judge's own display name, where several must be told apart; it is ignored for None.
    Raises BadInput for a choice that is none of these, CheckpointError for a checkpoint that cannot be used, BackendRefused or
    BackendFailed for a server that cannot.
    """
    if choice is None:
        return _open_default()
    kind, _, rest = choice.partition(":")
    if choice == "nano":
        return _open_built_in(NANO_NOTE, name or NANO_NAME)
    if kind == "hf" and rest:
        return _open_local(rest, name)
    if kind == "server" and rest:
        return _open_server(rest, name)
    if kind == "scripted" and rest:
        return _open_script(Path(rest), name)
    raise BadInput(f"There is no judge {choice.partition('://')[0]!r}. Choose {CHOICES}.")


def default_choice() -> str:
    """What `open_backend(None)` tries first: the published checkpoint where there is a GPU, else the built-in judge."""
    from vrthinker_core.backends.local.checkpoint.devices import has_cuda

    return f"hf:{DEFAULT_CHECKPOINT}" if has_cuda() else "nano"


def _open_default() -> Backend:
    if default_choice() == "nano":
        return _open_built_in(f"No GPU was found, so this is the demo judge. {NANO_LIMITS}")
    try:
        return _open_local(DEFAULT_CHECKPOINT)
    except CheckpointError as error:
        note = f"{DEFAULT_CHECKPOINT} could not be opened, so this is the demo judge. {NANO_LIMITS} Cause: {error}"
        return _open_built_in(note)


def _open_built_in(note: str, name: str = NANO_NAME) -> Backend:
    return _open_local(str(asset("nano")), name, note)


def _open_local(source: str, name: str | None = None, *notes: str) -> Backend:
    from vrthinker_core.backends.transformers_local import TransformersBackend

    return TransformersBackend.load(source, name=name, notes=notes)


def _open_server(address: str, name: str | None) -> Backend:
    from vrthinker_core.backends.server_backend import ServerBackend

    return ServerBackend.open(address, name=name)


def _open_script(path: Path, name: str | None) -> ScriptedBackend:
    """A scripted backend from a JSONL file; `protocol`, `pause` and `name` in any line set those fields of the backend."""
    try:
        lines = list(map(json.loads, filled_lines(path.read_text(encoding="utf-8")).values()))
        replies = [str(line["reply"]) for line in lines if "reply" in line]
        options: dict[str, Any] = {
            key: line[key] for line in lines for key in ("protocol", "pause", "name") if key in line
        }
    except RecursionError:
        raise BadInput(f"Cannot read the script {path.name}: it is nested too deeply.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"Cannot read the script {path.name}: {error}.") from None
    if not replies:
        raise BadInput(f"The script {path.name} holds no replies.")
    pause = options.get("pause", 0)
    if options.get("protocol") not in (None, *get_args(ProtocolName)) or not isinstance(
        options.get("name", ""), str
    ):
        raise BadInput(f"The script {path.name} names a protocol or a judge that cannot be.")
    if not isinstance(pause, int | float) or not 0 <= pause <= MAX_PAUSE:
        raise BadInput(
            f"The pause of the script {path.name} is no number of seconds from 0 to {MAX_PAUSE}."
        )
    options |= {"notes": ("A script replies, not a model.",)} | ({"name": name} if name else {})
    return ScriptedBackend(replies, **options)
