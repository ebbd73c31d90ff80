"""The choice of a judge: the chip beside Compare and its dialog."""

import math
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, cast, get_args
from urllib.parse import urlsplit

import gradio as gr

from vrthinker_core.backends import NANO_NAME, Backend
from vrthinker_core.backends.base import RemoteBackend
from vrthinker_core.backends.checkpoint_files import is_downloaded
from vrthinker_core.backends.download import Download
from vrthinker_core.backends.engines import ENGINES
from vrthinker_core.backends.judge_name import (
    JUDGES,
    NANO_NOTE,
    JudgeGroup,
    JudgeName,
    host_of,
    judge_title,
    parse_judge,
)
from vrthinker_core.backends.offers import LocalServer, Offer, local_servers, offers
from vrthinker_core.backends.served_model import (
    LOOPBACK,
    Patience,
    ServedModel,
    checked_key,
    is_here,
    vision_models,
)
from vrthinker_core.backends.server_errors import Secret
from vrthinker_core.errors import BackendRefused, BadInput, JudgeError, VrThinkerError
from vrthinker_core.types.messages import Completion
from vrthinker_core.ui import words
from vrthinker_core.ui.judges import OWN, JudgeLoader, OwnHost
from vrthinker_core.ui.layout import PageComponents, Updates
from vrthinker_core.ui.sessions import Session, Sessions
from vrthinker_core.ui.view import Json
from vrthinker_core.ui.visitors import split_url, visitor_of
from vrthinker_core.words import dollars

GROUPS: tuple[JudgeGroup, ...] = get_args(JudgeGroup)
PUBLIC: tuple[JudgeGroup, ...] = ("demo", "hosted")

FRESH_SECONDS = 10.0  # for which it is known what this machine and its servers can run
LISTED_SECONDS = 600.0  # for which a host's public list of models is known
MAX_MODEL, MAX_KEY = 200, 1000  # characters
DIALOG = Patience(connect=5, silence=10, tries=1, deadline=10)  # while a person waits
FIRST_HOST = "openrouter"  # has models of all makers, and names their prices
# Of three turns: three times what was said before, 16 frames at first, and 12 more in two of them
READ_TOKENS, WRITTEN_TOKENS = 20_000, 1_500


@dataclass(frozen=True, slots=True)
class JudgeRow:
    """One judge of the dialog."""

    id: str  # what the page sends back
    title: str
    facts: tuple[str, ...]  # training, cost, who sees the frames, time
    act: str = ""  # choose, open, download or pause; "" if nothing can be done
    label: str = words.USE  # of the button
    note: str = ""
    chosen: bool = False
    share: float | None = None  # of a download that has come


class JudgeChooser:
    """Handlers of the chip and its dialog."""

    def __init__(
        self,
        parts: PageComponents,
        judges: JudgeLoader,
        sessions: Sessions,
        offered: Collection[JudgeGroup],
    ) -> None:
        self._parts, self._judges, self._sessions = parts, judges, sessions
        self._offered = offered
        self._downloads: dict[str, Download] = {}  # by the model's name on the hub
        # When they were looked for, the servers of this machine, and what it can run
        self._found: tuple[float, list[LocalServer], list[Offer]] = (-math.inf, [], [])
        # The models that hosts list to everybody, and when that was asked
        self._public: dict[str, tuple[float, list[ServedModel]]] = {}

    def open(self, event: gr.EventData, request: gr.Request) -> Updates:
        """Fill the dialog; look for servers of this machine, unless it is only filled `again`."""
        if not getattr(event, "again", False):
            self._found = (-math.inf, *self._found[1:])
        return {self._parts.chooser: self._dialog(request)}

    def act(self, event: gr.EventData, request: gr.Request) -> Updates:
        """Do what was pressed in the dialog; a refusal is told in the row that was pressed.

        A key that was typed is never sent back, nor written anywhere.
        """
        session, chosen, said = self._session(request), "", ""
        act, asked = getattr(event, "act", None), str(getattr(event, "id", ""))
        model, key = (str(getattr(event, each, "")) for each in ("model", "key"))
        may_open = asked in {each.judge for each in self._offers(request)}
        try:
            if act == "choose":
                chosen = self.name_of(session, asked)
            elif act == "open" and may_open:
                chosen = self._judges.add(asked)
            elif act == "list":
                self._list_models(request, asked, key)
            elif act == "key":
                chosen = self._open_hosted(request, asked, model, key)
            elif act == "forget" and asked in session.own:
                chosen = self._forget(session, asked)
            elif act in ("download", "pause") and may_open:
                source = parse_judge(asked).what
                download = self._downloads.setdefault(source, Download(source))
                (download.start if act == "download" else download.pause)()
            else:
                said = words.NO_SUCH_JUDGE
        except VrThinkerError as error:
            said = str(error).replace(f"the key in {words.KEY_FIELD}", "this key")
        answer = {"id": asked, "said": said}
        if not chosen:
            return {self._parts.chooser: {**self._dialog(request), "answer": answer}}
        session.judge = chosen
        dialog = {**self._dialog(request), "answer": answer, "done": act != "forget" and chosen}
        return {self._parts.judge: chosen, self._parts.chooser: dialog}

    def name_of(self, session: Session, value: object) -> str:
        """Return a judge that this page may choose. Raises BadInput for any other."""
        own = [each.name for each in session.own.values() if each.name]
        return str(value) if value in own else self._judges.choose(value)

    def chip(self, name: str) -> Json:
        """Return what the chip shows: title and state."""
        judge, trouble = self._judges.look(name)
        state = "" if judge else "cannot be opened" if trouble else "loading"
        title = words.DEMO_JUDGE if self._is_demo(name) else name.split(OWN)[0]
        speaks = words.judge_name(judge.name) if judge else ""
        return {"title": title, "state": state, "speaks": speaks}

    def _is_demo(self, name: str) -> bool:
        judge, _ = self._judges.look(name)
        return judge.scope == "drawn" if judge else name == NANO_NAME

    def _session(self, request: gr.Request) -> Session:
        return self._sessions.get(str(request.session_hash))

    def _host(self, request: gr.Request, kind: str) -> JudgeName:
        """Return a host, or a server of this machine that wants a key. Raises BadInput."""
        if kind in self._locked(request):
            return JudgeName("server", kind)
        if "hosted" not in self._offered or host_of(kind) is None:
            raise BadInput(words.NO_SUCH_JUDGE)
        return JudgeName(kind)

    def _secret(self, request: gr.Request, kind: str, key: str) -> Secret:
        """Return the key that was typed, else the one that the page holds. Raises BadInput."""
        origin = split_url(request.headers.get("origin", ""))
        if key and origin.scheme != "https" and origin.hostname not in LOOPBACK:
            raise BadInput(words.NO_KEY_HERE)  # somebody on the way could read it
        if len(key) > MAX_KEY:
            raise BadInput(words.NO_KEY)
        held = self._session(request).own.get(kind)
        return held.secret if held and not key.strip() else checked_key(key, words.KEY_FIELD)

    def _list_models(self, request: gr.Request, kind: str, key: str) -> None:
        """Read which models of a host see pictures: with a key, or what all may read."""
        named, session = self._host(request, kind), self._session(request)
        secret = self._secret(request, kind, key)
        session.host = kind
        at, models = self._public.get(kind, (-math.inf, []))
        if not secret.value and time.monotonic() - at < LISTED_SECONDS:
            return
        try:
            if named.kind == "server":
                port = urlsplit(named.what).port or 0
                found = local_servers((port,), DIALOG.silence, secret)
                if any(each.locked for each in found):
                    raise BackendRefused(words.WRONG_KEY)
                models = [ServedModel(name) for each in found for name in each.models]
            else:
                models = vision_models(named, secret, DIALOG)
        except BackendRefused:
            if secret.value:
                raise
            return  # This host lists its models to whom has a key
        except JudgeError:  # Then the name is typed
            models = []
        if secret.value:
            if key.strip() or kind in session.own:  # else it was forgotten meanwhile
                held = session.own.get(kind, OwnHost(secret))
                session.own[kind] = replace(held, secret=secret, models=models)
        else:
            self._public[kind] = time.monotonic(), models

    def _open_hosted(self, request: gr.Request, kind: str, model: str, key: str) -> str:
        """Open a host's model with the visitor's key, for their page alone."""
        from vrthinker_core.backends.server_backend import ServerBackend

        host, session = self._host(request, kind), self._session(request)
        secret, model = self._secret(request, kind, key), model.strip()
        if not model or len(model) > MAX_MODEL:
            raise BadInput(words.NO_MODEL)
        if not secret.value:
            raise BadInput(words.NO_KEY)
        named = JudgeName(host.kind, host.what, model) if host.what else JudgeName(kind, model)
        backend = ServerBackend.open(named, secret=secret, patience=DIALOG)
        backend.server.patience = Patience()  # Of a run
        name, held = self._judges.add_own(backend), session.own.get(kind)
        models = held.models if held else self._public.get(kind, (0, []))[1]
        session.own[kind] = OwnHost(secret, models, name, backend)
        session.host = kind
        return name

    def _forget(self, session: Session, kind: str) -> str:
        """Drop a key, and stop the run that uses it; return the judge that stays or comes."""
        name = session.own.pop(kind).name
        for shown in (session.waiting, session.shown):
            if shown is not None and shown.run.judge == name:
                shown.run.request_stop()
        return self._judges.names[0] if session.judge in ("", name) else session.judge

    def _offers(self, request: gr.Request) -> list[Offer]:
        """Return what only visitors at this machine may open."""
        if not visitor_of(request).here:
            return []
        (at, servers, found), judges = self._found, self._judges
        # Transformers cannot be imported by two threads at once, and a judge that opens does so
        if time.monotonic() - at > FRESH_SECONDS and all(map(judges.is_loaded, judges.names)):
            servers = local_servers() if "servers" in self._offered else []
            groups = {*self._offered} - {"hosted"}
            kinds = {kind for kind, each in JUDGES.items() if each.group in groups}
            found = [each for each in offers(servers) if parse_judge(each.judge).kind in kinds]
            self._found = time.monotonic(), servers, found
        return found

    def _locked(self, request: gr.Request) -> dict[str, str]:
        """Return the servers of this machine that want a key, and their names."""
        self._offers(request)
        found = self._found[1] if visitor_of(request).here else []
        return {each.url: words.HERE_TOO.format(each.engine) for each in found if each.locked}

    def _dialog(self, request: gr.Request) -> Json:
        """Return the whole dialog: what can be used now comes first."""
        session, here, judges = self._session(request), visitor_of(request).here, self._judges
        ready, gpu, demo = list[JudgeRow](), list[JudgeRow](), list[JudgeRow]()
        offers = self._offers(request)
        found = {judges.named(each.judge) or each.judge: each for each in offers}
        for name in judges.names:
            row = self._row(session, name, here)
            if here and judges.choice(name).startswith("local:") and name not in found:
                row = replace(row, act="", note=words.SERVER_GONE)
            if self._is_demo(name) and session.holds_real:
                # Of the chosen one the dialog's head says so
                note = "" if row.chosen else str(words.DEMO_CANNOT["told"])
                row = replace(row, act="", note=note)
            (demo if self._is_demo(name) else ready).append(row)
        for own in session.own.values():
            if own.backend:
                facts = self._facts(own.backend, here)
                chosen = own.name == session.judge
                title = own.name.split(OWN)[0]
                ready.append(JudgeRow(own.name, title, facts, act="choose", chosen=chosen))
        for name, offer in found.items():
            if name in judges.names or name == "local":  # that no server was found
                continue
            row = self._offer(offer)
            can = row.act == "open" and offer.real_videos and not offer.slow
            if offer.real_videos and not can and offer.judge.startswith("hf:"):
                gpu.append(replace(row, facts=()))  # its section says them once
            else:
                (ready if can else gpu if offer.real_videos else demo).append(row)
        rows = [*ready, *gpu, *demo]
        others = (row for row in ready if row.act and not row.chosen)
        near = (row.id for row in others if any(" on this " in fact for fact in row.facts))
        # A component that is told the same twice tells its script nothing
        return {
            **self.chip(session.judge or judges.names[0]),
            "ready": [*map(asdict, ready)],
            "hosts": self._hosts(request),
            "gpu": [*map(asdict, gpu)],
            "demo": [*map(asdict, demo)],
            "near": next(near, None),  # can judge in place of another: no frame goes elsewhere
            "busy": any(row.act == "pause" or row.note == words.LOADING for row in rows),
            "answer": None,
            "at": time.monotonic(),
        }

    def _row(self, session: Session, name: str, here: bool) -> JudgeRow:
        """Return a judge that every visitor may choose."""
        title = words.DEMO_JUDGE if self._is_demo(name) else name
        chosen = name == (session.judge or self._judges.names[0])
        row = partial(JudgeRow, name, title, act="choose", chosen=chosen)
        judge, trouble = self._judges.look(name)
        if judge is None:
            return row(("More is known once it is loaded",), note=trouble or words.LOADING)
        notes = words.visitors_notes(judge.notes, NANO_NOTE)  # the facts say so
        return row(self._facts(judge, here), note=" ".join(notes))

    def _facts(self, judge: Backend, here: bool = False) -> tuple[str, ...]:
        """Return the facts of a judge that is open."""
        cost, seen = words.FREE, words.SEEN_HERE if here else words.SEEN_BY_SERVER
        if isinstance(judge, RemoteBackend):
            server = cast(Any, judge).server
            if is_here(server.address):
                engine = ENGINES.get(server.model.engine)
                seen = words.HERE_TOO.format(engine.title if engine else "a server")
            else:
                host = host_of(server.address.kind)
                cost = words.TOKENS if host else words.FREE
                seen = words.SEEN_BY.format(host.name) if host else words.SEEN_ELSEWHERE
        seconds = self._judges.seconds.get(judge.name)
        real, trained = judge.scope == "any", bool(judge.protocols)
        return words.judge_facts(real, trained, cost, seen, seconds)

    def _offer(self, offer: Offer) -> JudgeRow:
        """Return a judge that this machine can run, with what it needs first."""
        real, source = offer.real_videos, offer.judge.partition(":")[2].partition("?")[0]
        title = judge_title(offer.judge) if real else words.DEMO_JUDGE
        served = offer.judge.startswith("local:")
        seen = words.HERE_TOO.format(offer.needs) if served else words.SEEN_HERE
        facts = words.judge_facts(real, offer.trained, words.FREE, seen)
        row = partial(JudgeRow, offer.judge, title, facts)
        if served:
            return row("open")
        if offer.judge.startswith("hf:") and not is_downloaded(source):
            if download := self._downloads.get(source):
                act, label = ("pause", "Pause") if download.goes_on else ("download", "Continue")
                return row(act, label, download.told, share=download.share)
            if not offer.missing:
                note = f"Needs {offer.needs}. {offer.slow}"
                return row("download", "Download", note)
        needed = offer.needs.partition(", a download")[0]  # which is here by now
        note = offer.missing or f"Needs {needed}. {offer.slow}"
        return row("" if offer.missing else "open", note=note)

    def _hosts(self, request: gr.Request) -> Json | None:
        """Return the form for a key: hosts, and the models of the one that is shown."""
        session, locked = self._session(request), self._locked(request)
        hosts = {kind: each.host.name for kind, each in JUDGES.items() if each.host}
        hosts = {**locked, **(hosts if "hosted" in self._offered else {})}
        if not hosts:
            return None
        kind = session.host if session.host in hosts else FIRST_HOST
        kind = kind if kind in hosts else next(iter(hosts))
        held, host = session.own.get(kind), host_of(kind)
        models = held.models if held else self._public.get(kind, (0, []))[1]
        chosen = cast(Any, held.backend).server.model.id if held and held.backend else ""
        return {
            "list": [*hosts.items()],
            "kind": kind,
            "seen": f"{words.SEEN_BY.format(hosts[kind])}.",
            "keys": host.keys_at if host else "",
            "held": held is not None,
            # Whether the list of models, or what is asked before it, refuses a wrong key
            "tried": host is None or bool(host.tries_key_at) or kind not in self._public,
            "listed": held is not None or kind in self._public,
            "models": [[each.id, _cost(each)] for each in models],
            "model": chosen or (models[0].id if models else ""),
            "chosen": held is not None and held.name == session.judge != "",
        }


def _cost(model: ServedModel) -> str:
    """Say what one pair takes at a host, about."""
    pair = Completion("", prompt_tokens=READ_TOKENS, new_tokens=WRITTEN_TOKENS)
    cost = model.prices.cost(pair) if model.prices else None
    price = "" if cost is None else f", ≈ {dollars(cost)}" if cost else ", free"
    return f"≈ {READ_TOKENS + WRITTEN_TOKENS:,} tokens{price} for a pair"
