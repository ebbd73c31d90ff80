"""A page to which what the server says of a run comes one message at a time, and only as far as a test lets it."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.waiting import until
from tests.ui.support.browsing import APIResponse, Page, Route

SCRIPT = """() => {
    const fetched = window.fetch;
    const drawn = () => new Promise((done) => setTimeout(done, 40));
    const stream = { held: [], holding: false, reached: null };
    let busy = false;
    stream.pass = async () => {
        if (busy) return;
        for (busy = true; stream.held.length && !stream.holding; ) {
            stream.held.shift()[1]();
            if (!stream.reached) continue;
            do {
                await drawn();
                stream.holding = stream.holding || Boolean(stream.reached?.());
            } while (!stream.holding && window.VRThinker?.trace?.held);
        }
        busy = false;
    };
    const unless_left = (give) => { try { give(); } catch (error) { console.debug("The page has left the stream.", error); } };
    const add = (text, give) => { stream.held.push([text, () => unless_left(give)]); stream.pass(); };
    window.heldStream = stream;
    window.fetch = async (url, options) => {
        const answer = await fetched(url, options);
        if (!String(url.url || url).includes("/queue/data")) return answer;
        const [reader, encoder] = [answer.body.pipeThrough(new TextDecoderStream()).getReader(), new TextEncoder()];
        const body = new ReadableStream({ start: async (page) => {
            let rest = "";
            for (let part = {}; !part.done; ) {
                part = await reader.read();
                const messages = (rest + (part.value || "")).split("\\n\\n");
                rest = messages.pop();
                for (const text of messages) add(text, () => page.enqueue(encoder.encode(text + "\\n\\n")));
            }
            add("", () => page.close());
        } });
        return new Response(body, { status: answer.status, headers: answer.headers });
    };
}"""


def open_held(new_page: Callable[..., Page], url: str, **options: object) -> Page:
    """The page of a server; what comes over the stream of its events can be held."""
    page = new_page(**options)
    page.add_init_script(f"({SCRIPT})()")
    page.goto(url)
    page.wait_for_selector("#rail .vrt-track", state="attached")
    return page


def hold_when(page: Page, condition: str = "true") -> None:
    """What is held goes on to the page, up to the message after which a condition of the page holds; no other follows it."""
    page.evaluate(
        f"() => {{ Object.assign(heldStream, {{ reached: () => {condition}, holding: false }}); heldStream.pass(); }}"
    )


def wait_until_held(page: Page, messages: int = 0) -> None:
    """Until nothing reaches the page any more, and so many updates of a run lie ready."""
    count = "heldStream.held.filter(([text]) => text.includes('process_generating')).length"
    page.wait_for_function(f"messages => heldStream.holding && {count} >= messages", arg=messages)


def release(page: Page) -> None:
    """All that is held reaches the page, and whatever follows."""
    page.evaluate(
        "() => { Object.assign(heldStream, { reached: null, holding: false }); heldStream.pass(); }"
    )
    page.wait_for_function("heldStream.held.length === 0")


class HeldAnswer:
    """The answer to the first of a page's requests whose body has these words, which the page gets when it is released."""

    def __init__(self, page: Page, words: str = "") -> None:
        self._page, self._words = page, words
        self.held: tuple[Route, APIResponse] | None = None
        page.route("**/gradio_api/{queue/join,run/predict}*", self._on_request)

    def _on_request(self, route: Route) -> None:
        if self.held or self._words not in (route.request.post_data or ""):
            route.continue_()
        else:
            self.held = route, route.fetch()

    def wait(self) -> tuple[Route, APIResponse]:
        """Until the server has given it."""
        until(lambda: self._page.wait_for_timeout(20) or self.held)
        assert self.held
        return self.held

    def release(self) -> None:
        route, response = self.wait()
        route.fulfill(response=response)
