"""A page to which the server's updates come one by one, and only as far as a test lets them."""

from collections.abc import Callable

from tests.ui.support.browsing import Page

SCRIPT = """
const fetched = window.fetch, encoder = new TextEncoder();
const drawn = () => new Promise((done) => setTimeout(done, 40));
const stream = (window.heldStream = { held: [], holding: false, reached: null, busy: false });
stream.pass = async () => {
    if (stream.busy) return;
    for (stream.busy = true; stream.held.length && !stream.holding; ) {
        stream.held.shift()[1]();
        if (!stream.reached) continue;
        await drawn();
        stream.holding = stream.holding || Boolean(stream.reached());
    }
    stream.busy = false;
};
const add = (text, give) => {
    const unlessLeft = () => { try { give(); } catch (error) { console.debug("Left.", error); } };
    stream.held.push([text, unlessLeft]);
    stream.pass();
};
window.fetch = async (url, options) => {
    const answer = await fetched(url, options), { status, headers } = answer;
    if (!String(url.url || url).includes("/queue/data")) return answer;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const start = async (page) => {
        const give = (text) => () => page.enqueue(encoder.encode(text + "\\n\\n"));
        for (let rest = "", part = {}; !part.done; ) {
            part = await reader.read();
            const messages = (rest + (part.value || "")).split("\\n\\n");
            rest = messages.pop();
            messages.forEach((text) => add(text, give(text)));
        }
        add("", () => page.close());
    };
    return new Response(new ReadableStream({ start }), { status, headers });
};
"""
SET = "() => {{ Object.assign(heldStream, {{ reached: {}, holding: false }}); heldStream.pass(); }}"


def open_held(new_page: Callable[..., Page], url: str, **options: object) -> Page:
    """The page of a server; what comes over the stream of its events can be held."""
    page = new_page(**options)
    page.add_init_script(f"(() => {{ {SCRIPT} }})()")
    page.goto(url)
    page.wait_for_selector("#rail .vrt-track", state="attached")
    return page


def hold_when(page: Page, condition: str = "true") -> None:
    """Let what is held go on, up to the message after which a condition of the page holds."""
    page.evaluate(SET.format(f"() => {condition}"))


def wait_until_held(page: Page, messages: int = 0) -> None:
    """Until nothing reaches the page any more, and so many updates of a run lie ready."""
    count = "heldStream.held.filter(([text]) => text.includes('process_generating')).length"
    page.wait_for_function(f"messages => heldStream.holding && {count} >= messages", arg=messages)


def release(page: Page) -> None:
    """All that is held reaches the page, and whatever follows."""
    page.evaluate(SET.format("null"))
