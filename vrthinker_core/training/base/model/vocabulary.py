"""The small model's vocabulary: a byte-level BPE in which what its protocols and its teacher always say alike is one token.

Any text can still be encoded. It is written as a checkpoint's tokenizer, so that `AutoTokenizer` and our own loader open it.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from vrthinker_core.backends.local.text.tokenizer import CONTROL_TOKENS
from vrthinker_core.dialects.factory import make_dialect
from vrthinker_core.training.drawn_teacher import phrases
from vrthinker_core.types import ProtocolName, Settings
from vrthinker_core.types.messages import Text

MERGED = 1100  # Tokens of bytes and words, control tokens included
NUMBERS = range(128)  # Of frames, in either dialect
TEMPLATE = "chat_template.jinja"
PROTOCOLS: tuple[ProtocolName, ...] = ("paired", "concat")
_CONTROL = ("endoftext", "im_start", "im_end", "vision_start", "vision_end", "image_pad", "video_pad")
_WEIGHT = 400  # How often a word that is to be one token stands in the text that merges are learnt from
_HOLE = "\x00"  # Where a prompt goes in a template


def make_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """A tokenizer for these texts: prompts, and replies of the teacher."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=MERGED,
        special_tokens=[f"<|{name}|>" for name in _CONTROL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(texts), trainer)
    tokenizer.add_tokens([AddedToken(phrase, normalized=False) for phrase in fixed_phrases()])
    return tokenizer


def control_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """The ids of the control tokens by their written form."""
    return {token: tokenizer.get_vocab()[token] for token in CONTROL_TOKENS}


def save_tokenizer(tokenizer: Tokenizer, folder: Path, template: str) -> None:
    """Write tokenizer.json, tokenizer_config.json and the chat template into a checkpoint's folder."""
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "bos_token": None,
        "image_token": "<|image_pad|>",
        "video_token": "<|video_pad|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 4096,
        "padding_side": "left",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    (folder / TEMPLATE).write_text(template, "utf-8")


def fixed_phrases() -> tuple[str, ...]:
    """Everything that is one token besides bytes and words: of the dialects, of the teacher, and numbers of frames."""
    found = [*_dialect_phrases(), *phrases.all_phrases(), *(f"#{number}" for number in NUMBERS)]
    for protocol in PROTOCOLS:
        found.append(phrases.alignment_head(make_dialect(Settings(), protocol)))
    return tuple(dict.fromkeys(found))


def _dialect_phrases() -> Iterator[str]:
    """What a dialect always says alike: its prompts around the user's, calls and answers, the sentences of its tool."""
    for protocol in PROTOCOLS:
        dialect = make_dialect(Settings(), protocol)
        yield dialect.system
        *_, user = dialect.opening_messages(_HOLE, ())
        yield from "".join(part.text for part in user.parts if isinstance(part, Text)).split(_HOLE)
        yield from dialect.call([0]).split("0")
        small = protocol == "concat"
        yield from (f"<{name.lower() if small else name}>\n" for name in ("Snapshot", "Think"))
        yield from (f"</{name.lower() if small else name}>\n" for name in ("Snapshot", "Think"))
    yield from ("<Answer>", "</Answer>", "<final answer>", "</final answer>", "<recommend answer>", "</recommend answer>\n")
    yield from ("<tool_response>Retrieved ", " frame pairs ([", "]) symmetrically from both videos.</tool_response>")
    yield "\nAfter selecting frames: Here are the selected frames"


def _corpus(texts: Iterable[str]) -> Iterator[str]:
    """What the merges are learnt from: the texts without fixed phrases, and every word and number often enough."""
    fixed = sorted(fixed_phrases(), key=len, reverse=True)
    for text in texts:
        for phrase in fixed:
            text = text.replace(phrase, "\n")
        yield text
    for protocol in PROTOCOLS:
        dialect = make_dialect(Settings(), protocol)
        yield dialect.system
    for word in (*phrases.words(), *(f"{blank}{number}" for number in NUMBERS for blank in ("", " "))):
        yield from [word] * _WEIGHT
