"""What is never fetched: URLs that are none, addresses that are not public, and ways to them through names and redirects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui.fetch.local_web import VIDEO, LocalWeb, redirects, refusal
from vrthinker_core.ui.download import fetch_video
from vrthinker_core.ui.public_addresses import PUBLIC_ONLY, is_public

NO_URLS = [
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


@pytest.mark.parametrize("url", NO_URLS)
def test_a_url_that_is_none_is_refused_before_any_look_up(
    url: str, web: LocalWeb, tmp_path: Path
) -> None:
    assert "secret" not in refusal(url, tmp_path, web.policy)
    assert web.lookups == []


@pytest.mark.parametrize("port", [22, 25, 6379, 8080, 7860])
def test_other_ports_are_refused(port: int, web: LocalWeb, tmp_path: Path) -> None:
    policy = replace(web.policy, ports=PUBLIC_ONLY.ports)
    assert str(port) in refusal(f"http://film.example:{port}/film.mp4", tmp_path, policy)
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
def test_private_and_special_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "100.63.255.255", "172.32.0.1", "2606:4700:4700::1111", "2a00:1450::1"],
)
def test_other_addresses_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "169.254.169.254",
    ],
)
def test_this_machine_is_never_fetched_from_whatever_its_name(
    host: str, web: LocalWeb, tmp_path: Path
) -> None:
    """With the real policy and the system's own resolver: none of these needs a name server."""
    refusal(f"http://{host}/film.mp4", tmp_path, PUBLIC_ONLY)
    refusal(f"http://{host}:{web.port}/film.mp4", tmp_path, replace(PUBLIC_ONLY, ports=None))
    assert web.requests == []


@pytest.mark.parametrize(
    "addresses",
    [["10.0.0.7"], ["127.0.0.1", "10.0.0.7"], ["10.0.0.7", "127.0.0.1"], ["nonsense"], []],
)
def test_a_name_with_any_private_address_is_refused(
    addresses: list[str], web: LocalWeb, tmp_path: Path
) -> None:
    web.hosts["film.example"] = addresses
    sentence = refusal(web.url(), tmp_path, web.policy)
    assert "10.0.0.7" not in sentence
    assert web.requests == []


def test_only_the_first_answer_of_a_name_server_counts(web: LocalWeb, tmp_path: Path) -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.7"]])
    policy = replace(web.policy, resolve=lambda host, port: next(answers))
    assert fetch_video(web.url(), tmp_path, policy=policy).read_bytes() == VIDEO


def test_redirects_are_followed(web: LocalWeb, tmp_path: Path) -> None:
    web.replies |= {
        "/a": redirects("b"),
        "/b": redirects(f"//film.example:{web.port}/c"),
        "/c": redirects(web.url()),
    }
    assert fetch_video(web.url("/a"), tmp_path, policy=web.policy).read_bytes() == VIDEO
    assert web.lookups == ["film.example"] * 4


@pytest.mark.parametrize(
    "place",
    [
        "http://10.0.0.7/film.mp4",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/film.mp4",
        "http://private.example/film.mp4",
        "file:///etc/passwd",
        "ftp://film.example/",
        "http://anna:secret@film.example/",
        "data:,x",
        "http://[",
        "http://film.example:port/",
    ],
)
def test_redirects_to_what_is_never_fetched_are_refused(
    place: str, web: LocalWeb, tmp_path: Path
) -> None:
    web.replies["/a"] = redirects(place)
    refusal(web.url("/a"), tmp_path, web.policy)
    assert [path for path, _ in web.requests] == ["/a"]


def test_a_redirect_to_another_address_of_this_machine_is_refused(
    web: LocalWeb, tmp_path: Path
) -> None:
    """Only 127.0.0.1 counts as public here."""
    web.replies["/a"] = redirects(f"http://127.0.0.2:{web.port}/film.mp4")
    refusal(web.url("/a"), tmp_path, web.policy)
    assert [path for path, _ in web.requests] == ["/a"]


@pytest.mark.parametrize("place", ["/a", "", "//", "/a?again"])
def test_redirects_in_circles_end(place: str, web: LocalWeb, tmp_path: Path) -> None:
    web.replies["/a"] = redirects(place)
    refusal(web.url("/a"), tmp_path, web.policy)
    assert len(web.requests) == 4
