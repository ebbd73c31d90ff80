/* Gradio's stream of events, which for this page does not end.

The server ends it as soon as a visitor has no event left, and the page hears of that a moment later. An event that is sent within
that moment is answered on no stream at all: a run that was begun then would never be seen. So Gradio reads a stream that stays
open, and behind it the server's own is opened again whenever an event still waits for its answer.

What the server had sent of an event before it heard that the page cancels it goes nowhere: it would stand in the place of what the
page shows by then. So would the end of an event that has come in parts: it says the last part once more. */
VRThinker.EventStream = class {
  constructor(fetched) {
    this.fetched = fetched;
    this.waiting = new Set(); // Events that are not completed
    this.cancelled = new Set(); // Events that the page has cancelled
    this.begun = new Set(); // Events of which parts have come
    this.completed = new Set(); // Those whose completion came before the answer to their request
    this.ask = null; // Opens the server's stream once more; null until Gradio has opened it
    this.open = false; // The server's stream
    this.page = null; // What Gradio reads
  }

  async fetch(address, options) {
    const { pathname } = new URL(address.url || address, location.href);
    if (pathname.endsWith("/queue/data")) return this.begin(address, options);
    if (pathname.endsWith("/cancel")) this.cancelled.add(JSON.parse(options.body).event_id);
    const answer = await this.fetched(address, options);
    if (answer.ok && pathname.endsWith("/queue/join")) this.join((await answer.clone().json()).event_id);
    return answer;
  }

  /** Gradio opens its stream. */
  async begin(address, options) {
    const request = new Request(address, options);
    const ask = () => this.fetched(request.clone());
    const answer = await ask();
    if (!answer.ok || !answer.body) return answer;
    const body = new ReadableStream({
      start: (page) => Object.assign(this, { ask, page, open: true }),
      cancel: () => this.leave(),
    });
    this.pass(answer);
    return new Response(body, { status: answer.status, headers: answer.headers });
  }

  /** An event has been sent, and was given this id. */
  join(id) {
    if (this.completed.delete(id)) return;
    this.waiting.add(id);
    if (this.ask && !this.open) this.reopen();
  }

  async reopen() {
    this.open = true;
    const answer = await this.ask().catch((error) => ({ statusText: String(error) }));
    if (answer.ok) this.pass(answer);
    else this.fail(new Error(answer.statusText));
  }

  /** Everything that the server says goes to the page, but for the end. */
  async pass(answer) {
    try {
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = "", part = await reader.read(); !part.done; part = await reader.read()) {
        const messages = (rest + part.value).split("\n\n");
        rest = messages.pop();
        messages.forEach((text) => this.hear(text));
      }
    } catch (error) {
      this.fail(error);
    }
    this.open = false;
    if (this.ask && this.waiting.size) this.reopen();
  }

  hear(text) {
    const message = JSON.parse(text.slice(text.indexOf("{")));
    const { msg, event_id } = message;
    const cancelled = this.cancelled.has(event_id);
    if (msg === "close_stream" || (cancelled && msg !== "process_completed")) return;
    if (msg === "unexpected_error") this.waiting.clear(); // Gradio tells all events
    if (msg === "process_completed" && !this.waiting.delete(event_id)) this.completed.add(event_id);
    if (msg === "process_generating") this.begun.add(event_id);
    const again = msg === "process_completed" && this.begun.delete(event_id) && message.success;
    if (cancelled) message.output = {}; // As the server says of what it cancels
    else if (again) message.output.data = message.output.data.map(() => ({ __type__: "update" })); // Changes nothing
    const said = cancelled || again ? `data: ${JSON.stringify(message)}` : text;
    if (this.page) this.page.enqueue(VRThinker.EventStream.ENCODER.encode(`${said}\n\n`));
  }

  /** The connection is lost: Gradio is told, as if there were nothing between. */
  fail(error) {
    if (this.page) this.page.error(error);
    this.leave();
  }

  leave() {
    Object.assign(this, { ask: null, open: false, page: null });
    this.waiting.clear();
  }
};
VRThinker.EventStream.ENCODER = new TextEncoder();
VRThinker.events = new VRThinker.EventStream(window.fetch.bind(window));
window.fetch = (address, options) => VRThinker.events.fetch(address, options);
