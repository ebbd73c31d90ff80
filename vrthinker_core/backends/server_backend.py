"""ServerBackend: a judge behind an OpenAI-compatible address.

Servers are vLLM, SGLang, llama.cpp, LM Studio, Ollama, `transformers serve`, or a hosted model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from vrthinker_core.backends.base import GenerationRequest, StreamItem, describe_backend
from vrthinker_core.backends.built_in import NANO_NOTE
from vrthinker_core.backends.hosted import HOSTS, host_key, read_key
from vrthinker_core.backends.judge_name import JudgeName, model_title
from vrthinker_core.backends.server.conversation import ServerConversation, stream_replies
from vrthinker_core.backends.server.engines import ENGINES
from vrthinker_core.backends.server.failures import Secret
from vrthinker_core.backends.server.served_model import Patience, Server, find_server

TOLD = (
    "This judge was not trained for the task: it is told the protocol's rules in words. "
    "If it was, put ?protocol=paired or ?protocol=concat behind its name."
)
OWN_TEMPERATURE = (
    "The server takes no temperature: it samples with its own, whatever the settings say."
)

SHORT_CONTEXT = 16_384  # Eight frames a video and one call of twelve take about 9,000 tokens


class ServerBackend:
    """A `Backend` and `BatchBackend` whose replies a server generates.

    Thread-safe. Conversations share the list of request fields that the server refuses.
    """

    at_own_pace: Literal[True] = True  # See `RemoteBackend`

    def __init__(self, server: Server, name: str, notes: tuple[str, ...] = ()) -> None:
        self.server, self.name = server, name
        self._notes = (*notes, *(() if server.model.protocols else (TOLD,)))
        self.protocols = server.model.protocols
        self.follows_instructions = not server.model.forced_redirects
        self.scope = server.model.scope

    def __repr__(self) -> str:
        return describe_backend(self)

    @classmethod
    def open(
        cls,
        judge: JudgeName,
        *,
        name: str | None = None,
        patience: Patience | None = None,
        secret: Secret | None = None,
    ) -> ServerBackend:
        """Connect to the server of a name such as `server:URL#MODEL` or `openai:MODEL`.

        The environment holds the key if `secret` is None. Raises `BadInput` if a key or a proxy
        cannot be used, another `JudgeError` if the server has no such model or does not answer.
        """
        host = HOSTS.get(judge.kind)
        if host is not None:
            judge = replace(judge, what=host.url, model=judge.what)
        secret = secret or (host_key(host) if host is not None else read_key())
        server = find_server(judge, secret, patience or Patience())
        notes = (NANO_NOTE,) if server.model.built_in else ()
        return cls(server, name or model_title(server.model.id), notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats for people: see `JudgeDescription`.

        Notes are added when the server refuses a temperature, or when its context turns out to be
        short.
        """
        model, learnt = self.server.model, []
        if "temperature" not in self.server.form.features:
            learnt.append(OWN_TEMPERATURE)
        engine, reads = ENGINES.get(model.engine), model.context_length
        if engine is not None and reads is not None and reads < SHORT_CONTEXT:
            learnt.append(
                f"{engine.title} reads {reads:,} tokens: a run of several turns may not fit. "
                f"{engine.longer}"
            )
        return (*self._notes, *learnt)

    def open_conversation(self) -> ServerConversation:
        """Return a new conversation, which connects with its first request."""
        return ServerConversation(self.server)

    def stream_batch(
        self, requests: Sequence[GenerationRequest]
    ) -> Iterator[tuple[int, StreamItem]]:
        """Send all requests at once; the server batches them."""
        return stream_replies(requests)
