"""The language model learns to read the frame code, from conversations over coded frames, without a picture or a tower.

Muon for the weights of its layers, AdamW for the rest; bfloat16 arithmetic over float32 weights. Once every gate is passed, or the
time is nearly over, the learning rate falls to 0 and training ends; a stopped one goes on from its last checkpoint with the rows it
had come to.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from torch import Tensor

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.training.base.coded_rows import (
    CodedBatch,
    CodedRow,
    TokenWeights,
    coded_row,
    conversation_items,
    parts_of_batch,
    stack_rows,
)
from vrthinker_core.training.base.conversations import (
    PairShares,
    Write,
    conversation,
    describe,
    dialect_of,
    draw_protocol,
    draw_training_pair,
    new_source,
)
from vrthinker_core.training.base.frames.coded_frames import PairCodes
from vrthinker_core.training.base.frames.light_reader import light_reader
from vrthinker_core.training.base.frames.seen_features import PairFeatures
from vrthinker_core.training.base.half_state import HalfState
from vrthinker_core.training.base.half_training import HalfOptions, Stopped, is_over, made_ahead, steps_until_save
from vrthinker_core.training.base.model import token_kinds
from vrthinker_core.training.base.model.compiled_layers import language_hidden
from vrthinker_core.training.drawn_teacher.misreading import draw_misreader
from vrthinker_core.training.drawn_world.scenes import TRAINING_SEEDS, DrawnPair
from vrthinker_core.training.frame_facts.frame_code import basis
from vrthinker_core.training.run.config import LanguageGates

UNSEEN = TRAINING_SEEDS + 10**9  # Numbers of pairs that are never trained on
TRAINED = TRAINING_SEEDS - 10**6  # Numbers of rows that are; the next ones are the first ones again
MEASURED = 12  # Batches of unseen rows: rare words are few in them
STRIDE = 123_456_789  # To the row that stands in for one that is too long


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageOptions(HalfOptions):
    """How the language model is trained."""

    batch: int = 8
    length: int = 656  # Tokens of a row; longer conversations are left out
    rate: float = 1.5e-3
    warm_up: int = 40
    pairs: PairShares = field(default_factory=PairShares)
    write: Write = describe
    gates: LanguageGates = field(default_factory=LanguageGates)
    misread: float = 0.0  # Share of rows whose teacher misreads: of these, only what the frames show is learnt
    ends_early: bool = True  # Soon after every gate is passed

    def measured(self) -> "LanguageOptions":
        """How the rows are made that the gates look at: of pairs such as the next stages get, none restless, none misread.

        Restless views are there to learn from: even a judge that reads nearly every word about those pairs misreads many of them.
        """
        return replace(self, pairs=PairShares(self.world.no_thing, restless_pairs=0.0, restless_views=0.0), misread=0.0)


class RowSource:
    """Rows by number."""

    def __init__(self, tokenizer: SafeTokenizer, hidden: int, options: LanguageOptions, visual: Any = None) -> None:
        """With `visual`, frames are drawn and seen by that tower; else they are codes."""
        self._tokenizer, self._options, self._visual = tokenizer, options, visual
        self._directions = basis(hidden)
        self._weights, self._from_frames = TokenWeights.of_tokens(tokenizer), token_kinds.read_from_frames(tokenizer)

    def batch(self, first: int, count: int) -> CodedBatch:
        """`count` rows from number `first` on, padded to the length of the longest that is trained on."""
        return stack_rows(self._rows(first, count), self._options.length)

    def parts(self, first: int, count: int) -> list[CodedBatch]:
        """The same rows in parts that are padded as little as can be."""
        return parts_of_batch(self._rows(first, count), self._options.length)

    def _rows(self, first: int, count: int) -> list[CodedRow]:
        """For a row that is too long a distant one stands in."""
        rows = []
        for number in range(first, first + count):
            row = self.row(number)
            while len(row.ids) > self._options.length:
                number = number + STRIDE if number >= TRAINING_SEEDS else (number + STRIDE) % TRAINED
                row = self.row(number)
            rows.append(row)
        return rows

    def row(self, number: int) -> CodedRow:
        """Row `number`."""
        rng = np.random.default_rng((5, number))
        pair = draw_training_pair(number, self._options.world, self._options.pairs)
        dialect = dialect_of(draw_protocol(rng))
        seen = self._seen(pair, number)
        chance = np.random.default_rng((7, number))
        misread = draw_misreader(chance) if chance.random() < self._options.misread else None
        replies = self._options.write(pair, dialect, light_reader(seen.features, self._directions), rng, misread)
        source = new_source(pair, dialect)
        items, own = conversation_items(conversation(pair, dialect, replies, source), self._tokenizer)
        frames = [(item.frames[0].ref.side, item.frames[0].index) for item in items if not isinstance(item, int)]
        row = coded_row(items, own, seen.features(frames).flatten(0, 1), self._weights)
        if misread is None:
            return row
        corrected, own = conversation_items(conversation(pair, dialect, replies, source, corrected=True), self._tokenizer)
        return self._corrected(row, coded_row(corrected, own, row.features, self._weights))

    def _corrected(self, row: CodedRow, corrected: CodedRow) -> CodedRow:
        """What was misread, to read, and what the frames show, to learn: the words differ, and nothing else does."""
        return replace(row, targets=corrected.ids, weights=corrected.weights * self._from_frames[corrected.ids])

    def _seen(self, pair: DrawnPair, number: int) -> PairCodes | PairFeatures:
        if self._visual is None:
            return PairCodes(pair, self._directions, np.random.default_rng((6, number)))
        return PairFeatures(pair, self._visual)


def train_language(
    language: Any,
    tokenizer: SafeTokenizer,
    options: LanguageOptions,
    checkpoint: Path,
    visual: Any = None,
    stopped: Stopped = not_cancelled,
) -> Iterator[dict[str, float]]:
    """Train the language model (float32 weights) in place; yields what it predicts right after each save.

    Goes on from `checkpoint` where that is there. With `visual`, a trained tower, it learns from what that sees. Once `stopped`, it
    saves and ends without a report.
    """
    source = RowSource(tokenizer, language.config.hidden_size, options, visual)
    state = HalfState.opened(language, options, checkpoint)
    measured = RowSource(tokenizer, language.config.hidden_size, options.measured(), visual)
    unseen = [measured.batch(UNSEEN + 100 * number, options.batch) for number in range(MEASURED)]
    kinds = token_kinds.kinds(tokenizer)
    pads = torch.tensor([tokenizer.control.image_pad, tokenizer.control.video_pad])
    near = token_kinds.near_places(tokenizer)
    first = options.seed * 10**7
    progress = state.progress
    threads = 1 if visual is None else 2  # Drawing takes longer than learning

    def parts(step: int) -> list[CodedBatch]:
        return source.parts((first + step * options.batch) % TRAINED, options.batch)

    with made_ahead(parts, progress.step, threads) as batches:
        while True:
            loss, rows = _train(state, batches, pads, near, options, stopped)
            if stopped():
                state.save(checkpoint)
                return
            right = measure(language, unseen, pads, kinds)
            if options.ends_early:
                progress.note(right, options.gates)
            state.save(checkpoint)
            yield progress.figures() | {"rows a second": rows, "loss": loss} | right
            if is_over(progress, options):
                return


def predictions(language: Any, batch: CodedBatch, pads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of the learnt tokens [n, vocabulary], these tokens, and their weights."""
    embeddings = language.embed_tokens.weight[batch.ids]
    pictures = torch.isin(batch.ids, pads)
    embeddings = embeddings.masked_scatter(pictures[..., None], batch.features.to(embeddings.dtype))
    hidden = language_hidden(language, embeddings, batch.positions)[:, :-1]
    learnt = batch.weights[:, 1:] > 0
    logits = hidden[learnt] @ language.embed_tokens.weight.to(hidden.dtype).T
    return logits.float(), batch.targets[:, 1:][learnt], batch.weights[:, 1:][learnt]


def add_gradients(language: Any, parts: list[CodedBatch], pads: Tensor, near: Tensor) -> float:
    """Add the gradients of the mean loss over all parts of a batch to those of the weights; gives that loss.

    `near` [vocabulary, vocabulary]: what is learnt in the place of each token that says where something is.
    """
    whole = sum(float(part.weights[:, 1:].sum()) for part in parts)
    total = 0.0
    for part in parts:
        logits, tokens, weights = predictions(language, part, pads)
        losses, read = F.cross_entropy(logits, tokens, reduction="none"), part.read[:, 1:][part.weights[:, 1:] > 0]
        places = read & (near.diagonal()[tokens] < 1)
        losses = losses.masked_scatter(places, F.cross_entropy(logits[places], near[tokens[places]], reduction="none"))
        loss = (losses * weights).sum() / whole
        loss.backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
    return total


@torch.no_grad()
def measure(language: Any, batches: list[CodedBatch], pads: Tensor, kinds: dict[str, Tensor]) -> dict[str, float]:
    """Shares of learnt tokens of each kind that are predicted right."""
    right: dict[str, list[bool]] = {name: [] for name in kinds}
    for batch in batches:
        logits, tokens, _ = predictions(language, batch, pads)
        correct = logits.argmax(-1) == tokens
        for name, members in kinds.items():
            right[name] += correct[members[tokens]].tolist()
    return {name: float(np.mean(each)) for name, each in right.items() if each}


def _train(
    state: HalfState, batches: Iterator[list[CodedBatch]], pads: Tensor, near: Tensor, options: LanguageOptions, stopped: Stopped
) -> tuple[float, float]:
    """Steps until it is time to save, one at least; the mean loss, and the rows a second."""
    losses: list[float] = []
    progress, before = state.progress, state.progress.seconds
    for share in steps_until_save(progress, options, stopped):
        losses.append(add_gradients(state.half, next(batches), pads, near))
        state.step(options, share, max_grad_norm=1.0)
    return float(np.mean(losses)), len(losses) * options.batch / (progress.seconds - before)
