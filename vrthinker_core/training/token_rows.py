"""Rollouts as token rows: the tokens that were sampled and the pictures that were seen; only the judge's own tokens are learnt."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from vrthinker_core.backends.chat_template import PromptItem, VisionItem
from vrthinker_core.backends.generation import LoadedModel
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.types import Turn

PIXELS = {
    "image": "pixel_values",
    "video": "pixel_values_videos",
}  # What `forward` calls the patches of each kind
IGNORED = -100  # The label of a token that is not learnt, as torch's cross entropy has it


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One training example: a conversation up to the end of a reply."""

    input_ids: tuple[int, ...]
    labels: tuple[
        int, ...
    ]  # The token itself where it is learnt, IGNORED elsewhere; as long as `input_ids`
    items: tuple[VisionItem, ...]  # The pictures, in the order of their placeholders
    turns: tuple[int, ...]  # Numbers of the turns whose replies are learnt here, 1-based


def token_rows(rollout: Rollout, loaded: LoadedModel) -> Iterator[TokenRow]:
    """The rollout as rows; each reply is learnt in exactly one of them.

    One row holds all turns as long as each prompt goes on where the last reply ended. With a finite memory window it does not, so
    every turn whose prompt was changed afterwards ends a row of its own.
    """
    first = 0
    prompts = [loaded.render(prompt) for prompt in rollout.prompts]
    replies = [_reply_tokens(turn, loaded) for turn in rollout.run.turns]
    for k, prompt in enumerate(prompts):
        whole = [*prompt, *replies[k]]
        if k + 1 < len(prompts) and prompts[k + 1][: len(whole)] == whole:
            continue
        spans = [
            (len(prompts[turn]) + start, len(prompts[turn]) + end)
            for turn in range(first, k + 1)
            for start, end in _written(rollout.run.turns[turn], len(replies[turn]))
        ]
        yield _row(whole, spans, tuple(range(first + 1, k + 2)), loaded)
        first = k + 1


def collate(
    rows: Sequence[TokenRow], loaded: LoadedModel, multiple: int = 16, *, pixels: bool = True
) -> dict[str, torch.Tensor]:
    """A batch for `forward`, padded on the right to a multiple of `multiple` tokens.

    `input_ids`, `labels`, `attention_mask`, `mm_token_type_ids`: (rows, tokens); `image_grid_thw`: (pictures, 3); `pixel_values`:
    (patches, channels * 2 * patch * patch), left out without `pixels`. Where there are videos, `video_grid_thw` and
    `pixel_values_videos` are the same of them. The mask is all ones: what is padded stands on the right, where causal attention
    never looks.
    """
    length = -(-max(len(row.input_ids) for row in rows) // multiple) * multiple
    ids = torch.full((len(rows), length), loaded.tokenizer.control.endoftext)
    labels = torch.full((len(rows), length), IGNORED)
    for number, row in enumerate(rows):
        ids[number, : len(row.input_ids)] = torch.tensor(row.input_ids)
        labels[number, : len(row.labels)] = torch.tensor(row.labels)
    control = loaded.tokenizer.control
    kinds = (ids == control.image_pad).long() + 2 * (ids == control.video_pad).long()
    batch = {
        "input_ids": ids,
        "labels": labels,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": kinds,
    }
    for kind, name in PIXELS.items():
        if items := pictures(rows, kind):
            batch[f"{kind}_grid_thw"] = torch.tensor([item.grid_thw for item in items])
            batch |= {name: loaded.vision.pixel_values(items)} if pixels else {}
    return batch


def pictures(rows: Sequence[TokenRow], kind: str) -> list[VisionItem]:
    """The images or the videos of some rows, in the order of their placeholders."""
    return [item for row in rows for item in row.items if item.kind == kind]


def _reply_tokens(turn: Turn, loaded: LoadedModel) -> list[int]:
    """What the judge wrote, with its end token where it ended the reply itself."""
    completion = turn.completion
    end = [loaded.tokenizer.control.im_end] if completion.stop == "end" else []
    return [*(completion.tokens or loaded.tokenizer.encode(completion.text)), *end]


def _written(turn: Turn, length: int) -> list[tuple[int, int]]:
    """From where to where in the tokens of a reply the judge itself wrote: what a redirect put there is not learnt."""
    redirected = turn.completion.redirected
    return [(0, length)] if redirected is None else [(0, redirected[0]), (redirected[1], length)]


def _row(
    items: Sequence[PromptItem],
    spans: Sequence[tuple[int, int]],
    turns: tuple[int, ...],
    loaded: LoadedModel,
) -> TokenRow:
    """Placeholders in the place of pictures; `spans` are what the judge wrote in `items`."""
    taught = {position for start, end in spans for position in range(start, end)}
    ids: list[int] = []
    labels: list[int] = []
    pads = {
        "image": loaded.tokenizer.control.image_pad,
        "video": loaded.tokenizer.control.video_pad,
    }
    for position, item in enumerate(items):
        new = [item] if isinstance(item, int) else [pads[item.kind]] * item.num_tokens
        ids += new
        labels += new if position in taught else [IGNORED] * len(new)
    pictures = tuple(item for item in items if not isinstance(item, int))
    return TokenRow(tuple(ids), tuple(labels), pictures, turns)
