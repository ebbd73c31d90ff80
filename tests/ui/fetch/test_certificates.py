"""Over https the certificate must be the host's, and a handshake must end."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui.fetch.local_web import VIDEO, LocalWeb, drips, refusal, serving
from vrthinker_core.ui.fetch.download import fetch_video
from vrthinker_core.ui.fetch.public_addresses import FetchPolicy


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate of film.example; key and certificate in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    path = tmp_path_factory.mktemp("certificate") / "film.pem"
    command = f"{openssl} req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=film.example -addext subjectAltName=DNS:film.example"
    done = subprocess.run(
        [*command.split(), "-keyout", "-", "-out", "-"], capture_output=True, check=True
    )
    path.write_bytes(done.stdout)
    return path


@pytest.fixture
def secure_web(certificate: Path) -> Iterator[LocalWeb]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving(context) as running:
        yield LocalWeb(running)


def trusting(web: LocalWeb, certificate: Path) -> FetchPolicy:
    return replace(
        web.policy, ssl_context=lambda: ssl.create_default_context(cafile=str(certificate))
    )


def test_the_certificate_must_be_the_hosts_own(
    secure_web: LocalWeb, certificate: Path, tmp_path: Path
) -> None:
    secure_web.hosts["other.example"] = ["127.0.0.1"]
    policy = trusting(secure_web, certificate)
    url = f"https://film.example:{secure_web.port}/film.mp4"
    fetched = fetch_video(url, tmp_path / "kept", policy=policy)
    assert fetched.read_bytes() == VIDEO
    assert "certificate" in refusal(
        url.replace("film.example", "other.example"), tmp_path / "refused", policy
    )
    assert "certificate" in refusal(url, tmp_path / "refused", secure_web.policy)
    assert [path for path, _ in secure_web.requests] == ["/film.mp4"]


def test_headers_that_drip_over_tls_end_at_the_deadline(
    secure_web: LocalWeb, certificate: Path, tmp_path: Path
) -> None:
    secure_web.replies["/film.mp4"] = drips(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n")
    url = f"https://film.example:{secure_web.port}/film.mp4"
    began = time.monotonic()
    assert "longer than 0.6 s" in refusal(
        url, tmp_path, trusting(secure_web, certificate), seconds=0.6
    )
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("drop", [b"", b"\0"], ids=["silence", "drip"])
def test_a_handshake_that_never_ends_is_given_up_at_the_deadline(
    drop: bytes, web: LocalWeb, tmp_path: Path
) -> None:
    """The beginning of a TLS record, then silence or a byte every 50 ms."""

    def stall() -> None:
        with contextlib.suppress(OSError), listening.accept()[0] as connection:
            connection.sendall(b"\x16\x03\x03\x40\x00")
            while not over.wait(0.05):
                connection.sendall(drop)

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=stall, daemon=True).start()
        began = time.monotonic()
        assert "longer than 0.6 s" in refusal(
            f"https://film.example:{listening.getsockname()[1]}/", tmp_path, web.policy, seconds=0.6
        )
        assert time.monotonic() - began < 2
        over.set()
