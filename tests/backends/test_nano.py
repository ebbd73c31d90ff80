"""The built-in judge as it is shipped. How well it judges is what `python -m tests.benchmarks.nano` measures."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoTokenizer,
    Qwen2_5_VLForConditionalGeneration,
)

from tests.backends.support.random_model import generate, noise_frame, system, user
from vrthinker_core.backends import NANO
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.drawn.world import TRAINING_SEEDS, draw_pair
from vrthinker_core.protocols import make_protocol
from vrthinker_core.protocols.base import prompt_text
from vrthinker_core.training.pair_set import DrawnFrames
from vrthinker_core.types import ProtocolName, Settings
from vrthinker_core.types.messages import Sampling

ASK = [user(*(noise_frame(n, 112, 112) for n in range(8)), "Compare the two videos.")]


def test_nano_names_its_protocols_and_every_file_is_small_and_has_a_checksum(
    nano: TransformersBackend,
) -> None:
    assert nano.protocols == ("paired", "concat")
    assert [*nano.marker.forced.values()] == [
        ("More frames are needed.\n</Think>\n<tool_call>", "</Think>\n<Answer>"),
        ("More frames are needed.\n</think>\n<recommend answer>", "</think>\n<final answer>"),
    ]
    files = {path.name: path.stat().st_size for path in NANO.iterdir()}
    sums = json.loads((NANO / "vrthinker.json").read_text())["sha256"]
    assert set(files) - {"README.md", "vrthinker.json"} == set(sums)
    assert max(files.values()) < 9_000_000
    assert repr(nano) == f"<TransformersBackend {nano.name}, paired and concat>"


def test_the_whole_system_prompt_is_one_token(nano: TransformersBackend) -> None:
    count = nano.open_conversation().count_tokens
    assert count([system(prompt_text("paired_system")), *ASK]) == count([system(""), *ASK]) + 1


@pytest.mark.parametrize(
    ("protocol", "tags"), [("paired", ("Snapshot", "Think")), ("concat", ("snapshot", "think"))]
)
def test_nano_replies_in_the_form_of_the_protocol_it_is_asked_in(
    nano: TransformersBackend, protocol: ProtocolName, tags: tuple[str, str]
) -> None:
    prompts, pair = make_protocol(Settings(), protocol), draw_pair(TRAINING_SEEDS)
    frames = DrawnFrames(pair, grid=prompts.grid)(prompts.opening_refs)
    opening = prompts.opening_messages(pair.prompt, frames)
    reply = generate(nano.open_conversation(), opening, Sampling(max_new_tokens=600))
    assert [reply.text.count(f"<{mark}{tag}>") for tag in tags for mark in ("", "/")] == [1] * 4
    assert reply.text.startswith(f"<{tags[0]}>")


def test_nano_sets_one_torch_thread_in_any_calling_thread(nano: TransformersBackend) -> None:
    """Two threads on a busy machine wait for one another; torch keeps the setting for each calling thread."""

    def run() -> int:
        torch.set_num_threads(2)
        generate(nano.open_conversation(), ASK, Sampling(max_new_tokens=1))
        return torch.get_num_threads()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(run).result() == 1


def test_stock_transformers_loads_nano() -> None:
    _, info = Qwen2_5_VLForConditionalGeneration.from_pretrained(NANO, output_loading_info=True)
    assert not any(info.values())
    tokenizer = AutoTokenizer.from_pretrained(NANO)
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|endoftext|>")
    assert 1556 == len(tokenizer) == AutoConfig.from_pretrained(NANO).text_config.vocab_size
    processor = AutoImageProcessor.from_pretrained(NANO, backend="pil")
    assert processor.size["shortest_edge"] == processor.size["longest_edge"] == 112 * 112


def test_chat_template_masks_the_assistant_s_tokens() -> None:
    """So that training can compute its loss on the judge's own tokens alone."""
    tokenizer = AutoTokenizer.from_pretrained(NANO)
    chat = [{"role": "user", "content": "Compare."}, {"role": "assistant", "content": "smooth"}]
    how = {"return_assistant_tokens_mask": True, "return_dict": True}
    rendered = tokenizer.apply_chat_template(chat, **how)
    tokens = zip(rendered["input_ids"], rendered["assistant_masks"], strict=True)
    generated = [token for token, masked in tokens if masked]
    assert tokenizer.decode(generated) == "smooth<|im_end|>"
