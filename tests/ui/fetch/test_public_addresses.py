"""Where nobody is sent: what is no web address, what is not public, and every way round through names and redirects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui.fetch.local_web import VIDEO, Web, moves, refused
from vrthinker_core.ui.fetch.download import fetch_video
from vrthinker_core.ui.fetch.public_addresses import PUBLIC_ONLY, is_public

NEVER = [
    "file:///etc/passwd",
    "ftp://film.example/a.mp4",
    "data:video/mp4;base64,AAAA",
    "gopher://film.example/",
    "javascript:alert(1)",
    "/etc/passwd",
    "film.mp4",
    "",
    "http://",
    "http:///a.mp4",
    "http://[::1/",
    "http://film.example:port/",
    "http://film.example:99999/",
    "http://film.example:0/",
    "http://film.example:-1/",
    "http://film.example/a b",
    "http://film.example/a\r\nHost: other",
    "http://film.example\\@127.0.0.1/",
    "http://a..b/",
    f"http://{'a' * 70}.example/",
    f"http://film.example/{'a' * 3000}",
    "http://anna@film.example/a.mp4",
    "http://anna:secret@film.example/a.mp4",
    "http://:@film.example/a.mp4",
]


@pytest.mark.parametrize("url", NEVER)
def test_what_is_no_web_address_is_refused(url: str, web: Web, tmp_path: Path) -> None:
    assert "secret" not in refused(url, tmp_path, web.policy)
    assert web.lookups == []


@pytest.mark.parametrize("port", [22, 25, 6379, 8080, 7860])
def test_other_ports_are_refused(port: int, web: Web, tmp_path: Path) -> None:
    policy = replace(web.policy, ports=PUBLIC_ONLY.ports)
    assert str(port) in refused(f"http://film.example:{port}/film.mp4", tmp_path, policy)
    assert web.lookups == []


PRIVATE = [
    "127.0.0.1",
    "127.8.8.8",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.127.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "203.0.113.9",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "192.88.99.1",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:0:8.8.8.8",
    "64:ff9b::808:808",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "2002:808:808::1",
    "2001:0:808:808::1",
    "2001:db8::1",
    "fc00::1",
    "fd12::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "localhost",
    "",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "100.63.255.255", "172.32.0.1", "2606:4700:4700::1111", "2a00:1450::1"])
def test_what_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254"],
)
def test_this_machine_is_never_asked_whatever_it_is_called(host: str, web: Web, tmp_path: Path) -> None:
    """With the real rules and the system's own resolver: none of these needs a name server."""
    refused(f"http://{host}/film.mp4", tmp_path, PUBLIC_ONLY)
    refused(f"http://{host}:{web.port}/film.mp4", tmp_path, replace(PUBLIC_ONLY, ports=None))
    assert web.asked == []


@pytest.mark.parametrize("addresses", [["10.0.0.7"], ["127.0.0.1", "10.0.0.7"], ["10.0.0.7", "127.0.0.1"], ["nonsense"], []])
def test_a_name_that_leads_inside_is_refused(addresses: list[str], web: Web, tmp_path: Path) -> None:
    web.hosts["film.example"] = addresses
    told = refused(web.url(), tmp_path, web.policy)
    assert "10.0.0.7" not in told
    assert web.asked == []


def test_a_name_that_changes_its_mind_is_held_to_its_first_answer(web: Web, tmp_path: Path) -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.7"]])
    policy = replace(web.policy, resolve=lambda host, port: next(answers))
    assert fetch_video(web.url(), tmp_path, policy=policy).read_bytes() == VIDEO


def test_redirects_are_followed(web: Web, tmp_path: Path) -> None:
    web.replies |= {"/a": moves("b"), "/b": moves(f"//film.example:{web.port}/c"), "/c": moves(web.url())}
    assert fetch_video(web.url("/a"), tmp_path, policy=web.policy).read_bytes() == VIDEO
    assert web.lookups == ["film.example"] * 4


@pytest.mark.parametrize(
    "place",
    [
        "http://10.0.0.7/film.mp4",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/film.mp4",
        "http://inside.example/film.mp4",
        "file:///etc/passwd",
        "ftp://film.example/",
        "http://anna:secret@film.example/",
        "data:,x",
        "http://[",
        "http://film.example:port/",
    ],
)
def test_redirects_to_where_nobody_may_go_are_refused(place: str, web: Web, tmp_path: Path) -> None:
    web.replies["/a"] = moves(place)
    refused(web.url("/a"), tmp_path, web.policy)
    assert [path for path, _ in web.asked] == ["/a"]


def test_a_redirect_to_this_machine_is_refused_by_the_real_rules(web: Web, tmp_path: Path) -> None:
    """The first host counts as public, this machine does not."""
    web.replies["/a"] = moves(f"http://127.0.0.2:{web.port}/film.mp4")
    refused(web.url("/a"), tmp_path, web.policy)
    assert [path for path, _ in web.asked] == ["/a"]


@pytest.mark.parametrize("place", ["/a", "", "//", "/a?again"])
def test_circles_end(place: str, web: Web, tmp_path: Path) -> None:
    web.replies["/a"] = moves(place)
    refused(web.url("/a"), tmp_path, web.policy)
    assert len(web.asked) == 4
