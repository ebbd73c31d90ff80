"""A checkpoint is complete and sound, or it is refused in one sentence that names what is wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import close_session
from safetensors.torch import load_file, save_file

from tests.backends.support.random_model import (
    VOCABULARY_SIZE,
    generate,
    noise_frame,
    write_random_checkpoint,
)
from tests.backends.support.sealed import write_marker
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import CheckpointError
from vrthinker_core.types.messages import Image, Message, Text

UP = "model.layers.1.mlp.up_proj.weight"
"""A tensor's name in the file, in the layout of the published checkpoints."""

UP_IN_MODEL = "model.language_model.layers.1.mlp.up_proj.weight"
"""The same tensor's name in the model."""
ASK = [Message("user", (Text("Compare the two videos."),))]
Weights = dict[str, torch.Tensor]


def refused(source: Path | str) -> str:
    """The sentence that refuses a checkpoint."""
    with pytest.raises(CheckpointError) as caught:
        TransformersBackend.load(str(source))
    sentence = str(caught.value)
    assert sentence.isprintable()
    assert "Traceback" not in sentence
    return sentence


def test_undamaged_checkpoint_is_loaded(copy: Path, small: TransformersBackend) -> None:
    backend = TransformersBackend.load(str(copy))
    assert backend.name == "judge"
    replies = [generate(each.open_conversation(), ASK).tokens for each in (backend, small)]
    assert replies[0] == replies[1]


# -- files ---------------------------------------------------------------------------------------------------------------


def rewrite(folder: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads((folder / name).read_text(encoding="utf-8"))
    change(content)
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def truncate(path: Path, size: int) -> None:
    os.truncate(path, size)


def drop_a_shard(folder: Path) -> None:
    """An index of two shards, the second of which is not there."""
    shutil.move(folder / "model.safetensors", folder / "model-00001-of-00002.safetensors")
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


def point_a_shard_elsewhere(folder: Path) -> None:
    drop_a_shard(folder)
    rewrite(
        folder,
        "model.safetensors.index.json",
        lambda index: index["weight_map"].update(b="../other.safetensors"),
    )


def replace_by_a_pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")


def leave_an_adapter(folder: Path) -> None:
    """What peft saves."""
    (folder / "config.json").unlink()
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text("{}")


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "another model": (
        lambda f: rewrite(f, "config.json", lambda c: c.update(model_type="llava")),
        "judge is a 'llava' model",
    ),
    "a pickle": (replace_by_a_pickle, "pytorch_model.bin is a pickle"),
    "a shard missing": (drop_a_shard, "the shard model-00002-of-00002.safetensors is missing"),
    "a shard elsewhere": (point_a_shard_elsewhere, r"names '../other.safetensors'"),
    "empty index": (
        lambda f: (drop_a_shard(f), rewrite(f, "model.safetensors.index.json", dict.clear)),
        "maps no weights",
    ),
    "truncated": (
        lambda f: truncate(f / "model.safetensors", 100_000),
        "model.safetensors is damaged: it should be .* bytes long",
    ),
    "truncated in its header": (
        lambda f: truncate(f / "model.safetensors", 50),
        "model.safetensors is damaged: its safetensors header",
    ),
    "empty": (
        lambda f: truncate(f / "model.safetensors", 0),
        "model.safetensors is damaged: its safetensors header",
    ),
    "quantised": (
        lambda f: rewrite(f, "config.json", lambda c: c.update(quantization_config={"bits": 4})),
        "judge is quantised",
    ),
    "an adapter": (leave_an_adapter, "only LORA is read"),
    "tokenizer not JSON": (
        lambda f: truncate(f / "tokenizer.json", 900),
        "The tokenizer of judge cannot be used",
    ),
    "other patches": (
        lambda f: rewrite(f, "preprocessor_config.json", lambda c: c.update(merge_size=4)),
        "cuts patches of",
    ),
    "a string for a number in the config": (
        lambda f: rewrite(f, "config.json", lambda c: c["text_config"].update(hidden_size="big")),
        "config.json",
    ),
}


@pytest.mark.parametrize(("damage", "sentence"), FILES.values(), ids=FILES.keys())
def test_damaged_file_is_named(copy: Path, damage: Callable[[Path], object], sentence: str) -> None:
    damage(copy)
    assert re.search(sentence, refused(copy))


WRITTEN = {
    "config.json": {
        "{": "config.json of judge is damaged",
        "[]": "config.json of judge is damaged",
    },
    "vrthinker.json": {
        "x": "vrthinker.json of judge is damaged",
        '{"sha256": "x"}': "checksums are no table",
    },
    "adapter_config.json": {"{}": "only LORA is read"},
}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in WRITTEN.items() for text in texts]
)
def test_what_a_file_says_instead_is_refused(copy: Path, name: str, text: str) -> None:
    (copy / name).write_text(text)
    assert WRITTEN[name][text] in refused(copy)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("config.json", "judge is no checkpoint: it has no config.json"),
        ("model.safetensors", "judge has no weights"),
        ("tokenizer.json", "tokenizer.json is missing"),
        ("preprocessor_config.json", "judge is incomplete: preprocessor_config.json is missing"),
        ("chat_template.jinja", "chat_template.jinja is missing"),
    ],
)
def test_a_missing_file_is_named(copy: Path, name: str, sentence: str) -> None:
    if name.startswith("chat"):
        write_marker(copy, "paired")  # which has a checksum of it
    (copy / name).unlink()
    assert sentence in refused(copy)


def test_source_that_is_no_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (tmp_path / "weights.safetensors").write_bytes(b"")
    assert "There is no folder" in refused(tmp_path / "nowhere")
    assert "is a file" in refused(tmp_path / "weights.safetensors")
    assert "could be had from the Hugging Face hub" in refused("nobody-at-all/no-such-judge")


def test_a_download_that_cannot_be_made_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # The client lets errors of its transport through, here an ImportError
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    close_session()
    assert "could be had from the Hugging Face hub" in refused("nobody-at-all/no-such-judge")
    close_session()


# -- weights -------------------------------------------------------------------------------------------------------------


def refused_after(folder: Path, change: Callable[[Weights], object]) -> str:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return refused(folder)


def drop_layer(weights: Weights) -> None:
    for name in [name for name in weights if name.startswith("model.layers.2.")]:
        del weights[name]


def rename_all(weights: Weights) -> None:
    for name in list(weights):
        weights[f"other.{name}"] = weights.pop(name)


def flip_bit(weights: Weights) -> None:
    """Flip the highest bit of one exponent, as a bad disk may."""
    weights[UP].view(torch.int32)[3, 3] ^= 1 << 30


WEIGHTS: dict[str, tuple[Callable[[Weights], object], str]] = {
    "one tensor missing": (lambda w: w.pop(UP), f"{UP_IN_MODEL} is missing"),
    "a layer missing": (drop_layer, "model.language_model.layers.2."),
    "every key renamed": (rename_all, "None of the weights of judge fits"),
    "another shape": (
        lambda w: w.update({UP: w[UP][:, :-1].contiguous()}),
        f"shape of {UP_IN_MODEL}",
    ),
    "a layer too many": (
        lambda w: w.update({UP.replace("1", "7"): w[UP].clone()}),
        "layers.7.mlp.up_proj.weight is left over",
    ),
    "not a number": (
        lambda w: w[UP].fill_(float("nan")),
        f"{UP_IN_MODEL} holds values that are no numbers",
    ),
    "infinite": (
        lambda w: w[UP].view(-1)[5:6].fill_(float("-inf")),
        f"{UP_IN_MODEL} holds values that are no numbers",
    ),
    "a flipped bit": (flip_bit, f"{UP_IN_MODEL} holds"),
    "vision missing": (
        lambda w: w.pop("visual.merger.mlp.2.bias"),
        "model.visual.merger.mlp.2.bias is missing",
    ),
    "no output rows": (lambda w: w.pop("lm_head.weight"), "lm_head.weight is missing"),
}


@pytest.mark.parametrize(("damage", "sentence"), WEIGHTS.values(), ids=WEIGHTS.keys())
def test_damaged_tensor_is_named(
    copy: Path, damage: Callable[[Weights], object], sentence: str
) -> None:
    assert sentence in refused_after(copy, damage)


def test_config_of_a_larger_model_is_refused_before_allocation(copy: Path) -> None:
    rewrite(copy, "config.json", lambda c: c["text_config"].update(intermediate_size=2**40))
    assert "config.json describes" in refused(copy)


def test_processor_does_not_shrink_frames_that_fit_the_protocol(copy: Path) -> None:
    rewrite(
        copy,
        "preprocessor_config.json",
        lambda c: c.update(size={"shortest_edge": 784, "longest_edge": 64 * 784}),
    )
    conversation = TransformersBackend.load(str(copy)).open_conversation()
    message = Message("user", (Image(noise_frame(1, 560, 700)),))
    empty = conversation.count_tokens([Message("user", ())])
    assert conversation.count_tokens([message]) - empty == 20 * 25 + 2


# -- tokenizers ----------------------------------------------------------------------------------------------------------


def drop_tokens(tokenizer: dict[str, Any]) -> None:
    """Drop the last 200 tokens of the vocabulary."""
    tokenizer["added_tokens"] = tokenizer["added_tokens"][:7]
    vocabulary = {token: n for token, n in tokenizer["model"]["vocab"].items() if n < 700}
    merges = [pair for pair in tokenizer["model"]["merges"] if "".join(pair) in vocabulary]
    tokenizer["model"].update(vocab=vocabulary, merges=merges)


def swap_placeholders(tokenizer: dict[str, Any]) -> None:
    """Swap the image and video placeholder tokens."""
    first, second = tokenizer["added_tokens"][5], tokenizer["added_tokens"][6]
    first["content"], second["content"] = second["content"], first["content"]
    vocabulary = tokenizer["model"]["vocab"]
    image, video = "<|image_pad|>", "<|video_pad|>"
    vocabulary[image], vocabulary[video] = vocabulary[video], vocabulary[image]


def rename_control_token(tokenizer: dict[str, Any]) -> None:
    tokenizer["added_tokens"][1]["content"] = "<|im_begin|>"
    tokenizer["model"]["vocab"]["<|im_begin|>"] = tokenizer["model"]["vocab"].pop("<|im_start|>")


def add_tokens(tokenizer: dict[str, Any]) -> None:
    last = tokenizer["added_tokens"][-1]
    tokenizer["added_tokens"] += [
        last | {"id": VOCABULARY_SIZE + n, "content": f"<new {n}>"} for n in range(3)
    ]


ROWS = f"{VOCABULARY_SIZE:,}"
TOKENIZERS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "too few tokens": (drop_tokens, f"has 700 tokens, but the model has {ROWS} rows"),
    "too many tokens": (
        add_tokens,
        f"has {VOCABULARY_SIZE + 3:,} tokens, but the model has {ROWS} rows",
    ),
    "placeholders swapped": (swap_placeholders, "belongs to another model"),
    "a control token missing": (rename_control_token, "lacks the control token <|im_start|>"),
}


@pytest.mark.parametrize(("damage", "sentence"), TOKENIZERS.values(), ids=TOKENIZERS.keys())
def test_tokenizer_of_another_model_is_refused(
    copy: Path, damage: Callable[[dict[str, Any]], object], sentence: str
) -> None:
    rewrite(copy, "tokenizer.json", damage)
    assert sentence in refused(copy)


# -- marker --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_changed_bit_in_a_file_with_a_checksum_is_refused(copy: Path, name: str) -> None:
    write_marker(copy, "concat")
    assert TransformersBackend.load(str(copy)).protocols == ("concat",)
    content = bytearray((copy / name).read_bytes())
    content[-40] ^= 1
    (copy / name).write_bytes(content)
    assert f"{name} of judge is not what was shipped" in refused(copy)


def test_checkpoint_in_the_hub_s_cache_is_named_by_its_id(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    cached = shutil.copytree(
        checkpoint_folder, tmp_path / "models--qunwang13--vr-thinker" / "snapshots" / "0123abcd"
    )
    backend = TransformersBackend.load(str(cached))
    assert (backend.name, backend.protocols) == ("qunwang13/vr-thinker", ("concat",))


# -- a check of the comparisons above ---------------------------------------------------------------------------------


def test_checkpoint_of_another_seed_replies_differently(
    tmp_path: Path, small: TransformersBackend
) -> None:
    """Equal replies mean equal checkpoints."""
    other = TransformersBackend.load(str(write_random_checkpoint(tmp_path / "other", seed=1)))
    replies = [generate(each.open_conversation(), ASK).tokens for each in (other, small)]
    assert replies[0] != replies[1]
