"""Weights in 4 or 8 bits, and LoRA adapters: what they need, that they judge, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForImageTextToText,
    BitsAndBytesConfig,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)

from tests.support.drawn_pairs import drawn_pairs
from tests.support.families import write_qwen3_vl
from vrthinker_core import VideoPair, judge, open_backend
from vrthinker_core.backends import NANO, Backend, checkpoint as loader, devices, quantize
from vrthinker_core.backends.checkpoint_files import ADAPTER, MARKER
from vrthinker_core.backends.quantize import WEIGHTS, kept_modules, needs_of
from vrthinker_core.errors import CheckpointError
from vrthinker_core.types import Settings, Verdict
from vrthinker_core.types.events import Finished

SEVEN_BILLION = Qwen2_5_VLConfig(
    text_config={
        "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4,
    },
    vision_config={"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "out_hidden_size": 3584, "num_heads": 16},
    tie_word_embeddings=False,
)  # fmt: skip
"""The shape of the published 7B, from its config.json."""


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[VideoPair]:
    return drawn_pairs(2, 11, tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small LoRA on the built-in judge, as peft writes it."""
    folder = tmp_path_factory.mktemp("adapters") / "tuned"
    torch.manual_seed(0)
    model: Any = AutoModelForImageTextToText.from_pretrained(NANO, dtype=torch.float32)
    with warnings.catch_warnings(action="ignore"):  # Of names that transformers is to drop
        adapted = get_peft_model(
            model, LoraConfig(r=4, target_modules=r".*language_model.*\.(q_proj|up_proj)")
        )
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.002)
    adapted.save_pretrained(folder)
    return folder


@pytest.fixture
def copy(adapter: Path, tmp_path: Path) -> Path:
    return shutil.copytree(adapter, tmp_path / "tuned")


def verdicts(backend: Backend, pairs: list[VideoPair]) -> list[Verdict | None]:
    ends = [
        event
        for pair in pairs
        for event in judge(pair, backend, Settings(max_turns=1, max_new_tokens=400))
        if isinstance(event, Finished)
    ]
    return [end.verdict for end in ends]


def refused(name: str) -> str:
    with pytest.raises(CheckpointError) as caught:
        open_backend(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("bits", ["4bit", "8bit"])
def test_fewer_bits_judge_drawn_pairs_as_whole_weights_do(
    bits: str, pairs: list[VideoPair], nano: Backend
) -> None:
    backend: Any = open_backend(f"hf:{NANO}?quantize={bits}")
    assert backend.name == f"nano ({bits})"
    assert verdicts(backend, pairs) == verdicts(nano, pairs)
    layers = backend.loaded.model.model.language_model.layers[0]
    assert type(layers.mlp.up_proj) is not torch.nn.Linear
    assert type(backend.loaded.model.model.visual.blocks[0].mlp.up_proj) is torch.nn.Linear


def test_a_folder_that_bitsandbytes_quantised_opens(pairs: list[VideoPair], tmp_path: Path) -> None:
    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.float32,
        llm_int8_skip_modules=["model.visual", "lm_head"],
    )
    stored: Any = Qwen2_5_VLForConditionalGeneration
    folder = tmp_path / "small"
    stored.from_pretrained(NANO, dtype=torch.float32, quantization_config=config).save_pretrained(
        folder
    )
    for path in NANO.iterdir():
        if path.name not in (MARKER, "config.json") and path.suffix != ".safetensors":
            shutil.copy(path, folder)
    marker = json.loads((NANO / MARKER).read_text())
    marker.pop("sha256")
    (folder / MARKER).write_text(json.dumps(marker))
    loading = verdicts(open_backend(f"hf:{NANO}?quantize=4bit"), pairs)
    assert verdicts(open_backend(f"hf:{folder}"), pairs) == loading
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
    bits: str, adapter: Path, pairs: list[VideoPair], nano: Backend
) -> None:
    backend: Any = open_backend(f"hf:{adapter}{bits}")
    assert backend.name.startswith("tuned")
    assert (backend.protocols, backend.scope) == (nano.protocols, nano.scope)
    assert verdicts(backend, pairs) == verdicts(nano, pairs)
    merged = not any("lora_" in name for name, _ in backend.loaded.model.named_parameters())
    assert merged is not bool(bits)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"peft_type": "IA3"}, "only LORA"),
        ({"base_model_name_or_path": "/nowhere/base-7b"}, "base model of tuned is not here"),
        ({"base_model_name_or_path": None}, "does not name its base"),
        ({"target_modules": ["no_such_layer"]}, "does not belong"),
    ],
)
def test_an_adapter_that_cannot_be_used_is_refused(
    change: dict[str, object], says: str, copy: Path
) -> None:
    said = json.loads((copy / ADAPTER).read_text()) | change
    (copy / ADAPTER).write_text(json.dumps(said))
    assert says in refused(f"hf:{copy}")
    assert "/nowhere" not in refused(f"hf:{copy}")


def test_adapter_weights_must_be_safetensors_finite_and_all_used(copy: Path) -> None:
    weights = load_file(copy / WEIGHTS)
    first = next(iter(weights))
    save_file(
        {**weights, "base_model.model.other.lora_A.weight": torch.zeros(4, 4)}, copy / WEIGHTS
    )
    assert "of its" in refused(f"hf:{copy}")
    save_file({**weights, first: weights[first] * torch.nan}, copy / WEIGHTS)
    assert "no numbers" in refused(f"hf:{copy}")
    (copy / WEIGHTS).rename(copy / "adapter_model.bin")
    assert "safetensors" in refused(f"hf:{copy}")


@pytest.mark.parametrize(("bits", "gigabytes"), [(None, 16.6), ("8bit", 10.1), ("4bit", 6.9)])
def test_the_7b_needs_what_the_readme_says(bits: Any, gigabytes: float) -> None:
    with torch.device("meta"):
        model = Qwen2_5_VLForConditionalGeneration(SEVEN_BILLION)
    needs = needs_of(model, bits, torch.bfloat16)
    assert round(needs.weights / 1e9, 1) == gigabytes
    assert round(needs.cache / 1e9, 1) == 1.1
    assert kept_modules(model) == ["model.visual", "lm_head"]


@pytest.mark.parametrize(
    ("free", "says"),
    [(40.0, ""), (11.9, "add ?quantize=8bit"), (9.0, "add ?quantize=4bit"), (2.0, "nano")],
)
def test_what_does_not_fit_is_refused_with_the_next_way(
    free: float, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantize, "available_memory", lambda _: int(free * 1e9))
    with torch.device("meta"):
        model = Qwen2_5_VLForConditionalGeneration(SEVEN_BILLION)
    if not says:
        quantize.require_room("The 7B", model, None, torch.bfloat16, "cuda")
        return
    with pytest.raises(CheckpointError, match=re.escape(says)) as caught:
        quantize.require_room("The 7B", model, None, torch.bfloat16, "cuda")
    assert f"{free:.1f} are free" in str(caught.value)


def test_a_device_that_is_not_there_is_named() -> None:
    missing = next(each for each in ("mps", "xpu", "cuda") if not devices._is_there(each))
    assert f"no device {missing}" in refused(f"hf:{NANO}?device={missing}")


def test_nothing_is_fetched_for_a_model_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []

    def fetch(source: str, *, local_files_only: bool = False, **_: object) -> str:
        if local_files_only:
            raise loader.checkpoint_files.LocalEntryNotFoundError("not here")
        fetched.append(source)
        raise AssertionError

    monkeypatch.setattr(loader.checkpoint_files, "snapshot_download", fetch)
    monkeypatch.setattr(loader.checkpoint_files, "require_disk", lambda _: None)
    monkeypatch.setattr(loader.checkpoint_files.HfApi, "model_info", lambda *_, **__: None)
    monkeypatch.setattr(loader.AutoConfig, "from_pretrained", lambda *_, **__: SEVEN_BILLION)
    monkeypatch.setattr(quantize, "available_memory", lambda _: 2**30)
    assert "qunwang13/vrthinker needs" in refused("hf:qunwang13/vrthinker")
    assert fetched == []
