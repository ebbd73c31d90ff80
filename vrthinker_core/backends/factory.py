"""`open_backend`: opens a built-in judge, checkpoint, server or script."""

import gc
import json
import sys
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, get_args

from vrthinker_core.__about__ import asset
from vrthinker_core.backends.base import Backend, JudgeDescription
from vrthinker_core.backends.judge_name import (
    JUDGES,
    NANO_LIMITS,
    NANO_NAME,
    NANO_NOTE,
    JudgeName,
    judge_title,
    parse_judge,
)
from vrthinker_core.backends.scripted import ScriptedBackend
from vrthinker_core.errors import BadInput, CheckpointError, JudgeError, explain
from vrthinker_core.types import ProtocolName
from vrthinker_core.words import filled_lines


def open_backend(choice: str | None = None, name: str | None = None) -> Backend:
    """Open a judge by its name, or the best one for None.

    `choice` is one of `JUDGE_FORMS`. None opens the best judge that this machine can run. A script
    has JSON lines with `reply`. `name` replaces the judge's own display name, to tell several
    judges apart; it is ignored if `choice` is None or names a Python object.

    Raises `BadInput` for any other choice, `CheckpointError` if a checkpoint cannot be used, and
    `BackendRefused` or `BackendFailed` if a server cannot.
    """
    if choice is None:
        return _open_default()
    judge = parse_judge(choice)
    opened: Backend = resolve_name(JUDGES[judge.kind].opens)(judge, name)
    return opened


def default_choice() -> str:
    """Return the name that `open_backend(None)` tries first: see `best_choice`."""
    from vrthinker_core.backends.offers import best_choice

    return best_choice()


def _open_default() -> Backend:
    choice, cause = default_choice(), ""
    why = "Neither a GPU with room nor a server was found"
    if choice != "nano":
        try:
            return open_backend(choice)
        except JudgeError as error:
            why, cause = f"{judge_title(choice)} could not be opened", f" Cause: {error}"
    note = f"{why}, so this is the demo judge. {NANO_LIMITS}{cause}"
    return _open_local(parse_judge("nano"), NANO_NAME, note)


def _open_local(judge: JudgeName, name: str, *notes: str) -> Backend:
    """Open a Qwen2.5-VL in our own engine, any other model in `PlainBackend`."""
    from vrthinker_core.backends.checkpoint_files import OURS

    collects = gc.isenabled()
    gc.disable()  # A sixth of the seconds that these imports take
    try:
        from vrthinker_core.backends.checkpoint import find_source, open_checkpoint, open_plain
        from vrthinker_core.backends.plain import PlainBackend
        from vrthinker_core.backends.transformers_local import TransformersBackend
    except (ImportError, RuntimeError) as error:  # transformers imports an installed torchvision
        if find_spec("torchvision") is None:
            raise
        raise CheckpointError(
            "The installed torchvision belongs to another torch, so no model opens: "
            "run pip uninstall torchvision, which is not needed."
        ) from error
    finally:
        if collects:
            gc.enable()
    source = judge.what or str(asset("nano"))
    found = find_source(source, judge.quantize, judge.device)
    if found.config.get("model_type") == OURS:
        opened = open_checkpoint(source, device=judge.device, bits=judge.quantize)
        return TransformersBackend(opened, name, notes)
    return PlainBackend(open_plain(found), found, name, notes)


def open_model(judge: JudgeName, name: str | None) -> Backend:
    """Open the demo judge, a hub id or a folder."""
    notes = (NANO_NOTE,) if judge.kind == "nano" else ()
    return _open_local(judge, name or judge.title, *notes)


def open_served(judge: JudgeName, name: str | None) -> Backend:
    """Open a model of a host or server, or the first one of a server on this machine."""
    from vrthinker_core.backends.offers import find_local, local_key
    from vrthinker_core.backends.server_backend import ServerBackend

    if judge.kind != "local":
        return ServerBackend.open(judge, name=name)
    found = replace(find_local(judge.what), protocol=judge.protocol)
    return ServerBackend.open(found, name=name, secret=local_key())


def open_own(judge: JudgeName, _: str | None) -> Backend:
    """Import a user's judge, or its maker. The current folder is importable."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # As `python -m` does
    module, _, attribute = judge.what.partition(":")
    try:
        found: Any = getattr(import_module(module), attribute)
        made = not hasattr(found, "open_conversation") and callable(found)
        backend: Backend = found() if made or isinstance(found, type) else found
    except (Exception, SystemExit) as error:  # A script may end Python
        raise BadInput(explain(f"The judge {judge} cannot be opened", error)) from error
    members = (name for kind in (JudgeDescription, Backend) for name in vars(kind))
    if missing := [name for name in members if name[0] != "_" and not hasattr(backend, name)]:
        raise BadInput(f"The judge {judge} is no Backend: it has no {', '.join(missing)}.")
    return backend


def open_script(judge: JudgeName, name: str | None) -> ScriptedBackend:
    """Read a JSONL script; any line may set `protocol`, `pause`, `name`."""
    path = Path(judge.what)
    try:
        lines = list(map(json.loads, filled_lines(path.read_text(encoding="utf-8")).values()))
        replies = [str(line["reply"]) for line in lines if "reply" in line]
        options: dict[str, Any] = {
            key: line[key] for line in lines for key in ("protocol", "pause", "name") if key in line
        }
    except (OSError, RecursionError, ValueError, TypeError) as error:
        deep = isinstance(error, RecursionError)
        cause = "it is nested too deeply" if deep else getattr(error, "strerror", None) or error
        raise BadInput(f"Cannot read the script {path.name}: {cause}.") from None
    if not replies:
        raise BadInput(f"The script {path.name} holds no replies.")
    pause = options.get("pause", 0)
    named = isinstance(options.get("name", ""), str)
    if not named or options.get("protocol") not in (None, *get_args(ProtocolName)):
        raise BadInput(
            f"The script {path.name} has an unknown protocol, or a name that is no text. "
            "Write paired or concat, and the name in quotation marks."
        )
    if not isinstance(pause, int | float) or not 0 <= pause <= 60:
        raise BadInput(f"The pause of the script {path.name} is no number of seconds from 0 to 60.")
    options |= {"notes": ("A script replies, not a model.",)} | ({"name": name} if name else {})
    return ScriptedBackend(replies, **options)
