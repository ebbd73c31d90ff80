/* Gradio's stream of events, which for this page does not end.

The server ends it as soon as a visitor has no event left, and the page hears of that a moment later. An event that is sent within
that moment is answered on no stream at all: a run that was begun then would never be seen. So Gradio reads a stream that stays
open, and behind it the server's own is opened again whenever an event still waits for its answer.

The end of an event that has come in parts says the last part once more; it changes nothing. */
VRThinker.EventStream = class {
  constructor(fetched) {
    this.fetched = fetched;
    this.waiting = new Set(); // Events that are not completed
    this.begun = new Set(); // Events of which parts have come
    this.completed = new Set(); // Those whose completion came before the answer to their request
    this.ask = null; // Opens the server's stream once more; null until Gradio has opened it
    this.open = false; // The server's stream
    this.page = null; // What Gradio reads
  }

  async fetch(address, options) {
    const { pathname } = new URL(address.url || address, location.href);
    if (pathname.endsWith("/queue/data")) return this.begin(address, options);
    const answer = await this.fetched(address, options);
    if (answer.ok && pathname.endsWith("/queue/join")) this.join((await answer.clone().json()).event_id);
    return answer;
  }

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
    if (msg === "close_stream") return;
    if (msg === "unexpected_error") this.waiting.clear(); // Gradio tells all events
    if (msg === "process_completed" && !this.waiting.delete(event_id)) this.completed.add(event_id);
    if (msg === "process_generating") this.begun.add(event_id);
    const again = msg === "process_completed" && this.begun.delete(event_id) && message.success;
    if (again) message.output.data = message.output.data.map(() => ({ __type__: "update" })); // Changes nothing
    const said = again ? `data: ${JSON.stringify(message)}` : text;
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

/* Keeps the newest words of a run in sight, until the person scrolls elsewhere. */
VRThinker.Follow = class {
  constructor(root) {
    this.root = root;
    this.on = true;
    this.run = null;
    this.shown = 0;
    this.scrolledTo = window.scrollY;
    this.button = VRThinker.button("vrt-follow", "Follow the newest words", () => this.turn(!this.on));
    root.append(this.button);
    window.addEventListener("scroll", () => this.onScroll(), { passive: true });
    root.addEventListener("pointerdown", () => (this.pressed = true), true);
    for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, () => setTimeout(() => this.release()), true);
    this.update({});
  }

  /** Whatever was put off comes now, after the click. */
  release() {
    const { late } = this;
    this.pressed = false;
    this.late = null;
    if (late && this.on) late();
  }

  /** What is under a pressed button stays there: else it would be released over something else, and the click be lost. */
  whenFree(scroll) {
    if (this.pressed) this.late = scroll;
    else scroll();
  }

  turn(on) {
    this.wanted = on;
    this.on = on;
    this.button.setAttribute("aria-pressed", String(on));
    if (on) this.showNewest();
  }

  update(trace) {
    const turns = (trace.turns || []).length;
    const live = Boolean(trace.run) && !trace.over;
    const fresh = this.run !== trace.run;
    const ended = this.live && !live && !fresh;
    if (fresh || (live && !this.live)) this.begin(trace.run);
    this.live = live;
    this.button.hidden = !live || turns === 0;
    if (!trace.run) return;
    const first = turns > 0 && this.shown === 0;
    this.shown = turns;
    this.onScroll(); // a scroll whose event is still to come
    if (live && this.on) this.whenFree(() => this.follow(first));
    else if (trace.over && fresh) this.showOpened();
    else if (trace.over && ended && this.on) this.whenFree(() => this.showOutcome());
  }

  follow(first) {
    if (first) this.bringToTop(this.newest());
    this.showNewest();
  }

  begin(run) {
    this.run = run;
    this.shown = 0;
    this.scrolledTo = window.scrollY;
    this.turn(true);
  }

  newest() {
    return this.root.querySelector(".vrt-turn:last-child");
  }

  bringToTop(node) {
    const covered = VRThinker.coveredHeight();
    const top = node.getBoundingClientRect().top - covered;
    if (top > 0 && (node.getBoundingClientRect().bottom > window.innerHeight || covered > 8)) this.scroll(top);
  }

  coveredBelow() {
    return Math.max(VRThinker.stopBar.height, parseFloat(getComputedStyle(this.button).bottom) + this.button.offsetHeight) + 8;
  }

  /** Scroll down just as far as the end of the newest turn needs. */
  showNewest() {
    const node = this.newest();
    if (!node || !this.live) return;
    const below = node.getBoundingClientRect().bottom + this.coveredBelow() - window.innerHeight;
    if (below > 0) this.scroll(below);
  }

  /** A run that was opened is shown, whatever was shown before. */
  showOpened() {
    VRThinker.selectTraceTab();
    requestAnimationFrame(() => this.showOutcome());
  }

  /** A run that has ended, or that was opened, begins with its verdict. */
  showOutcome() {
    const head = (document.getElementById("run") || this.root).getBoundingClientRect().top;
    const top = head - VRThinker.coveredHeight();
    if (top < -8 || head > window.innerHeight * 0.5) this.scroll(top);
  }

  scroll(distance) {
    window.scrollBy({ top: distance, behavior: "instant" });
    this.scrolledTo = window.scrollY;
  }

  /** Whoever scrolls up reads on undisturbed; at the newest words the page follows again. */
  onScroll() {
    const moved = window.scrollY - this.scrolledTo;
    if (Math.abs(moved) < 3) return;
    this.scrolledTo = window.scrollY;
    if (!this.live) return;
    const node = this.newest();
    const near = !node || node.getBoundingClientRect().bottom < window.innerHeight + 40;
    this.on = this.wanted && near && moved > 0;
    this.button.setAttribute("aria-pressed", String(this.on));
  }
};

VRThinker.coveredHeight = () => {
  const line = document.querySelector("#rail .vrt-line");
  if (!line || getComputedStyle(line).position !== "sticky") return 8;
  return parseFloat(getComputedStyle(line).top) + line.offsetHeight + 8;
};

VRThinker.selectTraceTab = () => {
  const tab = document.querySelector("#run [role=tab]");
  if (tab && tab.getAttribute("aria-selected") !== "true") tab.click();
};

/* What is being read stays where it is while the run grows above it. Some browsers do so themselves ("scroll anchoring"), but not
   all of them do, and none when what it holds on to was drawn anew. */
VRThinker.ScrollAnchor = class {
  constructor(root) {
    this.root = root;
  }

  /** Look where the part of a turn stands that is being read; after the next frame it is brought back there. */
  hold() {
    if (this.held || window.scrollY === 0) return;
    const parts = [...this.root.querySelectorAll(".vrt-turn > *")];
    this.held = parts.find((part) => part.getBoundingClientRect().bottom > 0);
    if (!this.held) return;
    this.top = this.held.getBoundingClientRect().top;
    this.scrolled = window.scrollY;
    requestAnimationFrame(() => requestAnimationFrame(() => this.restore()));
  }

  restore() {
    const shift = this.held.getBoundingClientRect().top - this.top;
    const untouched = Math.abs(window.scrollY - this.scrolled) < 1; // neither the browser nor the person has scrolled meanwhile
    if (this.held.isConnected && untouched && Math.abs(shift) >= 1) window.scrollBy({ top: shift, behavior: "instant" });
    this.held = null;
  }
};

/* What a screen reader is told: the status line as its meaning changes, without its clock and its counts, and each verdict that comes. */
VRThinker.Announcer = class {
  constructor() {
    [this.line, this.verdict] = ["", ""].map(() => {
      const node = VRThinker.element("p", "vrt-unseen");
      node.setAttribute("role", "status");
      document.body.append(node);
      return node;
    });
    document.addEventListener("vrt:trace", () => this.trace());
  }

  status(line) {
    VRThinker.say(this.line, line.split(" · ")[0]);
    document.dispatchEvent(new CustomEvent("vrt:status", { detail: line }));
  }

  trace() {
    const { verdict } = VRThinker.trace || {};
    VRThinker.say(this.verdict, (verdict && verdict.headline) || "");
  }
};

/* Status and Stop at the foot of the window, while a run goes on whose own Stop is out of sight: on a narrow page it stands above the turns. */
VRThinker.StopBar = class {
  constructor() {
    const { element } = VRThinker;
    this.node = element("div", "vrt vrt-stop-bar");
    this.node.setAttribute("role", "group");
    this.node.setAttribute("aria-label", "The run that goes on");
    this.node.hidden = true;
    this.line = element("span"); // no live region: the announcer tells of the status
    const stop = VRThinker.button("", "Stop", () => document.getElementById("stop").click());
    this.node.append(stop, this.line);
    document.addEventListener("vrt:status", (event) => VRThinker.say(this.line, event.detail));
    document.addEventListener("vrt:running", () => this.draw());
    for (const moved of ["scroll", "resize"]) window.addEventListener(moved, () => this.draw(), { passive: true });
  }

  get height() {
    return this.node.offsetHeight;
  }

  draw() {
    const running = Boolean(VRThinker.buttons && VRThinker.buttons.running);
    const hidden = !running || this.stopIsInSight();
    if (hidden === this.node.hidden) return;
    if (!this.node.isConnected) document.getElementById("run").prepend(this.node);
    const focused = this.node.contains(document.activeElement) && document.activeElement;
    this.node.hidden = hidden;
    document.documentElement.style.setProperty("--stop-bar", `${this.height}px`);
    if (focused) VRThinker.pointerFocus.pass(focused, document.getElementById(running ? "stop" : "go"));
  }

  stopIsInSight() {
    const { top, bottom } = document.getElementById("stop").getBoundingClientRect();
    return bottom - VRThinker.coveredHeight() > 24 && window.innerHeight - top > 24;
  }
};
