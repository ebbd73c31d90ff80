"""ServerBackend: a judge behind an OpenAI-compatible address."""

from __future__ import annotations

import asyncio
import queue
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import aclosing, closing
from dataclasses import replace
from functools import partial
from typing import Any

import openai

from vrthinker_core.backends.base import GenerationRequest, StreamItem, not_cancelled
from vrthinker_core.backends.checkpoint_files import CORRECTION, TOLD, MarkedJudge
from vrthinker_core.backends.engines import ENGINES, UNKNOWN, loaded_context
from vrthinker_core.backends.judge_name import NANO_NOTE, JudgeName, host_of, model_title
from vrthinker_core.backends.reply_builder import (
    ReplyBuilder,
    checked,
    ends_reply,
    holds_token,
    whole_reply,
)
from vrthinker_core.backends.request_body import PictureCache, fewer_features, ids_in
from vrthinker_core.backends.served_model import Connection, Patience, Server, find_server, read_key
from vrthinker_core.backends.server_errors import (
    GARBAGE,
    RequestRefusal,
    Secret,
    TransientError,
    failure_of,
    may_be_mended,
    to_judge_error,
    tokens_left,
)
from vrthinker_core.errors import BackendFailed, BadInput, ContextFull
from vrthinker_core.types.frames import IMAGE_FACTOR
from vrthinker_core.types.messages import Cancelled, Completion, Message, Retrying, Sampling

POLL_SECONDS = 0.05  # Between two checks for a cancel
Items = queue.SimpleQueue[tuple[int, StreamItem]]  # Each with the index of its request


class ServerConversation:
    """A `Conversation` with a judge on a server.

    One thread at a time; several conversations may generate at once. Each request sends the whole
    conversation; the server keeps the prompt in its prefix cache. A reply that failed or was
    cancelled leaves nothing behind here.
    """

    def __init__(self, server: Server, *, streams: bool = True) -> None:
        """Without `streams`, a reply that needs no redirect comes whole."""
        self._server, self._streams = server, streams
        self._pictures = PictureCache()
        self._connection = Connection(
            server.address, server.secret, server.patience, "judge on a server"
        )
        self._closed = False
        self._tokens_per_measure = 0.0  # The server's count of the last prompt, by our estimate
        self._counted: tuple[tuple[Message, ...], int] = ((), 0)  # The last prompt and its count

    @property
    def context_length(self) -> int | None:
        """The server's context length; may be None until the first reply."""
        return self._server.model.context_length

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Estimate the number of prompt tokens of `messages`.

        It is scaled by the server's count of the last prompt, and 0 before the first reply: no
        message must leave because of a guess. The server itself refuses a prompt that is too long.
        """
        return round(self._tokens_per_measure * _measure(messages))

    def calibrate(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """Scale `count_tokens` by the server's count, maybe of an earlier run."""
        self._tokens_per_measure = prompt_tokens / _measure(messages)

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = not_cancelled
    ) -> Iterator[str | Retrying | Completion]:
        """Stream a reply: see `Conversation`.

        `cancelled` is asked every 0.05 s, also while nothing arrives. A cancel closes the request.
        """
        for _, item in stream_replies([GenerationRequest(self, messages, sampling, cancelled)]):
            if isinstance(item, Exception):
                raise item
            yield item

    def start(
        self, index: int, request: GenerationRequest, items: Items
    ) -> tuple[Future[None], ReplyBuilder]:
        """Begin a reply, whose items another thread puts into `items` with `index`.

        The last item is a `Completion` or an exception; cancelling the future closes the request.
        Raises `BackendFailed` if the conversation was closed.
        """
        if self._closed:
            raise BackendFailed("This conversation was closed.")
        # Whether the server can continue a begun reply
        goes_on = self._server.form.features & {"continue", "prefill"}
        redirect = request.sampling.redirect if goes_on else None
        redirect = self._server.model.marker.redirect(redirect)
        builder = ReplyBuilder(redirect, request.sampling.max_new_tokens)
        reply = self._generate(request, builder, lambda item: items.put((index, item)))
        return self._connection.submit(reply), builder

    def close(self) -> None:
        """Close the connections and any running request."""
        self._closed = True
        self._connection.close()

    async def _generate(
        self, request: GenerationRequest, builder: ReplyBuilder, put: Callable[[StreamItem], None]
    ) -> None:
        server = self._server
        try:
            await self._write(request, builder, put)
            completion = builder.completion()
            await self._check_whole(request.messages, completion)
            if (prices := server.model.prices) and completion.cost is None:
                completion = replace(completion, cost=prices.cost(completion))
            if completion.prompt_tokens:
                self.calibrate(request.messages, completion.prompt_tokens)
            put(completion)
        except Exception as error:  # noqa: BLE001 - the reader of the stream raises it
            failure = failure_of(error, server.secret)
            if isinstance(failure, TransientError | RequestRefusal):
                failure = to_judge_error(failure, server.model.engine)
            put(failure)

    async def _check_whole(self, messages: Sequence[Message], completion: Completion) -> None:
        """Raise `ContextFull` if the engine cut the prompt, or has no room for a reply."""
        model, prompt = self._server.model, completion.prompt_tokens
        engine = ENGINES.get(model.engine, UNKNOWN)
        if not engine.cuts or not prompt:
            return
        if model.context_length is None:
            found = await loaded_context(self._connection.client, model.engine, model.id)
            self._server.model = model = replace(model, context_length=found)
        before, least = self._counted
        added = messages[len(before) :]
        if tuple(messages[: len(before)]) != before:
            added, least = messages, 0
        for message in added:
            # A chat template may drop the judge's own thoughts. No tokenizer joins words
            if message.role != "assistant":
                least += len(re.findall(r"\w+", message.text)) + len(message.frames)
        length = model.context_length
        if prompt < least or (length is not None and prompt + length // 8 > length):
            limit = f"reads {length:,} tokens" if length else "reads fewer tokens than it was sent"
            raise ContextFull(
                f"{engine.title} {limit} and cuts longer prompts without a word. {engine.longer}"
            )
        self._counted = tuple(messages), prompt

    async def _write(
        self, request: GenerationRequest, builder: ReplyBuilder, put: Callable[[StreamItem], None]
    ) -> None:
        """Put the text; a redirect ends the request and starts another."""
        while True:
            first, stream = await self._begin(request, builder, put)
            async with stream, aclosing(_in_time(first, stream, self._server)) as chunks:
                async for chunk in chunks:
                    if piece := builder.add(chunk):
                        put(piece)
                    if builder.redirected:
                        break
            if not builder.redirected:
                break
        if stream.response.extensions.get("done"):  # Some servers name no reason
            builder.finish_reason = builder.finish_reason or "stop"
        if not builder.finish_reason:
            raise BackendFailed("The server's answer broke off in the middle.")
        if piece := builder.flush():
            put(piece)

    async def _begin(
        self, request: GenerationRequest, builder: ReplyBuilder, tell: Callable[[Retrying], None]
    ) -> tuple[Any, openai.AsyncStream[Any]]:
        """Send a request for the rest of the reply; return what `_send` returns.

        A refused request is sent again with a shorter reply or fewer optional fields, until the
        server takes it or no change can help.
        """
        server, form, shortened = self._server, self._server.form, False
        prefix, streams = builder.written, self._streams or builder.may_redirect
        left = request.sampling.max_new_tokens - (builder.new_tokens or 0)
        sampling = replace(request.sampling, max_new_tokens=max(1, left))
        builder.begin()
        while True:
            body = form.body(request.messages, sampling, self._pictures, prefix, streams=streams)
            ids = ids_in(body)
            try:
                send = partial(self._send, body)
                sent = await server.patience.ask(send, server.secret, tell=tell)
                break
            except RequestRefusal as refusal:
                mendable, features = may_be_mended(refusal), form.features
                if not shortened and 0 < (left := tokens_left(refusal)) < sampling.max_new_tokens:
                    sampling, shortened = replace(sampling, max_new_tokens=left), True
                elif not (mendable and ids & self._pictures.sent):
                    # Once it has taken this form, only what a request added can be too much
                    mendable = mendable and (not server.accepted or bool(prefix))
                    fewer = fewer_features(features, refusal.answer) if mendable else features
                    if fewer == features:
                        raise
                    form = replace(form, features=fewer)
                # Otherwise the server may have evicted a picture: all pictures are sent again
            self._pictures.sent.clear()
        server.form, server.accepted = form, True
        self._pictures.sent |= ids
        return sent

    async def _send(self, body: dict[str, Any]) -> tuple[Any, openai.AsyncStream[Any]]:
        """Send a request and wait for the first token of its reply."""
        stream = await self._connection.client.chat.completions.create(**body)
        _note_end(stream.response)
        try:
            whole, secret = await whole_reply(stream.response), self._server.secret
            if whole is not None and holds_token(checked(whole, secret)):
                return whole, stream
            async for chunk in stream:
                if holds_token(checked(chunk, secret)):
                    return chunk, stream
            raise BackendFailed(GARBAGE)
        except BaseException:
            await stream.close()
            raise


def _note_end(response: Any) -> None:
    """Note the mark of a stream's end when it is read; the client keeps it to itself."""
    read = response.aiter_bytes

    async def watched() -> AsyncGenerator[bytes, None]:
        last = b"\n"
        async for part in read():
            last = (last + part)[-64:]
            if re.search(rb"\ndata: ?\[DONE\]", last):
                response.extensions["done"] = True
            yield part

    response.aiter_bytes = watched


async def _in_time(
    chunk: Any, stream: openai.AsyncStream[Any], server: Server
) -> AsyncGenerator[Any, None]:
    """Yield the chunks of a reply from its first chunk on.

    Raises `TimeoutError` if no token comes for too long, even if other data arrives. Once the
    server has said that the reply is complete, only token counts are waited for, and any failure
    just ends the reply.
    """
    loop, chunks, silence = asyncio.get_running_loop(), aiter(stream), server.patience.silence
    heard, whole = loop.time(), False
    while True:
        if holds_token(chunk):
            heard = loop.time()
        if not whole and ends_reply(chunk):
            whole, silence = True, min(silence, server.patience.counts)
        yield chunk
        try:
            async with asyncio.timeout_at(heard + silence):
                chunk = checked(await anext(chunks), server.secret)
        except StopAsyncIteration:
            return
        except Exception:
            if whole:
                return
            raise


def stream_replies(requests: Sequence[GenerationRequest]) -> Iterator[tuple[int, StreamItem]]:
    """Send all requests at once; the server batches them."""
    items: Items = queue.SimpleQueue()
    pending: dict[int, tuple[Future[None], ReplyBuilder]] = {}
    looked = 0.0
    try:
        for index, request in enumerate(requests):
            assert isinstance(request.conversation, ServerConversation)
            try:
                pending[index] = request.conversation.start(index, request, items)
            except Exception as error:  # noqa: BLE001 - the other requests go on
                yield index, error
        while pending:
            if time.monotonic() - looked >= POLL_SECONDS:
                looked = time.monotonic()
                for index in [index for index in pending if requests[index].cancelled()]:
                    future, builder = pending.pop(index)
                    future.cancel()
                    yield index, builder.completion(cancelled=True)
            try:
                index, item = items.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            if index not in pending:
                continue
            pending[index][1].taken += isinstance(item, str)
            if not isinstance(item, str | Retrying):
                del pending[index]
            yield index, item
    finally:
        for future, _ in pending.values():
            future.cancel()


def _measure(messages: Sequence[Message]) -> float:
    """Estimate a conversation's tokens, pictures as in Qwen2.5-VL; never 0."""
    frames = [frame for message in messages for frame in message.frames]
    text = sum(len(message.text.encode("utf-8", "replace")) for message in messages)
    pixels = sum(frame.width * frame.height for frame in frames)
    # A token has four bytes of text, until the server's counts correct this
    return 1 + text / 4 + pixels / IMAGE_FACTOR**2


class ServerBackend(MarkedJudge):
    """A thread-safe `Backend` and `BatchBackend` whose replies a server generates."""

    def __init__(self, server: Server, name: str) -> None:
        super().__init__(name, server.model.marker)
        self.server, self.streams = server, True

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
        if host := host_of(judge.kind):
            judge = replace(judge, what=host.url, model=judge.what)
        secret = secret or (read_key((host.key,)) if host else read_key())
        if host and not secret.value:
            raise BadInput(
                f"{host.name} wants a key: get one at {host.keys_at}, and put it into {host.key}."
            )
        with closing(Connection(judge, secret, patience or Patience())) as connection:
            server = connection.submit(find_server(connection)).result()
        return cls(server, name or model_title(server.model.id))

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats for people, also about a refused temperature and a short context."""
        model, notes = self.server.model, [NANO_NOTE] if self.scope == "drawn" else []
        if not self.protocols:
            notes.append(f"{TOLD} {CORRECTION}")
        if "temperature" not in self.server.form.features:
            notes.append("The server chooses the temperature: the setting has no effect.")
        engine, reads = ENGINES.get(model.engine), model.context_length
        # Eight frames a video and one call of twelve take about 9,000 tokens
        if engine is not None and reads is not None and reads < 16_384:
            notes.append(
                f"{engine.title} reads {reads:,} tokens: a run of several turns may not fit. "
                f"{engine.longer}"
            )
        return tuple(notes)

    @property
    def pairs_in_hand(self) -> int:
        """What the server can generate at the same time, as it says or as its engine does."""
        return self.server.model.slots

    def open_conversation(self) -> ServerConversation:
        """Return a new conversation, which connects with its first request."""
        return ServerConversation(self.server, streams=self.streams)

    stream_batch = staticmethod(stream_replies)
