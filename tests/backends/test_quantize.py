"""Weights in 4 or 8 bits, LoRA adapters and memory: what a model needs, that it judges, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
import struct
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForImageTextToText,
    BitsAndBytesConfig,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)

from tests.support.drawn_pairs import drawn_pairs
from tests.support.families import write_qwen3_vl
from vrthinker_core import Verdict, VideoPair, judge, open_backend, system
from vrthinker_core.backends import NANO, Backend, checkpoint as loader, devices, quantize
from vrthinker_core.backends.checkpoint_files import ADAPTER, MARKER
from vrthinker_core.backends.offers import NEEDS_OF_7B
from vrthinker_core.backends.quantize import WEIGHTS, kept_modules, needs_of
from vrthinker_core.errors import CheckpointError
from vrthinker_core.training.estimate import TEXT_7B, VISION_7B
from vrthinker_core.types import Settings
from vrthinker_core.types.events import Finished

LARGE = {"text_config": TEXT_7B, "vision_config": VISION_7B, "tie_word_embeddings": False}
SEVEN_BILLION = Qwen2_5_VLConfig(**LARGE)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> VideoPair:
    return drawn_pairs(1, 11, tmp_path_factory.mktemp("pairs"))[0]


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small LoRA on the built-in judge, as peft writes it."""
    from peft import LoraConfig, get_peft_model

    folder = tmp_path_factory.mktemp("adapters") / "tuned"
    torch.manual_seed(0)
    model: Any = AutoModelForImageTextToText.from_pretrained(NANO, dtype=torch.float32)
    layers = r".*language_model.*\.(q_proj|up_proj)"
    with warnings.catch_warnings(action="ignore"):  # Of names that transformers is to drop
        adapted = get_peft_model(model, LoraConfig(r=4, target_modules=layers))
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.002)
    adapted.save_pretrained(folder)
    return folder


@pytest.fixture
def copied(adapter: Path, tmp_path: Path) -> Path:
    """A copy of the adapter, to be changed."""
    return shutil.copytree(adapter, tmp_path / "tuned")


def verdict(backend: Backend, pair: VideoPair) -> Verdict | None:
    *_, end = judge(pair, backend, Settings(max_turns=1, max_new_tokens=400))
    assert isinstance(end, Finished)
    return end.verdict


@pytest.fixture(scope="module")
def expected(pair: VideoPair, nano: Backend) -> Verdict | None:
    """The verdict of the built-in judge with whole weights."""
    return verdict(nano, pair)


def refused(name: str) -> str:
    with pytest.raises(CheckpointError) as caught:
        open_backend(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("bits", ["4bit", "8bit"])
def test_fewer_bits_judge_a_drawn_pair_as_whole_weights_do(
    bits: str, pair: VideoPair, expected: Verdict
) -> None:
    backend: Any = open_backend(f"hf:{NANO}?quantize={bits}")
    assert backend.name == f"nano ({bits})"
    assert verdict(backend, pair) == expected
    layers = backend.loaded.model.model.language_model.layers[0]
    assert type(layers.mlp.up_proj) is not torch.nn.Linear
    assert type(backend.loaded.model.model.visual.blocks[0].mlp.up_proj) is torch.nn.Linear


def test_a_folder_that_bitsandbytes_quantised_opens(
    pair: VideoPair, expected: Verdict, tmp_path: Path
) -> None:
    kept = ["model.visual", "lm_head"]
    config = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", llm_int8_skip_modules=kept
    )
    stored: Any = Qwen2_5_VLForConditionalGeneration
    folder = tmp_path / "small"
    model = stored.from_pretrained(NANO, dtype=torch.float32, quantization_config=config)
    model.save_pretrained(folder)
    for path in NANO.iterdir():
        if path.name not in (MARKER, "config.json") and path.suffix != ".safetensors":
            shutil.copy(path, folder)
    marker = json.loads((NANO / MARKER).read_text())
    marker.pop("sha256")
    (folder / MARKER).write_text(json.dumps(marker))
    assert verdict(open_backend(f"hf:{folder}"), pair) == expected
    assert "stored in 4bit" in refused(f"hf:{folder}?quantize=8bit")
    said = json.loads((folder / "config.json").read_text())
    said["quantization_config"] = {"quant_method": "awq"}
    (folder / "config.json").write_text(json.dumps(said))
    assert "?quantize=4bit" in refused(f"hf:{folder}")


def test_the_plain_engine_takes_fewer_bits(tmp_path: Path) -> None:
    backend: Any = open_backend(f"hf:{write_qwen3_vl(tmp_path / 'other')}?quantize=8bit")
    kinds = {type(each).__name__ for each in backend.model.get_decoder().modules()}
    assert "Linear8bitLt" in kinds


@pytest.mark.parametrize("bits", ["", "?quantize=4bit"])
def test_an_adapter_judges_on_its_base(
    bits: str, adapter: Path, pair: VideoPair, nano: Backend, expected: Verdict
) -> None:
    backend: Any = open_backend(f"hf:{adapter}{bits}")
    assert backend.name.startswith("tuned")
    assert (backend.protocols, backend.scope) == (nano.protocols, nano.scope)
    assert verdict(backend, pair) == expected
    merged = not any("lora_" in name for name, _ in backend.loaded.model.named_parameters())
    assert merged is not bool(bits)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"peft_type": "IA3"}, "only LORA"),
        ({"base_model_name_or_path": "/nowhere/base-7b"}, "base model of tuned is not here"),
        ({"base_model_name_or_path": None}, "does not name its base"),
        ({"rank_pattern": {r"(a+)+$": 4}}, "names layers by patterns"),
        ({"rank_pattern": {"q_proj": 10**7}}, "ranks that no weight has"),
        ({"rank_pattern": [1]}, "cannot be read"),
        ({"r": 10**7}, "ranks that no weight has"),
        ({"megatron_core": "os"}, "Megatron"),
    ],
)
def test_an_adapter_that_cannot_be_used_is_refused(
    change: dict[str, object], says: str, copied: Path
) -> None:
    said = json.loads((copied / ADAPTER).read_text()) | change
    (copied / ADAPTER).write_text(json.dumps(said))
    sentence = refused(f"hf:{copied}")
    assert says in sentence
    assert "/nowhere" not in sentence


def test_adapter_weights_must_be_safetensors_finite_and_all_used(copied: Path) -> None:
    weights = load_file(copied / WEIGHTS)
    first = next(iter(weights))
    other = {"base_model.model.other.lora_A.weight": torch.zeros(4, 4)}
    save_file({**weights, **other}, copied / WEIGHTS)
    assert "of its" in refused(f"hf:{copied}")
    save_file({**weights, first: weights[first] * torch.nan}, copied / WEIGHTS)
    assert "no numbers" in refused(f"hf:{copied}")
    (copied / WEIGHTS).rename(copied / "adapter_model.bin")
    assert "safetensors" in refused(f"hf:{copied}")


# -- memory --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shape_of_7b() -> Qwen2_5_VLForConditionalGeneration:
    with torch.device("meta"):
        return Qwen2_5_VLForConditionalGeneration(SEVEN_BILLION)


@pytest.mark.parametrize(("bits", "gigabytes"), [(None, 16.6), ("8bit", 10.1), ("4bit", 6.9)])
def test_the_7b_needs_what_the_readme_says(bits: Any, gigabytes: float, shape_of_7b: Any) -> None:
    needs = needs_of(shape_of_7b, bits, torch.bfloat16)
    assert round(needs.weights / 1e9, 1) == gigabytes
    assert needs == NEEDS_OF_7B[bits]
    assert kept_modules(shape_of_7b) == ["model.visual", "lm_head"]


@pytest.mark.parametrize(
    ("free", "says"),
    [(40.0, ""), (11.9, "add ?quantize=8bit"), (9.0, "add ?quantize=4bit"), (2.0, "nano")],
)
def test_what_does_not_fit_is_refused_with_the_next_way(
    free: float, says: str, shape_of_7b: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantize, "available_memory", lambda _: int(free * 1e9))
    given = ("The 7B", shape_of_7b, None, torch.bfloat16, "cuda")
    if not says:
        quantize.require_room(*given)
        return
    with pytest.raises(CheckpointError, match=re.escape(says)) as caught:
        quantize.require_room(*given)
    assert f"{free:.1f} are free" in str(caught.value)


def test_nothing_is_fetched_for_a_model_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []

    def fetch(source: str, *, local_files_only: bool = False, **_: object) -> str:
        if local_files_only:
            raise loader.checkpoint_files.LocalEntryNotFoundError("not here")
        fetched.append(source)
        raise AssertionError

    monkeypatch.setattr(loader.checkpoint_files, "snapshot_download", fetch)
    monkeypatch.setattr(loader.checkpoint_files, "hub_model", lambda _: None)
    monkeypatch.setattr(loader.checkpoint_files.HfApi, "model_info", lambda *_, **__: None)
    monkeypatch.setattr(loader.AutoConfig, "from_pretrained", lambda *_, **__: SEVEN_BILLION)
    monkeypatch.setattr(quantize, "available_memory", lambda _: 2**30)
    assert "qunwang13/vrthinker needs" in refused("hf:qunwang13/vrthinker")
    assert fetched == []


def test_files_far_larger_than_the_model_are_refused_before_they_are_read(copy: Path) -> None:
    """A sparse safetensors file of 8 TiB takes no space on the disk."""
    entry = {"dtype": "F32", "shape": [2**20, 2**21], "data_offsets": [0, 2**43]}
    header = json.dumps({"lm_head.weight": entry}).encode()
    with (copy / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        try:
            file.truncate(8 + len(header) + 2**43)
        except OSError:
            pytest.skip("this file system holds no file of that length")
    assert "is damaged: its files hold" in refused(f"hf:{copy}")


def test_memory_that_runs_out_while_a_checkpoint_is_loaded_is_named(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "check_statistics", lambda _: torch.empty(2**60))
    assert refused(f"hf:{copy}") == "judge does not fit into memory."


VERSION_2 = {
    "memory.max": "3000000", "memory.current": "2500000", "memory.stat": "file 9\ninactive_file 100000\n",
}  # fmt: skip
VERSION_1 = {
    "memory/memory.limit_in_bytes": "3000000", "memory/memory.usage_in_bytes": "2500000",
    "memory/memory.stat": "inactive_file 7\ntotal_inactive_file 100000\n",
}  # fmt: skip


@pytest.mark.parametrize(
    ("files", "limited"),
    [(VERSION_1, True), (VERSION_2, True), ({}, False), (VERSION_2 | {"memory.max": "max"}, False)],
    ids=["version 1", "version 2", "no group", "no limit"],
)
def test_memory_is_that_of_the_control_group_or_of_the_machine(
    files: dict[str, str], limited: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "CGROUP", tmp_path)
    (tmp_path / "memory").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    free = devices.available_memory("cpu")
    assert free == 600_000 if limited else free > 2**20
