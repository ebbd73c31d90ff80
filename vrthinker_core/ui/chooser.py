"""The choice of a judge: the chip beside Compare and its dialog."""

import math
import re
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast, get_args
from urllib.parse import urlsplit

import gradio as gr

from vrthinker_core.backends import NANO_NAME, Backend
from vrthinker_core.backends.base import RemoteBackend
from vrthinker_core.backends.checkpoint_files import is_downloaded
from vrthinker_core.backends.discover import local_servers
from vrthinker_core.backends.download import Download
from vrthinker_core.backends.hosted import HOSTS, checked_key
from vrthinker_core.backends.judge_name import NANO_NOTE, judge_title, parse_judge
from vrthinker_core.backends.served_model import LOOPBACK
from vrthinker_core.errors import BadInput, VrThinkerError
from vrthinker_core.ui import words
from vrthinker_core.ui.judges import OWN, JudgeLoader
from vrthinker_core.ui.layout import PageComponents, Updates
from vrthinker_core.ui.sessions import Session, Sessions
from vrthinker_core.ui.view import Json

if TYPE_CHECKING:  # it imports torch, which a Space with ZeroGPU must not see so early
    from vrthinker_core.backends.offers import Offer

JudgeGroup = Literal["demo", "local", "servers", "hosted"]
GROUPS: tuple[JudgeGroup, ...] = get_args(JudgeGroup)
PUBLIC: tuple[JudgeGroup, ...] = ("demo", "hosted")
BY_KIND: dict[str, JudgeGroup] = {"nano": "demo", "hf": "local", "local": "servers"}

FRESH_SECONDS = 10.0  # for which it is known what this machine and its servers can run
MAX_MODEL, MAX_KEY = 200, 1000  # characters


@dataclass(frozen=True, slots=True)
class JudgeRow:
    """One judge of the dialog, or one host."""

    id: str  # what the page sends back
    title: str
    facts: tuple[str, ...]  # real videos, training, time, cost, who sees the frames
    act: str = ""  # choose, open, download, pause or key; "" if nothing can be done
    label: str = words.USE  # of the button
    note: str = ""
    chosen: bool = False
    share: float | None = None  # of a download that has come
    model: str = ""  # of a host whose key the page holds
    keys_at: str = ""  # where a host gives out keys


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
        self._found: tuple[float, list[Offer]] = (-math.inf, [])  # see `_offers`

    def open(self, event: gr.EventData, request: gr.Request) -> Updates:
        """Fill the dialog; look for servers of this machine, unless it is only filled `again`."""
        if not getattr(event, "again", False):
            self._found = (-math.inf, self._found[1])
        return {self._parts.chooser: self._dialog(request)}

    def act(self, event: gr.EventData, request: gr.Request) -> Updates:
        """Do what was pressed in the dialog; a refusal is shown there.

        A key that was typed is never sent back, nor written anywhere.
        """
        session, chosen, said = self._session(request), "", ""
        act, asked = getattr(event, "act", None), str(getattr(event, "id", ""))
        may_open = asked in {each.judge for each in self._offers(request)}
        try:
            if act == "choose":
                chosen = self.name_of(session, asked)
            elif act == "open" and may_open:
                chosen = self._judges.add(asked)
            elif act == "key":
                model, key = (str(getattr(event, each, "")) for each in ("model", "key"))
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
            said = str(error)
        if not chosen:
            return {self._parts.chooser: {**self._dialog(request), "said": said}}
        session.judge = chosen
        dialog = {**self._dialog(request), "done": act != "forget"}
        return {self._parts.judge: chosen, self._parts.chooser: dialog}

    def name_of(self, session: Session, value: object) -> str:
        """Return a judge that this page may choose. Raises BadInput for any other."""
        own = [name for name, _ in session.own.values()]
        return str(value) if value in own else self._judges.choose(value)

    def chip(self, name: str) -> Json:
        """Return what the chip shows: title and state."""
        judge, trouble = self._judges.look(name)
        state = "" if judge else words.CHIP_FAILED if trouble else words.CHIP_LOADING
        return {"title": words.DEMO if self._is_demo(name) else name.split(OWN)[0], "state": state}

    def _is_demo(self, name: str) -> bool:
        judge, _ = self._judges.look(name)
        return judge.scope == "drawn" if judge else name == NANO_NAME

    def _session(self, request: gr.Request) -> Session:
        return self._sessions.get(str(request.session_hash))

    def _open_hosted(self, request: gr.Request, kind: str, model: str, key: str) -> str:
        """Open a host's model with the visitor's key, for their page alone."""
        from vrthinker_core.backends.server_backend import ServerBackend

        session = self._session(request)
        if "hosted" not in self._offered or kind not in HOSTS:
            raise BadInput(words.NO_SUCH_JUDGE)
        if key and not is_safe(request):
            raise BadInput(words.NO_KEY_HERE)
        if not model.strip() or len(model) > MAX_MODEL or len(key) > MAX_KEY:
            raise BadInput(words.NO_MODEL)
        held: Any = session.own.get(kind, ("", None))[1]
        secret = (
            held.server.secret if held and not key.strip() else checked_key(key, words.KEY_FIELD)
        )
        if not secret.value:
            raise BadInput(words.NO_KEY)
        backend = ServerBackend.open(parse_judge(f"{kind}:{model.strip()}"), secret=secret)
        name = self._judges.add_own(backend)
        session.own[kind] = name, backend
        return name

    def _forget(self, session: Session, kind: str) -> str:
        """Drop a key, and stop the run that uses it; return the judge that stays or comes."""
        name, _ = session.own.pop(kind)
        for shown in (session.waiting, session.shown):
            if shown is not None and shown.run.judge == name:
                shown.run.request_stop()
        return self._judges.names[0] if session.judge in ("", name) else session.judge

    def _offers(self, request: gr.Request) -> "list[Offer]":
        """Return what only visitors at this machine may open."""
        if not is_here(request):
            return []
        at, found = self._found
        # Transformers cannot be imported by two threads at once, and a judge that opens does so
        if time.monotonic() - at > FRESH_SECONDS and self._judges.are_loaded:
            from vrthinker_core.backends.offers import offers

            every = offers(local_servers() if "servers" in self._offered else [])
            groups = {*self._offered} - {"hosted"}
            found = [each for each in every if _group(each.judge) in groups]
            self._found = time.monotonic(), found
        return found

    def _dialog(self, request: gr.Request) -> Json:
        """Return the whole dialog."""
        session, here, judges = self._session(request), is_here(request), self._judges
        rows: dict[JudgeGroup, list[JudgeRow]] = {group: [] for group in GROUPS}
        notes: dict[JudgeGroup, str] = {}
        found = {judges.named(each.judge) or each.judge: each for each in self._offers(request)}
        for name in judges.names:
            own: JudgeGroup = "demo" if self._is_demo(name) else "local"
            rows[_group(found[name].judge) if name in found else own].append(
                self._row(session, name, here)
            )
        for name, offer in found.items():
            if name == "local":  # no server was found
                notes["servers"] = offer.missing
            elif name not in judges.names:
                rows[_group(name)].append(self._offer(offer))
        if "hosted" in self._offered:
            rows["hosted"] += self._hosts(session)
        titles = words.JUDGE_GROUPS if here else words.JUDGE_GROUPS_ELSEWHERE
        groups = [
            {"title": titles[group], "note": notes.get(group, ""), "rows": [*map(asdict, listed)]}
            for group, listed in rows.items()
            if listed or group in notes
        ]
        every = [row for listed in rows.values() for row in listed]
        busy = any(row.act == "pause" or row.note == words.LOADING for row in every)
        chip = self.chip(session.judge or judges.names[0])
        # A component that is told the same twice tells its script nothing
        return {**chip, "groups": groups, "busy": busy, "said": "", "at": time.monotonic()}

    def _row(self, session: Session, name: str, here: bool) -> JudgeRow:
        """Return a judge that every visitor may choose."""
        title = words.DEMO_JUDGE if self._is_demo(name) else name
        chosen = name == (session.judge or self._judges.names[0])
        row = partial(JudgeRow, name, title, act="choose", chosen=chosen)
        judge, trouble = self._judges.look(name)
        if judge is None:
            return row(words.UNKNOWN_FACTS, note=trouble or words.LOADING)
        notes = " ".join(note for note in judge.notes if note != NANO_NOTE)
        return row(self._facts(judge, here), note=notes)

    def _facts(self, judge: Backend, here: bool = False) -> tuple[str, ...]:
        """Return the five facts of a judge that is open."""
        cost, seen = words.FREE, words.SEEN_HERE if here else words.SEEN_BY_SERVER
        if isinstance(judge, RemoteBackend):
            server = cast(Any, judge).server
            if host := HOSTS.get(server.address.kind):
                prices, seen = server.model.prices, words.SEEN_BY.format(host.name)
                cost = words.price(prices.read, prices.written) if prices else words.TOKENS
            elif urlsplit(server.address.what).hostname not in LOOPBACK:
                seen = words.SEEN_ELSEWHERE
        seconds = self._judges.seconds.get(judge.name)
        real, trained = judge.scope == "any", bool(judge.protocols)
        return words.judge_facts(real, trained, cost, seen, seconds)

    def _offer(self, offer: "Offer") -> JudgeRow:
        """Return a judge that this machine can run, with what it needs first."""
        real, source = offer.real_videos, offer.judge.partition(":")[2].partition("?")[0]
        title = judge_title(offer.judge) if real else words.DEMO_JUDGE
        facts = words.judge_facts(real, offer.trained, words.FREE, words.SEEN_HERE)
        row = partial(JudgeRow, offer.judge, title, facts)
        if offer.judge.startswith("hf:") and not is_downloaded(source):
            if download := self._downloads.get(source):
                act, label = (
                    ("pause", words.PAUSE) if download.goes_on else ("download", words.CONTINUE)
                )
                return row(act, label, download.told, share=download.share)
            if not offer.missing:
                note = f"{words.NEEDS.format(offer.needs)} {offer.slow}"
                return row("download", words.DOWNLOAD, note)
        needs = words.SERVED_BY if offer.judge.startswith("local:") else words.NEEDS
        needed = offer.needs.partition(", a download")[0]  # which is here by now
        note = offer.missing or f"{needs.format(needed)} {offer.slow}"
        return row("" if offer.missing else "open", note=note)

    def _hosts(self, session: Session) -> Iterator[JudgeRow]:
        for kind, host in HOSTS.items():
            seen = words.SEEN_BY.format(host.name)
            facts, model = words.judge_facts(True, False, words.TOKENS, seen), ""
            name, judge = session.own.get(kind, ("", None))
            if judge is not None:
                facts, model = self._facts(judge), str(cast(Any, judge).server.model.id)
            chosen = session.judge == name != ""
            row = partial(JudgeRow, kind, host.name, facts, "key", chosen=chosen)
            yield row(model=model, keys_at=host.keys_at)


def _group(judge: str) -> JudgeGroup:
    return BY_KIND.get(re.split("[:?]", judge)[0], "hosted")


def is_here(request: gr.Request) -> bool:
    """Return whether the page was opened on this machine, and not through a proxy."""
    headers, client = request.headers, request.client
    forwarded = "x-forwarded-for" in headers or "forwarded" in headers
    host = urlsplit(f"//{headers.get('host', '')}").hostname
    return bool(client and client.host in LOOPBACK and host in LOOPBACK and not forwarded)


def is_safe(request: gr.Request) -> bool:
    """Return whether nobody on the way can read what is typed on the page."""
    origin = urlsplit(request.headers.get("origin", ""))
    return origin.scheme == "https" or origin.hostname in LOOPBACK
