"""Rollouts as token rows: sampled tokens and pictures; only the judge's own tokens are learnt."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from vrthinker_core.backends.chat_template import VisionItem
from vrthinker_core.backends.generation import LoadedModel
from vrthinker_core.training.rollouts import Rollout

PIXELS = {"image": "pixel_values", "video": "pixel_values_videos"}  # As `forward` calls patches
IGNORED = -100  # The label of a token that is not learnt, as torch's cross entropy has it


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One training example: a conversation up to the end of a reply."""

    input_ids: tuple[int, ...]
    labels: tuple[int, ...]  # Each learnt token, IGNORED elsewhere; as long as `input_ids`
    items: tuple[VisionItem, ...]  # The pictures, in the order of their placeholders
    turns: tuple[int, ...]  # Numbers of the turns whose replies are learnt here, 1-based

    @property
    def learnt(self) -> int:
        """Number of learnt tokens."""
        return sum(label != IGNORED for label in self.labels)


def token_rows(rollout: Rollout, loaded: LoadedModel) -> Iterator[TokenRow]:
    """The rollout as rows; each reply is learnt in exactly one of them.

    One row holds consecutive turns while each prompt continues the last reply; a prompt that the
    memory window has changed starts a new row. Placeholders stand for pictures.
    """
    tokenizer, control = loaded.tokenizer, loaded.tokenizer.control
    pads = {"image": control.image_pad, "video": control.video_pad}
    prompts = [loaded.render(prompt) for prompt in rollout.prompts]
    turns: list[int] = []
    taught: set[int] = set()  # Positions of what the judge wrote
    for k, prompt in enumerate(prompts):
        completion, start = rollout.run.turns[k].completion, len(prompt)
        end = [control.im_end] if completion.stop == "end" else []
        whole = [*prompt, *(completion.tokens or tokenizer.encode(completion.text)), *end]
        turns.append(k + 1)
        taught.update(range(start, len(whole)))
        if completion.redirected:  # what a redirect put there is not learnt
            first, last = completion.redirected
            taught.difference_update(range(start + first, start + last))
        if k + 1 < len(prompts) and prompts[k + 1][: len(whole)] == whole:
            continue
        ids: list[int] = []
        labels: list[int] = []
        for position, item in enumerate(whole):
            new = [item] if isinstance(item, int) else [pads[item.kind]] * item.num_tokens
            ids += new
            labels += new if position in taught else [IGNORED] * len(new)
        items = tuple(item for item in whole if not isinstance(item, int))
        yield TokenRow(tuple(ids), tuple(labels), items, tuple(turns))
        turns, taught = [], set()


Encode = Callable[[Sequence[VisionItem]], list[torch.Tensor]]
"""Image features of each item, (tokens, hidden), in order."""


def collate(
    rows: Sequence[TokenRow],
    loaded: LoadedModel,
    encode: Encode | None = None,
    *,
    multiple: int = 16,
) -> dict[str, torch.Tensor]:
    """A batch for `forward`, padded on the right to a multiple of `multiple` tokens.

    `input_ids`, `labels`, `attention_mask`, `mm_token_type_ids`: (rows, tokens); `image_grid_thw`:
    (pictures, 3); `pixel_values`: (patches, channels * 2 * patch * patch), or for a frozen tower
    the image features of `encode`, (tokens, hidden). `video_grid_thw` and `pixel_values_videos` are
    the same of videos, if there are any. The mask is all ones: what is padded stands on the right,
    where causal attention never looks.
    """
    control = loaded.tokenizer.control
    length = -(-max(len(row.input_ids) for row in rows) // multiple) * multiple
    ids = torch.full((len(rows), length), control.endoftext)
    labels = torch.full((len(rows), length), IGNORED)
    for number, row in enumerate(rows):
        ids[number, : len(row.input_ids)] = torch.tensor(row.input_ids)
        labels[number, : len(row.labels)] = torch.tensor(row.labels)
    kinds = (ids == control.image_pad).long() + 2 * (ids == control.video_pad).long()
    batch = {
        "input_ids": ids,
        "labels": labels,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": kinds,
    }
    for kind, name in PIXELS.items():
        if items := [item for row in rows for item in row.items if item.kind == kind]:
            batch[f"{kind}_grid_thw"] = torch.tensor([item.grid_thw for item in items])
            features = torch.cat(encode(items)).float() if encode else None
            batch[name] = loaded.vision.pixel_values(items) if features is None else features
    return batch
