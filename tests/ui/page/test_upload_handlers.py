"""Videos by web address, uploaded and removed: what becomes of the players and of the run on the page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gradio_client
import gradio_client.exceptions
import pytest

from tests.support.small_clips import write_clip
from tests.ui.conftest import Serve, Server
from tests.ui.support.browsing import Clips, Open, Page, expect
from tests.ui.support.held_stream import hold_when, open_held, release
from tests.ui.support.steps import fill, open_trace, saved, start, wait_for
from vrthinker_core.ui import words

pytestmark = pytest.mark.browser

ANSWER = (
    "<Snapshot>A block.</Snapshot><Think>It glides.</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
)


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A web server with three clips, one of which no browser plays."""
    folder = tmp_path_factory.mktemp("web")
    write_clip(folder / "one.mp4", 24)
    write_clip(folder / "two.mp4", 24, hue=60)
    write_clip(folder / "odd.mkv", 24, hue=90)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    """A server that may fetch from local addresses."""
    return serve([ANSWER], "--local-addresses", protocol="paired")


def submit_address(page: Page, side: int, address: str) -> None:
    if not page.locator(f"#address-{side} input").is_visible():
        page.locator("#addresses button").first.click()
    page.locator(f"#address-{side} input").fill(address)
    page.locator(f"#address-{side} input").press("Enter")


def wait_until_playable(page: Page, name: str) -> None:
    page.wait_for_function(
        "name => document.querySelector(`#${name} video`)?.readyState >= 1", arg=name
    )


def test_web_addresses_replace_uploads(server: Server, open_page: Open, web: str) -> None:
    page = open_page(server.url)
    submit_address(page, 1, f"{web}/one.mp4")
    wait_until_playable(page, "first")
    wait_for(page, words.ONE_VIDEO)
    submit_address(page, 2, f"{web}/odd.mkv")
    wait_until_playable(page, "second")
    expect(page.locator("#status textarea")).to_have_value(f"{words.COPY_SHOWN} {words.TWO_VIDEOS}")
    page.locator("#prompt textarea").fill("A white block glides to the right.")
    page.locator("#go").click()
    wait_for(page, "Finished after 1 turn")
    expect(page.locator(".vrt-headline")).to_have_text("Video 1 is better overall")


def test_programs_may_name_web_addresses(server: Server, web: str) -> None:
    client = gradio_client.Client(server.url, verbose=False)
    files = [gradio_client.handle_file(f"{web}/{name}") for name in ("one.mp4", "odd.mkv")]
    result = client.predict(*files, "A white block glides to the right.", api_name="/compare")
    assert (result["stop"], result["labels"]["OA"]) == ("answered", 1)
    with pytest.raises(gradio_client.exceptions.AppError, match="404"):
        client.predict(
            files[0], gradio_client.handle_file(f"{web}/none.mp4"), "A block.", api_name="/compare"
        )


def test_the_next_step_counts_no_file_that_was_refused_and_follows_the_prompt(
    server: Server, open_page: Open, clips: Clips, tmp_path: Path
) -> None:
    page = open_page(server.url)
    line, prompt = page.locator("#status textarea"), page.locator("#prompt textarea")
    text = tmp_path / "text.mp4"
    text.write_text("This is no video. " * 100)
    refused = "text.mp4 is a text file, not a video."
    page.locator("#first input[type=file]").set_input_files(str(text))
    expect(line).to_have_value(f"{refused} {words.OTHER_VIDEO}")
    page.locator("#second input[type=file]").set_input_files(str(clips[1]))
    expect(line).to_have_value(f"{refused} {words.ONE_VIDEO}")
    page.locator("#go").click()
    expect(line).to_have_value(f"{refused} {words.OTHER_VIDEO}")
    assert words.WAITING not in page.evaluate("window.statusSaid")
    page.locator("#first button[aria-label='Clear']").click()
    expect(line).to_have_value(words.ONE_VIDEO)
    page.locator("#first input[type=file]").set_input_files(str(clips[0]))
    expect(line).to_have_value(words.TWO_VIDEOS)
    prompt.fill("A white block glides to the right.")
    expect(line).to_have_value(words.READY_TO_COMPARE)
    prompt.fill("")
    expect(line).to_have_value(words.TWO_VIDEOS)


def test_an_address_that_cannot_be_fetched_changes_nothing_but_the_status(
    server: Server, open_page: Open, web: str, clips: Clips
) -> None:
    page = open_page(server.url)
    start(page, clips)
    wait_for(page, "Finished")
    for address, sentence in (
        (f"{web}/none.mp4", "404"),
        ("file:///etc/passwd", "http://"),
        ("", words.NO_ADDRESS),
        (web, "web page"),
    ):
        submit_address(page, 1, address)
        wait_for(page, sentence)
        wait_until_playable(page, "first")
        expect(page.locator(".vrt-headline")).to_have_count(1)


def test_a_run_whose_videos_were_replaced_says_what_it_judged(
    server: Server, open_page: Open, clips: Clips, web: str
) -> None:
    page = open_page(server.url)
    start(page, clips)
    wait_for(page, "Finished")
    submit_address(page, 2, f"{web}/two.mp4")
    expect(page.locator(".vrt-changed")).to_contain_text(
        "This run judged another video 2: two.mp4."
    )
    expect(page.locator(".vrt-headline")).to_have_count(1)
    page.locator("#go").click()
    expect(page.locator(".vrt-changed")).to_be_hidden()
    wait_for(page, "Finished")
    expect(
        page.locator("#go")
    ).to_be_visible()  # it is kept as well: until then what is said of its end is not the last word
    page.locator("#first button[aria-label='Clear']").click()
    wait_for(page, "videos have changed")
    expect(page.locator(".vrt-changed")).to_contain_text("another video 1: one.mp4")
    expect(page.locator(".vrt-headline")).to_have_count(1)


def test_the_end_of_a_run_does_not_take_back_what_its_page_says_since(
    server: Server, new_page: Open, clips: Clips
) -> None:
    page = open_held(new_page, server.url)
    hold_when(page, "VRThinker.trace.over")
    start(page, clips)
    wait_for(page, "Finished")
    page.wait_for_function("heldStream.held.some(([text]) => text.includes('process_completed'))")
    page.locator("#first button[aria-label='Clear']").click()
    wait_for(page, "videos have changed")
    release(page)
    page.wait_for_function("heldStream.held.length === 0")
    page.wait_for_timeout(300)
    wait_for(page, "videos have changed")
    expect(page.locator(".vrt-changed")).to_contain_text("another video 1: one.mp4")
    expect(page.locator("#go")).to_be_visible()


def test_uploading_the_videos_of_an_open_trace_keeps_its_verdict(
    server: Server, open_page: Open, clips: Clips, tmp_path: Path
) -> None:
    page = open_page(server.url)
    start(page, clips)
    wait_for(page, "Finished")
    another = open_page(server.url)
    open_trace(another, saved(page, tmp_path / "trace.json"))
    wait_for(another, "Replaying")
    fill(another, clips)
    expect(another.locator(".vrt-headline")).to_have_count(1)
    expect(another.locator(".vrt-changed")).to_be_hidden()
    another.locator("#second button[aria-label='Clear']").click()
    wait_for(another, "videos have changed")
    expect(another.locator(".vrt-changed")).to_contain_text("another video 2: two.mp4")
