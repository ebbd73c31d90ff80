"""A checkpoint is whole, or it is refused in one sentence that names what is wrong. Nothing random ever speaks."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.backends.support.random_model import generate, noise_frame, write_random_checkpoint
from tests.backends.support.sealed import write_marker
from vrthinker_core.backends.local.checkpoint.devices import available_memory, require_memory
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import CheckpointError
from vrthinker_core.types.messages import Image, Message, Text

UP = "model.layers.1.mlp.up_proj.weight"
"""As the file names it, in the layout of the published checkpoints."""

UPWARD = "model.language_model.layers.1.mlp.up_proj.weight"
"""The same, as the model names it."""
ASK = [Message("user", (Text("Compare the two videos."),))]
Weights = dict[str, torch.Tensor]


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(folder, tmp_path / "judge")


def refused(source: Path | str) -> str:
    """The one sentence a checkpoint is refused with."""
    with pytest.raises(CheckpointError) as caught:
        TransformersBackend.load(str(source))
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert "Traceback" not in sentence
    return sentence


def test_the_whole_checkpoint_is_not_refused(copy: Path, small: TransformersBackend) -> None:
    backend = TransformersBackend.load(str(copy))
    assert backend.name == "judge"
    assert generate(backend.open_conversation(), ASK).tokens == generate(small.open_conversation(), ASK).tokens


# -- files ---------------------------------------------------------------------------------------------------------------


def rewrite(folder: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads((folder / name).read_text(encoding="utf-8"))
    change(content)
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def cut(path: Path, size: int) -> None:
    os.truncate(path, size)


def sharded(folder: Path) -> None:
    """An index of two shards, the second of which is not there."""
    shutil.move(folder / "model.safetensors", folder / "model-00001-of-00002.safetensors")
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


def stray(folder: Path) -> None:
    sharded(folder)
    rewrite(folder, "model.safetensors.index.json", lambda index: index["weight_map"].update(b="../other.safetensors"))


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda f: (f / "config.json").unlink(), "judge is no checkpoint: it has no config.json"),
    "config not JSON": (lambda f: (f / "config.json").write_text("{"), "config.json of judge is damaged"),
    "config a list": (lambda f: (f / "config.json").write_text("[]"), "config.json of judge is damaged"),
    "another model": (lambda f: rewrite(f, "config.json", lambda c: c.update(model_type="llava")), "judge is a 'llava' model"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "judge has no weights"),
    "a pickle": (pickled, "pytorch_model.bin is a pickle"),
    "a shard missing": (sharded, "the shard model-00002-of-00002.safetensors is missing"),
    "a shard elsewhere": (stray, r"names '../other.safetensors'"),
    "index of nothing": (lambda f: (sharded(f), rewrite(f, "model.safetensors.index.json", dict.clear)), "maps no weights"),
    "cut short": (lambda f: cut(f / "model.safetensors", 100_000), "model.safetensors is damaged: it should be .* bytes long"),
    "cut in its header": (lambda f: cut(f / "model.safetensors", 50), "model.safetensors is damaged: its safetensors header"),
    "empty": (lambda f: cut(f / "model.safetensors", 0), "model.safetensors is damaged: its safetensors header"),
    "an adapter": (lambda f: (f / "adapter_config.json").write_text("{}"), "holds an adapter"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json is missing"),
    "tokenizer not JSON": (lambda f: cut(f / "tokenizer.json", 900), "The tokenizer of judge cannot be used"),
    "no processor": (
        lambda f: (f / "preprocessor_config.json").unlink(),
        "judge is incomplete: preprocessor_config.json is missing",
    ),
    "other patches": (lambda f: rewrite(f, "preprocessor_config.json", lambda c: c.update(merge_size=4)), "cuts patches of"),
    "unknown protocol": (lambda f: (f / "vrthinker.json").write_text('{"protocol": "both"}'), "names the protocol 'both'"),
    "no pair to force with": (lambda f: (f / "vrthinker.json").write_text('{"forced": ["a"]}'), "is no pair of texts"),
    "marker not JSON": (lambda f: (f / "vrthinker.json").write_text("x"), "vrthinker.json of judge is damaged"),
    "a seal of nothing": (lambda f: (f / "vrthinker.json").write_text('{"sha256": "x"}'), "checksums are no table"),
    "nonsense in the config": (
        lambda f: rewrite(f, "config.json", lambda c: c["text_config"].update(hidden_size="big")),
        "config.json",
    ),
}


@pytest.mark.parametrize(("damage", "sentence"), FILES.values(), ids=FILES.keys())
def test_damaged_files_are_named(copy: Path, damage: Callable[[Path], object], sentence: str) -> None:
    damage(copy)
    with pytest.raises(CheckpointError, match=sentence):
        TransformersBackend.load(str(copy))
    assert refused(copy)


def test_what_is_no_folder_is_said_to_be_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (tmp_path / "weights.safetensors").write_bytes(b"")
    assert "There is no folder" in refused(tmp_path / "nowhere")
    assert "is a file" in refused(tmp_path / "weights.safetensors")
    assert "could be had from the Hugging Face hub" in refused("nobody-at-all/no-such-judge")


# -- weights -------------------------------------------------------------------------------------------------------------


def damaged(folder: Path, change: Callable[[Weights], object]) -> str:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return refused(folder)


def without_layer(weights: Weights) -> None:
    for name in [name for name in weights if name.startswith("model.layers.2.")]:
        del weights[name]


def renamed(weights: Weights) -> None:
    for name in list(weights):
        weights[f"other.{name}"] = weights.pop(name)


def flipped(weights: Weights) -> None:
    """The highest bit of one exponent, as a cosmic ray or a bad disk flips it."""
    weights[UP].view(torch.int32)[3, 3] ^= 1 << 30


WEIGHTS: dict[str, tuple[Callable[[Weights], object], str]] = {
    "one tensor missing": (lambda w: w.pop(UP), f"{UPWARD} is missing"),
    "a layer missing": (without_layer, "model.language_model.layers.2."),
    "every key renamed": (renamed, "None of the weights of judge fits"),
    "another shape": (lambda w: w.update({UP: w[UP][:, :-1].contiguous()}), f"shape of {UPWARD}"),
    "a layer too many": (lambda w: w.update({UP.replace("1", "7"): w[UP].clone()}), "layers.7.mlp.up_proj.weight is left over"),
    "not a number": (lambda w: w[UP].fill_(float("nan")), f"{UPWARD} holds values that are no numbers"),
    "infinite": (lambda w: w[UP].view(-1)[5:6].fill_(float("-inf")), f"{UPWARD} holds values that are no numbers"),
    "a flipped bit": (flipped, f"{UPWARD} holds"),
    "vision missing": (lambda w: w.pop("visual.merger.mlp.2.bias"), "model.visual.merger.mlp.2.bias is missing"),
    "no output rows": (lambda w: w.pop("lm_head.weight"), "lm_head.weight is missing"),
}


@pytest.mark.parametrize(("damage", "sentence"), WEIGHTS.values(), ids=WEIGHTS.keys())
def test_damaged_weights_are_named(copy: Path, damage: Callable[[Weights], object], sentence: str) -> None:
    assert sentence in damaged(copy, damage)


def test_a_config_that_describes_a_larger_model_allocates_nothing(copy: Path) -> None:
    rewrite(copy, "config.json", lambda c: c["text_config"].update(intermediate_size=2**40))
    assert "config.json describes" in refused(copy)


def test_a_processor_may_not_shrink_frames_that_were_sized_for_the_protocol(copy: Path) -> None:
    rewrite(copy, "preprocessor_config.json", lambda c: c.update(size={"shortest_edge": 784, "longest_edge": 64 * 784}))
    conversation = TransformersBackend.load(str(copy)).open_conversation()
    shown = Message("user", (Image(noise_frame(1, 560, 700)),))
    assert conversation.count_tokens([shown]) - conversation.count_tokens([Message("user", ())]) == 20 * 25 + 2


# -- tokenizers ----------------------------------------------------------------------------------------------------------


def shorter(tokenizer: dict[str, Any]) -> None:
    """Without the 200 last words of the vocabulary."""
    tokenizer["added_tokens"] = tokenizer["added_tokens"][:7]
    vocabulary = {word: n for word, n in tokenizer["model"]["vocab"].items() if n < 700}
    merges = [pair for pair in tokenizer["model"]["merges"] if "".join(pair) in vocabulary]
    tokenizer["model"].update(vocab=vocabulary, merges=merges)


def swapped(tokenizer: dict[str, Any]) -> None:
    """Image and video places exchanged."""
    first, second = tokenizer["added_tokens"][5], tokenizer["added_tokens"][6]
    first["content"], second["content"] = second["content"], first["content"]
    words = tokenizer["model"]["vocab"]
    words["<|image_pad|>"], words["<|video_pad|>"] = words["<|video_pad|>"], words["<|image_pad|>"]


def uncontrolled(tokenizer: dict[str, Any]) -> None:
    tokenizer["added_tokens"][1]["content"] = "<|im_begin|>"
    tokenizer["model"]["vocab"]["<|im_begin|>"] = tokenizer["model"]["vocab"].pop("<|im_start|>")


def longer(tokenizer: dict[str, Any]) -> None:
    last = tokenizer["added_tokens"][-1]
    tokenizer["added_tokens"] += [last | {"id": 914 + n, "content": f"<new {n}>"} for n in range(3)]


TOKENIZERS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "too few tokens": (shorter, "has 700 tokens, but the model has 914 rows"),
    "too many tokens": (longer, "has 917 tokens, but the model has 914 rows"),
    "places exchanged": (swapped, "belongs to another model"),
    "a control token missing": (uncontrolled, "lacks the control token <|im_start|>"),
}


@pytest.mark.parametrize(("damage", "sentence"), TOKENIZERS.values(), ids=TOKENIZERS.keys())
def test_a_tokenizer_of_another_model_is_refused(copy: Path, damage: Callable[[dict[str, Any]], object], sentence: str) -> None:
    rewrite(copy, "tokenizer.json", damage)
    assert sentence in refused(copy)


# -- seals ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_one_bit_of_a_sealed_checkpoint_is_noticed(copy: Path, name: str) -> None:
    write_marker(copy, "concat")
    assert TransformersBackend.load(str(copy)).protocol == "concat"
    content = bytearray((copy / name).read_bytes())
    content[-40] ^= 1
    (copy / name).write_bytes(content)
    assert f"{name} of judge is not what was shipped" in refused(copy)


def test_a_file_that_left_a_sealed_checkpoint_is_noticed(copy: Path) -> None:
    write_marker(copy, "paired")
    (copy / "chat_template.jinja").unlink()
    assert "chat_template.jinja is missing" in refused(copy)


@pytest.mark.parametrize(
    ("name", "protocol"), [("vr-thinker", "concat"), ("vrthinker", "paired"), ("VRThinker", "paired"), ("my-vrthinker", None)]
)
def test_the_published_checkpoints_are_known_by_name(folder: Path, tmp_path: Path, name: str, protocol: str | None) -> None:
    assert TransformersBackend.load(str(shutil.copytree(folder, tmp_path / name))).protocol == protocol


def test_a_checkpoint_in_the_hub_s_store_is_called_by_its_id(folder: Path, tmp_path: Path) -> None:
    kept = shutil.copytree(folder, tmp_path / "models--qunwang13--vr-thinker" / "snapshots" / "0123abcd")
    backend = TransformersBackend.load(str(kept))
    assert (backend.name, backend.protocol) == ("qunwang13/vr-thinker", "concat")


# -- memory --------------------------------------------------------------------------------------------------------------


def test_a_judge_that_does_not_fit_is_refused_before_it_is_loaded(copy: Path) -> None:
    """A safetensors file of 8 TiB of nothing: sparse, so it takes no room on the disk."""
    shape = [2**20, 2**21]
    header = json.dumps({"lm_head.weight": {"dtype": "F32", "shape": shape, "data_offsets": [0, 2**43]}}).encode()
    with (copy / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        try:
            file.truncate(8 + len(header) + 2**43)
        except OSError:
            pytest.skip("this file system holds no file of that length")
    assert "This judge needs" in refused(copy)


def test_needed_and_free_memory_are_named() -> None:
    require_memory(2**30, 2**31, "cpu")
    require_memory(2**60, None, "cuda")
    with pytest.raises(CheckpointError, match=r"needs 2.3 GiB, but only 2.0 GiB of memory of cuda are free"):
        require_memory(2**31, 2**31, "cuda")
    free = available_memory("cpu")
    assert free is None or 2**20 < free < 2**50


# -- the control of all comparisons -----------------------------------------------------------------------------------------


def test_another_seed_is_another_judge(tmp_path: Path, small: TransformersBackend) -> None:
    """Replies do tell checkpoints apart."""
    other = TransformersBackend.load(str(write_random_checkpoint(tmp_path / "other", seed=1)))
    assert generate(other.open_conversation(), ASK).tokens != generate(small.open_conversation(), ASK).tokens
