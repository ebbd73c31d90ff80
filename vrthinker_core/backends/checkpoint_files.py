"""The files of a checkpoint, checked without torch."""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from annotated_types import MinLen
from huggingface_hub import HfApi, ModelInfo, snapshot_download
from huggingface_hub.constants import HF_HUB_CACHE, HF_HUB_ETAG_TIMEOUT
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from huggingface_hub.utils.sha import git_hash
from safetensors import SafetensorError, safe_open

from vrthinker_core.backends.base import Scope
from vrthinker_core.backends.judge_name import HUB_ID, folder_title
from vrthinker_core.errors import CheckpointError, type_adapter
from vrthinker_core.protocols.factory import redirects
from vrthinker_core.system import free_disk
from vrthinker_core.types import ProtocolName

MARKER = "vrthinker.json"  # What a checkpoint was trained for, and maybe the SHA-256 of each file
GENERATION_CONFIG = "generation_config.json"  # Optional; transformers ignores an unreadable one
ADAPTER = "adapter_config.json"  # A folder with this file holds a peft adapter
OURS = "qwen2_5_vl"  # The `model_type` of our own engine; other models use `PlainBackend`
HUB_METADATA = ".cache/huggingface/download"  # Has a NAME.metadata with the digest in line 2
DOWNLOAD_PATTERNS = ("*.json", "*.safetensors", "*.jinja", "merges.txt")  # No code, no pickles

PUBLISHED_PROTOCOLS: dict[str, ProtocolName] = {
    "qunwang13/vr-thinker": "concat",
    "qunwang13/vrthinker": "paired",
}
"""Hub ids and protocols of the two published checkpoints, which have no marker."""


def published_protocol(names: Iterable[str]) -> ProtocolName | None:
    """Return the protocol of a published checkpoint, named with or without owner."""
    known = {name.lower() for name in names}
    protocols = PUBLISHED_PROTOCOLS.items()
    found = (each for hub_id, each in protocols if known & {hub_id, hub_id.split("/")[1]})
    return next(found, None)


def locate(source: str, before_download: Callable[[], None] = lambda: None) -> Path:
    """Return the folder of a path or hub id; raise `CheckpointError`.

    A hub id is downloaded once, after a call of `before_download`, which may raise.
    """
    path = Path(os.path.expanduser(source))  # noqa: PTH111 - Path's raises for an unknown user
    with _reading(path):
        if path.is_dir():
            return path
        if path.exists():
            raise CheckpointError(
                f"{source} is a file: "
                "a checkpoint is a folder with config.json and safetensors weights."
            )
    if not HUB_ID.fullmatch(source):
        raise CheckpointError(f"There is no folder {source}.")
    with suppress(LocalEntryNotFoundError):
        return fetch(source, cached=True)
    try:
        # Ask once: later requests are repeated for half a minute if the hub cannot be reached
        with suppress(HfHubHTTPError):  # It answers, and the download itself reports the error
            hub_model(source)
        before_download()
        return fetch(source)
    except CheckpointError:
        raise
    except Exception as error:
        # The hub's client raises errors of its own, of its HTTP client and of a proxy
        raise CheckpointError(
            f"There is no folder {source} here, and no model of that name could be had from "
            f"the Hugging Face hub ({type(error).__name__}): check the name and the connection, "
            "or give the folder of a copy already on this machine."
        ) from error


def fetch(source: str, *, cached: bool = False) -> Path:
    """Return the folder of a model of the hub, fetched unless `cached`."""
    patterns = [*DOWNLOAD_PATTERNS]
    return Path(snapshot_download(source, allow_patterns=patterns, local_files_only=cached))


def is_downloaded(source: str) -> bool:
    """Return whether a model of the hub is in the hub's cache."""
    with suppress(Exception):  # An unreadable cache counts as empty
        return fetch(source, cached=True).is_dir()
    return False


def hub_model(source: str) -> ModelInfo:
    """Ask the hub about a model; raise `CheckpointError` without room for it."""
    info = HfApi().model_info(source, timeout=HF_HUB_ETAG_TIMEOUT, files_metadata=True)
    size = sum(
        file.size or 0
        for file in info.siblings or ()
        if any(fnmatch(file.rfilename, each) for each in DOWNLOAD_PATTERNS)
    )
    if size > (free := free_disk(Path(HF_HUB_CACHE))):
        raise CheckpointError(
            f"{source} takes {size / 1e9:.1f} GB of disk and {free / 1e9:.1f} are free in "
            f"{HF_HUB_CACHE}: make room, or set HF_HOME to another disk."
        )
    return info


def check_files(folder: Path) -> dict[str, tuple[int, ...]]:
    """Check that a folder can be trained: a whole Qwen2.5-VL, not quantised.

    Returns the shape of each tensor. Raises `CheckpointError`, which names the file.
    """
    title = folder_title(folder)
    if is_adapter(folder):
        raise CheckpointError(f"{title} holds an adapter: merge it into its base model first.")
    config = read_config(folder)
    require_ours(title, config)
    if config.get("quantization_config"):
        raise CheckpointError(
            f"{title} is quantised: give the checkpoint that it was made from, or one in bfloat16."
        )
    return check_weights(folder)


def require_ours(title: str, config: Mapping[str, Any]) -> None:
    """Raise `CheckpointError` for a model of another kind than `OURS`."""
    if (kind := config.get("model_type")) != OURS:
        raise CheckpointError(f"{title} is a {kind!r} model: this judge must be a {OURS!r}.")


def is_adapter(folder: Path) -> bool:
    """Return whether the folder holds a peft adapter instead of a model."""
    with _reading(folder):
        return (folder / ADAPTER).exists()


def check_weights(folder: Path) -> dict[str, tuple[int, ...]]:
    """Check the files of any checkpoint, and any checksums of theirs.

    Returns each tensor's stored shape. Raises `CheckpointError`, which names the file.
    """
    with _reading(folder):
        sums, title = read_marker_file(folder).get("sha256", {}), folder_title(folder)
        if not isinstance(sums, dict):
            raise damaged(folder / MARKER, "its checksums are no table.")
        digests = {folder / Path(name).name: str(digest) for name, digest in sums.items()}
        if missing := [path.name for path in digests if not path.is_file()]:
            raise CheckpointError(f"{title} is incomplete: {missing[0]} is missing.")
        _check_digests(digests, "what was shipped: its checksum differs. Fetch it again.")
        shapes: dict[str, tuple[int, ...]] = {}
        for path in weight_files(folder):
            shapes |= tensor_shapes(path)
        otherwise = "what the hub gave: its checksum differs. Delete it and fetch it again."
        _check_digests(_hub_digests(folder), otherwise)
        if (folder / GENERATION_CONFIG).is_file():
            read_json(folder / GENERATION_CONFIG)
        return shapes


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the tensors' names and shapes; no weight is read.

    `safe_open` refuses a damaged header, tensors that overlap or leave holes, and a file whose
    length differs from the header. Raises `CheckpointError`.
    """
    with _reading(path), path.open("rb") as raw:
        start = raw.read(8)  # `safe_open` reports a file without read permission as missing
        try:
            with safe_open(path, framework="numpy") as file:  # "pt" would import torch
                shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - no mapping
        except (OSError, SafetensorError) as error:
            damage = "its safetensors header cannot be read."
            if "incomplete metadata" in str(error):
                # `safe_open` does not name the expected length of the file. Layout: 8 bytes of
                # header length (little endian), the header as JSON, which is sound here, then data
                length = int.from_bytes(start, "little")
                end = rb'"data_offsets"\s*:\s*\[\s*\d+\s*,\s*(\d{1,20})\s*\]'
                data = max(map(int, re.findall(end, raw.read(length))), default=0)
                damage = (
                    f"it should be {8 + length + data:,} bytes long and is "
                    f"{path.stat().st_size:,}. Fetch it again."
                )
            raise CheckpointError(f"{path.name} is damaged: {damage}") from error
    if not all(name.isprintable() and len(name) <= 1000 for name in shapes):  # Errors quote them
        raise CheckpointError(
            f"{path.name} is damaged: the name of a tensor is too long or cannot be printed."
        )
    return shapes


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn an `OSError` of a file or folder into a `CheckpointError`."""
    try:
        yield
    except OSError as error:
        name = Path(error.filename or path).name[:100]
        raise CheckpointError(
            f"{name} cannot be read: {error.strerror or error}. Check its permissions and the disk."
        ) from error


def refuse(subject: str, faults: Iterable[str]) -> None:
    """Raise `CheckpointError` with the first fault, which continues `subject`."""
    for fault in faults:
        raise CheckpointError(f"{subject} {fault}")


def damaged(path: Path, fault: str) -> CheckpointError:
    """Return the error of a damaged file."""
    return CheckpointError(f"{path.name} of {folder_title(path.parent)} is damaged: {fault}")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; raise `CheckpointError`, which names the file."""
    try:
        with _reading(path):
            content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise damaged(path, "it is not JSON.") from error
    if not isinstance(content, dict):
        raise damaged(path, "it holds no JSON object.")
    return content


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json; raise `CheckpointError` if missing or damaged."""
    if not (path := folder / "config.json").is_file():
        raise CheckpointError(f"{folder_title(folder)} is no checkpoint: it has no config.json.")
    return read_json(path)


def weight_files(folder: Path) -> list[Path]:
    """Return model.safetensors, else the shards of the index, as transformers does.

    Raises `CheckpointError` if a file is missing, damaged or a pickle.
    """
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.is_file():
        return [whole]
    title = folder_title(folder)
    if not index.is_file():
        endings = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
        if pickles := sorted(path.name for path in folder.iterdir() if path.suffix in endings):
            raise CheckpointError(
                f"{pickles[0]} is a pickle, which can run code when opened: "
                "only safetensors weights are read."
            )
        raise CheckpointError(
            f"{title} has no weights: there is no model.safetensors and no index of shards."
        )
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise damaged(index, "it maps no weights.")
    names = sorted(set(map(str, weight_map.values())))
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise CheckpointError(
                f"{index.name} of {title} names {name!r}, "
                "which is no safetensors file of this folder."
            )
        if not (folder / name).is_file():
            raise CheckpointError(f"{title} is incomplete: the shard {name} is missing.")
    return [folder / name for name in names]


def read_marker_file(folder: Path) -> dict[str, Any]:
    """Read the marker, {} if missing; raise `CheckpointError` if damaged."""
    path = folder / MARKER
    return read_json(path) if path.is_file() else {}


def _hub_digests(folder: Path) -> dict[Path, str]:
    """Return the hub's SHA-256, or git's SHA-1, of each downloaded file.

    In the hub's cache, a file is a link to a blob with the digest as its name. In a person's own
    folder only SHA-256 counts: people may edit the small files.
    """
    digests = {}
    found = [path for pattern in DOWNLOAD_PATTERNS for path in folder.glob(pattern)]
    for path in filter(Path.is_file, found):
        blob, metadata = path.resolve(), folder / HUB_METADATA / f"{path.name}.metadata"
        name = re.fullmatch("blobs/([0-9a-f]{40}|[0-9a-f]{64})", f"{blob.parent.name}/{blob.name}")
        if path.is_symlink() and name:
            digests[path] = name[1]
        elif metadata.is_file():
            told = re.match(r".*\n([0-9a-f]{64})\n", metadata.read_text("utf-8", "replace"))
            digests |= {path: told[1]} if told else {}
    return digests


def _check_digests(digests: Mapping[Path, str], otherwise: str) -> None:
    """Raise `CheckpointError` for a file with another digest: it "is not" `otherwise`."""

    def digest(path: Path) -> str:
        with _reading(path):
            return git_hash(path.read_bytes()) if len(digests[path]) == 40 else sha256(path)

    with ThreadPoolExecutor() as executor:
        for path, found in zip(digests, executor.map(digest, digests), strict=True):
            if found != digests[path]:
                raise CheckpointError(
                    f"{path.name} of {folder_title(path.parent)} is not {otherwise}"
                )


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file; raise `OSError`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


TOLD = "This judge was not trained for the task: it is told the protocol's rules in words."
"""A note about a judge without a protocol. At a command line this may follow:"""
CORRECTION = "If it was, put ?protocol=paired or ?protocol=concat behind its name."

Phrase = Annotated[str, MinLen(1)]
Redirect = tuple[Phrase, Phrase]


@dataclass(frozen=True, slots=True)
class Marker:
    """The contents of `vrthinker.json` besides its checksums."""

    protocols: tuple[ProtocolName, ...] = ()  # It was trained for, default first; () if unknown
    forced: Mapping[ProtocolName, Redirect] = field(default_factory=dict)
    """For each protocol, the (a, b) in place of its `Sampling.redirect` that gets an answer from a
    checkpoint that knows only its protocols' own sentences; others have none.
    """
    scope: Scope = "any"  # The videos for which its verdict is valid
    video_items: bool = True  # Trained on frames packed as a video; else each frame is an image

    def redirect(self, chosen: Redirect | None) -> Redirect | None:
        """Return the checkpoint's own redirect in place of a protocol's."""
        return chosen and redirects(self.forced).get(chosen, chosen)


class MarkedJudge:
    """A judge that its marker describes."""

    def __init__(self, name: str, marker: Marker) -> None:
        self.name, self.marker = name, marker
        self.protocols, self.scope = marker.protocols, marker.scope
        self.follows_instructions = not marker.forced

    def __repr__(self) -> str:
        trained = " and ".join(self.protocols) or "no protocol of its own"
        return f"<{type(self).__name__} {self.name}, {trained}>"


@dataclass(frozen=True, slots=True)
class _Said:
    """The marker's fields as they may stand in the file."""

    protocol: ProtocolName | tuple[ProtocolName, ...] | None = None
    forced: Redirect | dict[ProtocolName, Redirect] | None = None  # A pair is for all protocols
    scope: Scope = "any"
    video_items: Literal[True, False] = True


def seal(folder: Path, said: Mapping[str, Any]) -> None:
    """Write the marker: `said`, and the checksum of every file; raise `OSError`."""
    sums = {
        path.name: sha256(path)
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name != MARKER
    }
    (folder / MARKER).write_text(json.dumps({**said, "sha256": sums}, indent=1) + "\n", "utf-8")


def read_marker(folder: Path, source: str) -> Marker:
    """Read the marker; raise `CheckpointError`.

    Without one, a checkpoint's protocol comes from its published name, or is unknown.
    """
    from pydantic import ValidationError

    content, title = read_marker_file(folder), folder_title(folder)
    try:
        said = type_adapter(_Said).validate_python(content)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        raise CheckpointError(
            f"{MARKER} of {title} is damaged, or later than this version: "
            f"its `{name}` is {repr(content[name])[:100]}."
        ) from None
    named = [said.protocol] if isinstance(said.protocol, str) else said.protocol or ()
    protocols = tuple(dict.fromkeys(named))
    if not protocols:
        config = read_config(folder) if (folder / "config.json").is_file() else {}
        names = (source, str(config.get("_name_or_path", "")), title)
        protocols = (known,) if (known := published_protocol(names)) else ()
    forced = said.forced or {}
    if isinstance(forced, tuple):
        forced = dict.fromkeys(protocols or get_args(ProtocolName), forced)
    return Marker(protocols, forced, said.scope, said.video_items)
