"""A checkpoint is complete, sound and trained, or it is refused in one sentence that names what is wrong."""

from __future__ import annotations

import hashlib
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
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tests.backends.support.random_model import VOCABULARY_SIZE, generate, noise_frame, user
from vrthinker_core import Settings
from vrthinker_core.backends import NANO
from vrthinker_core.backends.chat_template import VisionItem
from vrthinker_core.backends.checkpoint_files import GENERATION_CONFIG, MARKER
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import CheckpointError
from vrthinker_core.protocols import make_protocol
from vrthinker_core.types.messages import Sampling

UP = "model.layers.1.mlp.up_proj.weight"
"""A tensor's name in the file, in the layout of the published checkpoints."""

UP_IN_MODEL = "model.language_model.layers.1.mlp.up_proj.weight"
"""The same tensor's name in the model."""
ASK = [user("Compare the two videos.")]
Weights = dict[str, torch.Tensor]


def seal(folder: Path, protocol: str = "paired") -> None:
    """Write a marker with a checksum of every file, as the built-in judge has one."""
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    (folder / MARKER).write_text(json.dumps({"protocol": protocol, "sha256": sums}))


def refused(source: Path | str) -> str:
    """The sentence that refuses a checkpoint."""
    with pytest.raises(CheckpointError) as caught:
        TransformersBackend.load(str(source))
    sentence = str(caught.value)
    assert sentence.isprintable()
    assert "Traceback" not in sentence
    return sentence


# -- files ---------------------------------------------------------------------------------------------------------------

CONFIG, WEIGHTS_FILE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
Damage = Callable[[Path], object]


def rewrite(folder: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads((folder / name).read_text(encoding="utf-8"))
    change(content)
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def edits(name: str, **changed: Any) -> Damage:
    return lambda folder: rewrite(folder, name, lambda content: content.update(changed))


def edits_text(**changed: Any) -> Damage:
    """Change the settings of the language model."""
    return lambda folder: rewrite(folder, CONFIG, lambda c: c["text_config"].update(changed))


def cuts(name: str, size: int) -> Damage:
    return lambda folder: os.truncate(folder / name, size)


def writes(name: str, text: str) -> Damage:
    return lambda folder: (folder / name).write_text(text)


def drops(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def indexes(**weight_map: str) -> Damage:
    """Leave one shard, and an index of these."""

    def damage(folder: Path) -> None:
        (folder / WEIGHTS_FILE).rename(folder / "one.safetensors")
        index = {"weight_map": weight_map} if weight_map else {}
        (folder / INDEX).write_text(json.dumps(index))

    return damage


def replace_by_a_pickle(folder: Path) -> None:
    (folder / WEIGHTS_FILE).unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")


def leave_a_checksum_of_nothing(folder: Path) -> None:
    seal(folder)
    (folder / "chat_template.jinja").unlink()


FILES: dict[str, tuple[Damage, str]] = {
    "another model": (edits(CONFIG, model_type="llava"), "judge is a 'llava' model"),
    "a pickle": (replace_by_a_pickle, "pytorch_model.bin is a pickle"),
    "a shard missing": (
        indexes(a="one.safetensors", b="b.safetensors"),
        "b.safetensors is missing",
    ),
    "a shard elsewhere": (indexes(a="../one.safetensors"), "names '../one.safetensors'"),
    "empty index": (indexes(), "maps no weights"),
    "truncated": (cuts(WEIGHTS_FILE, 100_000), "damaged: it should be .* bytes long"),
    "quantised": (edits(CONFIG, quantization_config={"bits": 4}), "judge is quantised"),
    "another adapter": (writes("adapter_config.json", "{}"), "only LORA is read"),
    "tokenizer not JSON": (cuts("tokenizer.json", 900), "The tokenizer of judge cannot be used"),
    "other patches": (edits("preprocessor_config.json", merge_size=4), "cuts patches of"),
    "a string for a number": (edits_text(hidden_size="big"), "config.json"),
    "config not JSON": (writes(CONFIG, "{"), "config.json of judge is damaged"),
    "marker not JSON": (writes(MARKER, "x"), "vrthinker.json of judge is damaged"),
    "no checksums": (writes(MARKER, '{"sha256": "x"}'), "checksums are no table"),
    "no config": (drops(CONFIG), "judge is no checkpoint: it has no config.json"),
    "no weights": (drops(WEIGHTS_FILE), "judge has no weights"),
    "no tokenizer": (drops("tokenizer.json"), "tokenizer.json is missing"),
    "no processor": (drops("preprocessor_config.json"), "preprocessor_config.json is missing"),
    "no template": (leave_a_checksum_of_nothing, "chat_template.jinja is missing"),
    "no JSON": (writes(GENERATION_CONFIG, "{"), f"{GENERATION_CONFIG} of judge .* is not JSON"),
    "a list": (writes(GENERATION_CONFIG, "[]"), f"{GENERATION_CONFIG} .* holds no JSON object"),
    **{
        f"an end {token!s:.9}": (edits(GENERATION_CONFIG, eos_token_id=token), "ends replies with ")
        for token in ("2", [[2], 0], [2, -1], 100_000, 2.5, True, "x" * 1000)
    },
    **{
        f"a penalty {penalty}": (
            edits(GENERATION_CONFIG, repetition_penalty=penalty),
            re.escape(f"its repetition_penalty is {penalty!r}, not 0.01 to 100."),
        )
        for penalty in ("x", float("nan"), float("inf"), 0, 1e-300, [1.1])
    },
    "no context": (edits_text(max_position_embeddings=0), "it allows a context of 0 tokens."),
    **{
        str(said): (writes(MARKER, json.dumps(said)), f"^{MARKER} .* its `{next(iter(said))}` is ")
        for said in (
            {"protocol": ["paired", "other"]},
            {"protocol": ["paired", None]},
            {"forced": ["one"], "protocol": "paired"},
            {"forced": {"concat": ["a", ""]}},
            {"forced": {"other": ["a", "b"]}},
            {"scope": "all"},
            {"video_items": "no"},
        )
    },
    "too large for any memory": (edits_text(intermediate_size=2**40), "config.json describes"),
}


@pytest.mark.parametrize(("damage", "sentence"), FILES.values(), ids=FILES)
def test_damaged_file_is_named(copy: Path, damage: Damage, sentence: str) -> None:
    damage(copy)
    assert re.search(sentence, told := refused(copy)), told
    assert len(told) < 300


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


def rename_all(weights: Weights) -> None:
    for name in list(weights):
        weights[f"other.{name}"] = weights.pop(name)


def flip_bit(weights: Weights) -> None:
    """Flip the highest bit of one exponent, as a bad disk may."""
    weights[UP].view(torch.int32)[3, 3] ^= 1 << 30


NO_NUMBERS = f"{UP_IN_MODEL} holds values that are no numbers"
WEIGHTS: dict[str, tuple[Callable[[Weights], object], str]] = {
    "one tensor missing": (lambda w: w.pop(UP), f"{UP_IN_MODEL} is missing"),
    "every key renamed": (rename_all, "None of the weights of judge fits"),
    "another shape": (lambda w: w.update({UP: w[UP][:-1]}), f"shape of {UP_IN_MODEL}"),
    "a layer too many": (
        lambda w: w.update({UP.replace("1", "7"): w[UP].clone()}),
        "layers.7.mlp.up_proj.weight is left over",
    ),
    "not a number": (lambda w: w[UP].fill_(float("nan")), NO_NUMBERS),
    "infinite": (lambda w: w[UP].view(-1)[5:6].fill_(float("-inf")), NO_NUMBERS),
    "a flipped bit": (flip_bit, f"{UP_IN_MODEL} holds"),
    "no output rows": (lambda w: w.pop("lm_head.weight"), "lm_head.weight is missing"),
}


@pytest.mark.parametrize(("damage", "sentence"), WEIGHTS.values(), ids=WEIGHTS)
def test_damaged_tensor_is_named(
    copy: Path, damage: Callable[[Weights], object], sentence: str
) -> None:
    weights = load_file(copy / WEIGHTS_FILE)
    damage(weights)
    save_file(weights, copy / WEIGHTS_FILE, metadata={"format": "pt"})
    assert sentence in refused(copy)


def test_processor_does_not_shrink_frames_that_fit_the_protocol(copy: Path) -> None:
    size = {"shortest_edge": 784, "longest_edge": 64 * 784}
    edits("preprocessor_config.json", size=size)(copy)
    conversation = TransformersBackend.load(str(copy)).open_conversation()
    frame = noise_frame(1, 560, 700)
    shown, empty = (conversation.count_tokens([user(*frames)]) for frames in ([frame], []))
    assert shown - empty == 20 * 25 + 2


# -- tokenizers ----------------------------------------------------------------------------------------------------------


def drop_tokens(tokenizer: dict[str, Any]) -> None:
    """Drop the last 200 tokens of the vocabulary."""
    tokenizer["added_tokens"] = tokenizer["added_tokens"][:7]
    vocabulary = {token: n for token, n in tokenizer["model"]["vocab"].items() if n < 700}
    merges = [pair for pair in tokenizer["model"]["merges"] if "".join(pair) in vocabulary]
    tokenizer["model"].update(vocab=vocabulary, merges=merges)


def swap_placeholders(tokenizer: dict[str, Any]) -> None:
    """Swap the image and video placeholder tokens."""
    first, second = tokenizer["added_tokens"][5:7]
    vocabulary = tokenizer["model"]["vocab"]
    for each in (first, second):
        vocabulary[each["content"]] = first["id"] + second["id"] - each["id"]
    first["content"], second["content"] = second["content"], first["content"]


def rename_control_token(tokenizer: dict[str, Any]) -> None:
    tokenizer["added_tokens"][1]["content"] = "<|im_begin|>"
    tokenizer["model"]["vocab"]["<|im_begin|>"] = tokenizer["model"]["vocab"].pop("<|im_start|>")


def add_tokens(tokenizer: dict[str, Any]) -> None:
    new = ({"id": VOCABULARY_SIZE + n, "content": f"<new {n}>"} for n in range(3))
    tokenizer["added_tokens"] += [tokenizer["added_tokens"][-1] | each for each in new]


ROWS = f"but the model has {VOCABULARY_SIZE:,} rows"
TOKENIZERS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "too few tokens": (drop_tokens, f"has 700 tokens, {ROWS}"),
    "too many tokens": (add_tokens, f"has {VOCABULARY_SIZE + 3:,} tokens, {ROWS}"),
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
    seal(copy, "concat")
    backend = TransformersBackend.load(str(copy))
    assert (backend.name, backend.protocols) == ("judge", ("concat",))
    content = bytearray((copy / name).read_bytes())
    content[-40] ^= 1
    (copy / name).write_bytes(content)
    assert f"{name} of judge is not what was shipped" in refused(copy)


def test_checkpoint_in_the_hub_s_cache_is_named_by_its_id(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "models--qunwang13--vr-thinker" / "snapshots" / "0123abcd"
    cached = shutil.copytree(checkpoint_folder, folder)
    backend = TransformersBackend.load(str(cached))
    assert (backend.name, backend.protocols) == ("qunwang13/vr-thinker", ("concat",))


# -- protocols and forced answers --------------------------------------------------------------------------------------


FORCED = {
    "paired": ["</Think>\n<tool_call>", "</Think>\n<Answer>"],
    "concat": ["</think>\n", "</think>\n<final answer>"],
}


@pytest.fixture
def judge(tmp_path: Path) -> Path:
    """The built-in judge's files without their checksums, to be changed."""
    folder = Path(shutil.copytree(NANO, tmp_path / "judge"))
    rewrite(folder, MARKER, lambda marker: marker.pop("sha256"))
    return folder


def test_a_checkpoint_may_speak_several_protocols_each_forced_in_its_own_words(judge: Path) -> None:
    edits(MARKER, protocol=["paired", "concat"], forced=FORCED)(judge)
    backend = TransformersBackend.load(str(judge))
    assert backend.protocols == ("paired", "concat")
    assert not backend.follows_instructions
    for protocol, own in FORCED.items():
        prompts = make_protocol(Settings(), protocol)  # type: ignore[arg-type]
        assert backend.marker.redirect(prompts.redirect) == tuple(own)
    edits(MARKER, protocol="paired", forced=FORCED["paired"])(judge)
    assert list(TransformersBackend.load(str(judge)).marker.forced) == ["paired"]


def test_a_checkpoint_that_learnt_no_video_items_gets_every_frame_as_an_image(judge: Path) -> None:
    protocol, found = make_protocol(Settings(), "concat"), []
    frames = [noise_frame(k, 112, 112) for k in range(len(protocol.opening_refs))]
    opening = list(protocol.opening_messages("A red ball moves right.", frames))
    for video_items in (True, False):
        edits(MARKER, video_items=video_items)(judge)
        backend = TransformersBackend.load(str(judge))
        rendered = backend.loaded.render(opening)
        found.append([item for item in rendered if isinstance(item, VisionItem)])
    packed, single = found
    assert [item.kind for item in packed] == ["video"]
    assert [item.kind for item in single] == ["image"] * 8
    assert [key for item in single for key in item.frame_keys] == list(packed[0].frame_keys)
    assert generate(backend.open_conversation(), opening, Sampling(2)).tokens


# -- the end of a reply, repetition and the context ----------------------------------------------------------------------


def test_without_one_config_json_says_what_ends_a_reply(copy: Path) -> None:
    (copy / GENERATION_CONFIG).unlink()
    assert TransformersBackend.load(str(copy)).loaded.stop_tokens == {0, 2}
    edits_text(eos_token_id=100_000)(copy)
    assert refused(copy).startswith("config.json of judge is damaged: it ends replies with 100000")


@pytest.mark.parametrize("said", [{}, dict.fromkeys(("eos_token_id", "repetition_penalty"))])
def test_what_is_sound_is_taken(said: dict[str, Any], copy: Path) -> None:
    (copy / GENERATION_CONFIG).write_text(json.dumps(said))
    loaded = TransformersBackend.load(str(copy)).loaded
    assert (loaded.stop_tokens, loaded.repetition_penalty) == ({0, 2}, 1.0)


# -- zeros and noise ---------------------------------------------------------------------------------------------------


SHARDS = sorted(path.name for path in NANO.glob("*.safetensors"))
Draw = Callable[[torch.Tensor], torch.Tensor]


def tensors_of(path: Path) -> list[str]:
    with safe_open(path, framework="numpy") as file:
        return list(file.keys())


def redraw(folder: Path, names: list[str], draw: Draw, only: str = "") -> None:
    """Draw anew every matrix of these files whose name holds `only`."""
    torch.manual_seed(0)
    for name in names:
        weights = load_file(folder / name)
        for tensor, weight in weights.items():
            if weight.ndim > 1 and only in tensor:
                weights[tensor] = draw(weight).to(weight.dtype)
        save_file(weights, folder / name, metadata={"format": "pt"})


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("name", SHARDS)
def test_half_of_a_shard_of_zeros_is_refused(judge: Path, name: str, half: int) -> None:
    content = bytearray((judge / name).read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    middle = (start + len(content)) // 2
    first, last = ((start, middle), (middle, len(content)))[half]
    content[first:last] = bytes(last - first)
    (judge / name).write_bytes(content)
    sentence = refused(judge)
    assert sentence.startswith(f"{name} is damaged: ")
    assert any(f" of {tensor} are zeros." in sentence for tensor in tensors_of(judge / name))


def like_its_own(weight: torch.Tensor) -> torch.Tensor:
    return torch.randn(weight.shape) * weight.float().std()


@pytest.mark.parametrize(
    ("draw", "names"),
    [
        (lambda weight: torch.randn(weight.shape) * 0.02, SHARDS[:1]),
        (lambda weight: torch.full(weight.shape, 0.02), SHARDS[:1]),
        *((like_its_own, names) for names in (SHARDS[:1], SHARDS[1:], SHARDS)),
    ],
)
def test_a_shard_of_random_values_is_refused(judge: Path, names: list[str], draw: Draw) -> None:
    redraw(judge, names, draw)
    file, _, rest = refused(judge).partition(" is damaged or was never trained: ")
    assert file in names
    assert rest.split()[0] in tensors_of(judge / file)


def test_one_layer_of_random_values_is_refused(judge: Path) -> None:
    redraw(judge, SHARDS, like_its_own, only=".layers.2.")
    assert ": model.layers.2.mlp.down_proj.weight and its layer look random." in refused(judge)


def test_weights_that_are_all_zero_are_refused_however_small(copy: Path) -> None:
    redraw(copy, ["model.safetensors"], torch.zeros_like)
    assert refused(copy).startswith("model.safetensors is damaged: 100% of ")


def test_the_judge_opens_without_its_checksums_even_with_biases_of_zeros(judge: Path) -> None:
    assert TransformersBackend.load(str(judge)).protocols == ("paired", "concat")
    for name in SHARDS:
        weights = load_file(judge / name)
        for tensor in weights:
            if tensor.endswith("bias"):
                weights[tensor].zero_()
        save_file(weights, judge / name, metadata={"format": "pt"})
    assert TransformersBackend.load(str(judge))
