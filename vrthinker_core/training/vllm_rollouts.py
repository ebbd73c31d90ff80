"""Rollouts of GRPO by vLLM: TRL's generator as a judge of the product's loop."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from accelerate.utils import gather_object

from vrthinker_core.backends.base import GenerationRequest, StreamItem
from vrthinker_core.backends.chat_template import PromptItem, VisionItem, token_count
from vrthinker_core.backends.checkpoint import Checkpoint
from vrthinker_core.backends.generation import check_context
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import VrThinkerError
from vrthinker_core.training.sft import placed_tokens
from vrthinker_core.types.messages import Completion


class VllmBackend(TransformersBackend):
    """A `BatchBackend` over TRL's `VLLMGeneration`, which has the trained weights.

    A request's redirect and seed have no effect. A reply's limit is that of the generator.
    """

    def __init__(self, checkpoint: Checkpoint, name: str, generation: Any) -> None:
        super().__init__(checkpoint, name)
        self._generation, self._served = generation, generation.mode == "server"

    def stream_batch(
        self, requests: Sequence[GenerationRequest]
    ) -> Iterator[tuple[int, StreamItem]]:
        """Yield one `Completion` or error for each request: see `BatchBackend`."""
        prompts: dict[int, list[PromptItem]] = {}
        for index, request in enumerate(requests):
            try:
                prompt = self.loaded.render(request.messages)
                check_context(token_count(prompt), self._generation.max_model_length)
            except VrThinkerError as error:
                yield index, error
            else:
                prompts[index] = prompt
        if prompts:
            self._generation.temperature = requests[0].sampling.temperature
            for index, tokens in zip(prompts, self._round([*prompts.values()]), strict=True):
                yield index, self._completion(tokens)

    def finish(self) -> None:
        """Answer a served generator's rounds until no process plays."""
        while self._served and self._round([]) is not None:
            pass

    def _round(self, prompts: Sequence[Sequence[PromptItem]]) -> Any:
        """Return sampled tokens; None if no process has a prompt.

        A served generator takes equally many prompts from each process, and pictures as runs of
        placeholders. A colocated one expands one placeholder for each picture itself.
        """
        asked: list[list[int]] = []
        for prompt in prompts:
            placed = (placed_tokens(item, self.loaded) for item in prompt)
            asked.append([t for own in placed for t in (own if self._served else own[:1])])
        pictures: list[Any] = [
            [item.frames[0].image for item in prompt if isinstance(item, VisionItem)] or None
            for prompt in prompts
        ]
        if self._served:
            most = max(gather_object([len(asked)]))
            if not most:
                return None
            idle = most - len(asked)
            asked += [[self.loaded.tokenizer.control.im_start]] * idle
            pictures += [None] * idle
        tokens = self._generation.generate(prompts=asked, images=pictures, num_generations=1)[1]
        return tokens[: len(prompts)]

    def _completion(self, tokens: Sequence[int]) -> Completion:
        ended = bool(tokens) and tokens[-1] in self.loaded.stop_tokens
        own = tuple(tokens[:-1] if ended else tokens)
        text = self.loaded.tokenizer.decode(own)
        stop: Literal["end", "length"] = "end" if ended else "length"
        return Completion(text, stop, own, (len(text),), new_tokens=len(own))
