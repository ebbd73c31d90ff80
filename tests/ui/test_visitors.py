"""Who asks, what they may hold, and whose turn it is."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from vrthinker_core.errors import BadInput
from vrthinker_core.ui.queue import JudgeQueue
from vrthinker_core.ui.security import GuardMiddleware
from vrthinker_core.ui.visitors import (
    BYTES,
    COOKIE,
    EVENTS,
    FOLLOWERS,
    HERE_COOKIE,
    Holder,
    Limit,
    Shares,
    Visitor,
    Visitors,
    cookie_key,
    in_turns,
    refusal_of,
    visitor_of,
)

LOCAL, SITE = "127.0.0.1:7860", "judge.example"
ORIGINS = "", f"http://{LOCAL}", f"https://{SITE}"
PROXIES = {
    "none": {},
    "nginx's own": {"host": LOCAL},
    "with the name": {"host": SITE},
    "forwarded": {"host": LOCAL, "x-forwarded-for": "8.8.8.8"},
    "its host": {"host": LOCAL, "x-forwarded-host": SITE},
    "its scheme": {"host": LOCAL, "x-forwarded-proto": "https"},
    "its address": {"host": LOCAL, "x-real-ip": "8.8.8.8"},
    "via": {"host": LOCAL, "via": "1.1 cache"},
}
PAGES = {
    "private": Visitors(),
    "--name": Visitors(public=True),
    "--root-path": Visitors(public=True),
    "--behind-proxy": Visitors(hops=1),
    "a Space": Visitors(hops=-1),
}


def ask(visitors: Visitors, client: str = "127.0.0.1", **told: str) -> Visitor:
    """Whom the server sees; a header's underscores stand for its dashes."""
    headers = {"host": LOCAL} | {name.replace("_", "-"): text for name, text in told.items()}
    raw = Headers({name: text for name, text in headers.items() if text}).raw
    return visitors.of(HTTPConnection({"type": "http", "client": (client, 1), "headers": raw}))


@pytest.mark.parametrize(("page", "proxy", "origin"), [*product(PAGES, PROXIES, ORIGINS)])
def test_no_stranger_is_taken_for_the_person_at_the_machine(
    page: str, proxy: str, origin: str
) -> None:
    seen = ask(PAGES[page], **PROXIES[proxy], origin=origin)
    is_direct = not PROXIES[proxy] or proxy == "nginx's own"
    assert seen.here == (page == "private" and is_direct and origin == f"http://{LOCAL}")
    assert seen.counted or (page == "private" and is_direct), "only there nobody is counted"
    assert not ask(PAGES[page], "10.0.0.9", **PROXIES[proxy], origin=origin).here


@pytest.mark.parametrize("page", PAGES)
def test_the_token_of_the_first_address_tells_the_person(page: str) -> None:
    """Also in a container, whose peer is its host, but never through a proxy."""
    visitors = PAGES[page]
    for token, known in ((visitors.token, True), ("x", False), ("é", False)):
        cookie = f"{HERE_COOKIE}={token}"
        assert ask(visitors, "172.17.0.1", cookie=cookie).here == known
        assert not ask(visitors, cookie=cookie, x_forwarded_for="8.8.8.8").here


ADDRESSES = [
    (0, "9.9.9.9", "8.8.8.8", "9.9.9.9"),
    (0, "10.0.0.1", "8.8.8.8", "10.0.0.1"),
    (1, "10.0.0.1", "1.1.1.1, 8.8.8.8", "8.8.8.8"),
    (2, "10.0.0.1", "1.1.1.1, 8.8.8.8, 9.9.9.9", "8.8.8.8"),
    (2, "10.0.0.1", "8.8.8.8", "10.0.0.1"),
    (-1, "10.0.0.1", "1.1.1.1, 8.8.8.8, 10.1.2.3", "8.8.8.8"),
    (-1, "10.0.0.1", "nobody, 10.1.2.3", "10.0.0.1"),
    (0, "2001:db8:1:2:3:4:5:6", "", "2001:db8:1:2::/64"),
    (0, "2001:db8:1:2::9", "", "2001:db8:1:2::/64"),
    (0, "::ffff:8.8.8.8", "", "8.8.8.8"),
    (0, "testclient", "", "testclient"),
]


@pytest.mark.parametrize(("hops", "peer", "told", "address"), ADDRESSES)
def test_a_proxy_is_believed_as_far_as_it_was_named(
    hops: int, peer: str, told: str, address: str
) -> None:
    assert ask(Visitors(hops=hops), peer, x_forwarded_for=told).address == address


def test_proxies_that_add_a_line_are_read_as_those_that_add_a_word() -> None:
    lines = [(b"x-forwarded-for", text) for text in (b"1.1.1.1", b"8.8.8.8")]
    request = HTTPConnection({"type": "http", "client": ("10.0.0.1", 1), "headers": lines})
    assert Visitors(hops=1).of(request).address == "8.8.8.8"


def app(visitors: Visitors, in_frame: bool = False, names: tuple[str, ...] = ()) -> TestClient:
    def here(request: Request) -> Response:
        return JSONResponse(visitor_of(request).here)

    paths = "/", "/here", "/runs/{name}/report.html", "/reports/{name}.html"
    made = Starlette(routes=[Route(path, here) for path in paths])
    made.add_middleware(GuardMiddleware, visitors, names, in_frame=in_frame)
    return TestClient(made, base_url=f"http://{LOCAL}", client=("172.17.0.1", 1))


def test_the_first_address_leaves_no_token_behind() -> None:
    visitors = Visitors()
    person = app(visitors)
    assert person.get("/here").json() is False
    answer = person.get("/", params={"trace": "a b", "token": visitors.token})
    assert str(answer.url) == f"http://{LOCAL}/?trace=a+b"
    assert person.get("/here").json() is True
    stranger = app(visitors)
    stranger.get("/", params={"token": "x" * 32})
    assert stranger.get("/here").json() is False


def test_a_cookie_goes_back_over_tls_alone_where_it_came_so() -> None:
    told = {"x-forwarded-proto": "https"}
    for visitors, headers, secure in (
        (Visitors(), told, False),
        (Visitors(hops=1), {}, False),
        (Visitors(hops=1), told, True),
    ):
        cookie = app(visitors).get("/", headers=headers).headers["set-cookie"]
        assert ("; Secure" in cookie) == secure


def test_the_page_stands_in_frames_of_its_own_names_and_a_report_in_any() -> None:
    def around(client: TestClient, path: str = "/") -> str:
        return client.get(path).headers["content-security-policy"].partition("frame-ancestors ")[2]

    assert around(app(Visitors())) == "'self'"
    assert around(app(Visitors(), names=(SITE,))) == f"'self' {SITE}:*"
    assert around(app(Visitors(), in_frame=True)) == "'self' https://huggingface.co"
    assert around(app(Visitors()), "/runs/1/report.html") == "'self'"
    report = app(Visitors()).get("/reports/1.html").headers["content-security-policy"]
    assert report == "sandbox allow-scripts; frame-ancestors *"


def test_servers_of_one_folder_know_each_others_cookies(tmp_path: Path) -> None:
    first, second = (Visitors(cookie_key(tmp_path / "runs")) for _ in range(2))
    cookie = first.signed("")
    assert second.owner_of({COOKIE: cookie}) == first.owner_of({COOKIE: cookie}) != ""
    assert second.signed(cookie) == cookie
    assert Visitors(cookie_key(Path("/dev/null"))).owner_of({COOKIE: cookie}) == ""


# -- shares and turns ------------------------------------------------------------------------------

people = st.builds(Visitor, st.sampled_from("abcdefghijklmnop"), st.sampled_from("123"))
LIMIT, LIMITS = Limit(4, 24, "own", "all"), (EVENTS, FOLLOWERS, BYTES)


@given(st.lists(people, max_size=120), people)
def test_nobody_is_refused_by_what_others_hold(asking: list[Visitor], last: Visitor) -> None:
    held = Counter[Holder]()
    for each in asking:
        told, own = refusal_of(LIMIT, each, held), held[each.share]
        beside = [share for share in held if share[0] == each.address]
        of_address = sum(held[share] for share in beside)
        if own < LIMIT.each and of_address < 8 * LIMIT.each and held.total() < LIMIT.whole:
            assert told == ""
        if not told:
            held[each.share] += 1
        held += Counter()  # drops what nobody holds
    assert held.total() <= 2 * LIMIT.whole
    newcomer = Visitor(last.owner, "another address")
    assert held.total() == 2 * LIMIT.whole or refusal_of(LIMIT, newcomer, held) == ""


@given(st.integers(0, 200))
def test_one_address_never_takes_what_another_needs(cookies: int) -> None:
    held = Counter[Holder]()
    for number in range(cookies):  # a new cookie a request
        hog = Visitor(str(number), "hog")
        held[hog.share] += not refusal_of(LIMIT, hog, held)
    assert held.total() <= LIMIT.whole
    for _ in range(int(LIMIT.each)):
        assert refusal_of(LIMIT, Visitor("honest", "home"), held) == ""
        held["home", "honest"] += 1


def test_twenty_people_of_one_address_get_what_one_at_home_gets() -> None:
    """Each uploads two clips of 60 MB, lets 8 requests and a run wait; half keep no cookie."""
    every, queue = [*map(Shares, LIMITS)], JudgeQueue()
    for number in range(20):
        visitor = Visitor(str(number) if number % 2 else "", "office")
        queue.join(number, "nano", visitor)
        for shares, many, amount in zip(every, (8, 1, 2), (1, 1, 60e6), strict=True):
            for place in range(many):
                shares.take((number, place), visitor, amount)
    assert [len(shares.held()) for shares in every] == [160, 20, 40]


def test_a_share_is_counted_anew_and_given_back() -> None:
    shares = Shares(Limit(10, 100, "own", "all"))
    anna, person = Visitor("anna", "home"), Visitor("", "127.0.0.1", counted=False)
    for size in (4, 7, 10):
        shares.take("one", anna, size)
    with pytest.raises(BadInput, match="own"):
        shares.take("two", anna, 1)
    shares.release("one")
    shares.take("two", anna, 10)
    shares.take("large", person, 90)
    assert shares.held() == ["two", "large"]
    with pytest.raises(BadInput, match="all"):
        shares.take("larger", person, 91)


@given(st.lists(people, max_size=40), st.lists(people, max_size=8))
def test_addresses_then_visitors_take_turns(waiting: list[Visitor], running: list[Visitor]) -> None:
    line = [*enumerate(waiting)]
    turns = [*in_turns(dict(line), running).items()]
    assert sorted(turns) == line
    served = Counter(each.address for each in running)
    own = Counter(each.share for each in running)
    left = Counter(each.address for each in waiting)
    for place, (_, who) in enumerate(turns):
        least = min(served[address] for address in left if left[address])
        assert served[who.address] == least, "the address that had fewest comes next"
        rest = [one for number, one in line if (number, one) not in turns[:place]]
        beside = {one.share for one in rest if one.address == who.address}
        assert own[who.share] == min(own[share] for share in beside)
        served[who.address] += 1
        own[who.share] += 1
        left[who.address] -= 1


def test_limits_leave_room_for_more_than_one_address() -> None:
    for limit in LIMITS:
        assert limit.whole >= 8 * limit.each
