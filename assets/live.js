/* Gradio's stream of events. The server ends it as soon as no event of the page is left. An event
that is sent before the page hears of that would be answered on no stream. So Gradio reads one that
stays open, and the server's own is opened again behind it when an event waits for its answer. */
VRThinker.EventStream = class {
  waiting = new Set(); // events that are not completed
  begun = new Set(); // events of which parts have come
  completed = new Set(); // events that were completed before their request was answered
  ask = null; // opens the server's stream; null until Gradio has opened it once
  open = false; // the server's stream
  page = null; // what Gradio reads

  constructor() {
    const fetched = window.fetch.bind(window);
    window.fetch = async (address, options) => {
      const { pathname } = new URL(address.url ?? address, location.href);
      if (pathname.endsWith("/queue/data")) {
        const request = new Request(address, options);
        return this.begin(() => fetched(request.clone()));
      }
      const answer = await fetched(address, options);
      const joined = answer.ok && pathname.endsWith("/queue/join");
      if (joined) this.join((await answer.clone().json()).event_id);
      return answer;
    };
  }

  async begin(ask) {
    const answer = await ask();
    if (!answer.ok) return answer;
    const start = (page) => Object.assign(this, { ask, page });
    const body = new ReadableStream({ start, cancel: () => this.leave() });
    this.pass(answer);
    return new Response(body, answer);
  }

  join(id) {
    if (this.completed.delete(id)) return;
    this.waiting.add(id);
    if (this.ask && !this.open) this.pass(this.ask());
  }

  /** Pass on everything that the server says, but for the end. */
  async pass(asked) {
    this.open = true;
    try {
      const answer = await asked;
      if (!answer.ok) throw new Error(answer.statusText);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const messages = (rest + part.value).split("\n\n");
        rest = messages.pop();
        messages.forEach((text) => this.hear(text));
      }
    } catch (error) {
      this.page?.error(error); // Gradio says that the connection is lost
      this.leave();
    }
    this.open = false;
    if (this.ask && this.waiting.size) this.pass(this.ask());
  }

  hear(text) {
    const message = JSON.parse(text.slice(text.indexOf("{")));
    const { msg, event_id: id, success, output } = message;
    if (msg === "close_stream") return;
    if (msg === "unexpected_error") this.waiting.clear(); // Gradio tells all events
    if (msg === "process_generating") this.begun.add(id);
    let said = text;
    if (msg === "process_completed") {
      if (!this.waiting.delete(id)) this.completed.add(id);
      if (this.begun.delete(id) && success) {
        output.data = output.data.map(() => ({ __type__: "update" })); // not the last part again
        said = `data: ${JSON.stringify(message)}`;
      }
    }
    this.page?.enqueue(new TextEncoder().encode(`${said}\n\n`));
  }

  leave() {
    Object.assign(this, { ask: null, open: false, page: null });
    this.waiting.clear();
  }
};
VRThinker.events = new VRThinker.EventStream();

VRThinker.LEAP = 60; // pixels: a move by more than a line or two is a glide
VRThinker.GLIDE = 90; // ms in which a glide leaves a third of its way
VRThinker.KEPT_LINES = 2; // of what the judge wrote before, above the frames it asked for

/* Keeps the newest words of a run in sight until the person scrolls elsewhere. */
VRThinker.Follow = class {
  on = true;
  run = null;
  turns = 0; // that were shown

  constructor(root) {
    this.root = root;
    this.button = button("vrt-follow", "↓ Live", () => {
      if (document.activeElement === this.button) VRThinker.pointerFocus.pass(this.button);
      this.draw(true);
      this.showNewest();
    });
    root.append(this.button);
    const release = () => {
      const { late } = this;
      Object.assign(this, { pressed: false, late: null });
      if (late && this.on) late();
    };
    const onRelease = () => setTimeout(release); // after the click
    window.addEventListener("scroll", () => this.onScroll(), { passive: true });
    root.addEventListener("pointerdown", () => (this.pressed = true), true);
    for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, onRelease, true);
  }

  /** What is under a pressed button stays there, or the click would be lost. */
  whenFree(scroll) {
    if (this.pressed) this.late = scroll;
    else scroll();
  }

  draw(on) {
    this.on = on;
    this.button.hidden = on || !this.live || this.turns === 0;
  }

  /** A run whose words are hidden from one who votes first is not followed. */
  update({ run, over, turns = [], coming, ballot }) {
    const live = Boolean(run) && !over && !ballot?.hidden;
    const fresh = this.run !== run;
    const ended = this.live && over && !fresh;
    const begun = fresh || (live && !this.live);
    if (begun) Object.assign(this, { run, turns: 0, scrolledTo: window.scrollY });
    const first = turns.length > 0 && this.turns === 0;
    Object.assign(this, { live, turns: turns.length + (coming ? 1 : 0) });
    this.draw(begun || this.on);
    if (!run) return;
    this.onScroll(); // a scroll whose event is still to come
    if (live && this.on) this.whenFree(() => this.showNewest(first));
    else if (ended && this.on) this.whenFree(() => this.showOutcome());
    else if (over && fresh) {
      VRThinker.selectTraceTab();
      if (!VRThinker.address.moment) requestAnimationFrame(() => this.showOutcome());
    }
  }

  /** Scroll down just as far as the end of the newest turn needs; `first`: bring it to the top. */
  showNewest(first = false) {
    const node = this.root.querySelector(".vrt-turn:last-child");
    if (!node || !this.live) return;
    const { innerHeight } = window;
    const { top, bottom } = node.getBoundingClientRect();
    const above = VRThinker.coveredHeight();
    const covered = above + this.root.querySelector(".vrt-walk").offsetHeight;
    const toTop = first && (bottom > innerHeight || above > 8) ? top - covered : 0;
    const under = [VRThinker.stopBar.node, VRThinker.replay.controls];
    const foot = under.reduce((sum, { offsetHeight }) => sum + offsetHeight, 20);
    const below = bottom + foot - innerHeight;
    const distance = Math.min(Math.max(toTop, below), this.lastLines(node) - covered);
    if (distance > 0) this.scroll(distance);
  }

  /** Where the last lines before a turn begin, as long as nothing was written in the turn. */
  lastLines(node) {
    if (node.querySelector(".vrt-text p")) return Infinity;
    const written = node.previousElementSibling?.querySelectorAll(".vrt-text section p") ?? [];
    const last = [...written].at(-1);
    if (!last) return Infinity;
    const { lineHeight } = getComputedStyle(last);
    return last.getBoundingClientRect().bottom - VRThinker.KEPT_LINES * parseFloat(lineHeight);
  }

  /** A run that has ended, or that was opened, begins with its verdict. */
  showOutcome(again = true) {
    const { top } = document.getElementById("run").getBoundingClientRect();
    const distance = top - VRThinker.coveredHeight();
    if (distance < -8 || top > window.innerHeight * 0.5) this.scroll(distance, true);
    // A browser that holds the turns in place scrolls past a verdict that was put above them.
    const check = () => requestAnimationFrame(() => this.showOutcome(false));
    if (again) requestAnimationFrame(check);
  }

  /** Scroll by so much, a leap in a glide, which ends where the person presses or scrolls. */
  scroll(distance, atOnce = VRThinker.isCalm()) {
    const glides = !atOnce && (this.gliding || Math.abs(distance) > VRThinker.LEAP);
    cancelAnimationFrame(this.gliding);
    this.gliding = 0;
    if (glides) this.glide(window.scrollY + distance, performance.now());
    else this.move(distance);
  }

  move(distance) {
    window.scrollBy({ top: distance, behavior: "instant" });
    this.scrolledTo = window.scrollY;
  }

  glide(goal, before) {
    this.gliding = requestAnimationFrame((now) => {
      const { scrollY } = window;
      this.onScroll();
      if (!this.gliding || this.pressed) return (this.gliding = 0);
      const passed = Math.max(4, now - before);
      const part = (goal - scrollY) * (1 - Math.exp(-passed / VRThinker.GLIDE));
      this.move(Math.sign(part) * Math.max(1, Math.abs(part)));
      const goesOn = Math.abs(goal - window.scrollY) > 1 && window.scrollY !== scrollY;
      this.gliding = 0;
      if (goesOn) this.glide(goal, now);
    });
  }

  /** Whoever scrolls up reads on undisturbed; at the newest words the page follows again. */
  onScroll() {
    const moved = window.scrollY - this.scrolledTo;
    if (Math.abs(moved) < 3) return;
    this.scrolledTo = window.scrollY;
    cancelAnimationFrame(this.gliding);
    this.gliding = 0;
    const { scrollHeight, clientHeight } = document.documentElement;
    const isCutShort = moved < 0 && window.scrollY + clientHeight > scrollHeight - 2; // by the page
    if (!this.live || isCutShort) return;
    const node = this.root.querySelector(".vrt-turn:last-child");
    const bottom = node?.getBoundingClientRect().bottom ?? 0;
    this.draw(moved > 0 && (this.on || bottom < window.innerHeight + 40));
  }
};

VRThinker.coveredHeight = () => {
  const line = document.querySelector("#rail .vrt-line");
  const { position, top } = line ? getComputedStyle(line) : {};
  return position === "sticky" ? parseFloat(top) + line.offsetHeight + 8 : 8;
};

VRThinker.selectTraceTab = () => {
  const tab = document.querySelector("#run [role=tab]");
  if (tab.ariaSelected !== "true") tab.click();
};

/** What is read below `root` stays in its place while the run grows above it. Not all browsers do
so themselves, and none does when what it holds on to is drawn anew. */
VRThinker.keepInPlace = (root) => {
  const { scrollY } = window;
  const boxOf = (part) => part.getBoundingClientRect();
  const parts = scrollY > 0 ? [...root.querySelectorAll(".vrt-turn > *")] : [];
  const held = parts.find((part) => boxOf(part).bottom > 0);
  if (!held) return;
  const { top } = boxOf(held);
  const restore = () => {
    const shift = boxOf(held).top - top;
    const scrolled = Math.abs(window.scrollY - scrollY) >= 1; // by the browser or the person
    const moved = held.isConnected && !scrolled && Math.abs(shift) >= 1;
    if (moved) window.scrollBy({ top: shift, behavior: "instant" });
  };
  requestAnimationFrame(() => requestAnimationFrame(restore));
};

/* What a screen reader is told: each new verdict, and the status line without clock and counts. */
VRThinker.Announcer = class {
  said = "";

  constructor() {
    const region = () => make("p", { className: "vrt-unseen", role: "status" });
    const verdict = region();
    this.line = region();
    document.body.append(this.line, verdict);
    document.addEventListener("vrt:trace", () => {
      say(verdict, VRThinker.trace.verdict?.headline ?? "");
      this.status(this.said);
    });
  }

  /** What is said of a turn that is held back is told when it is shown. */
  status(line) {
    this.said = line;
    if (VRThinker.trace.held) return;
    say(this.line, line.split(" · ")[0]);
    document.dispatchEvent(new CustomEvent("vrt:status", { detail: line }));
  }
};

/* Status and Stop at the foot of the window while a run goes on whose own Stop is out of sight. */
VRThinker.StopBar = class {
  constructor() {
    const stop = button("", "Stop", () => document.getElementById("stop").click());
    const line = element("span"); // no live region: the announcer tells of the status
    this.node = group("vrt vrt-stop-bar", "The run that goes on", stop, line);
    this.node.hidden = true;
    document.addEventListener("vrt:status", ({ detail }) => say(line, detail));
    document.addEventListener("vrt:running", () => this.draw());
    for (const name of ["scroll", "resize"]) window.addEventListener(name, () => this.draw());
  }

  draw() {
    if (!VRThinker.buttons) return;
    const { top, bottom } = document.getElementById("stop").getBoundingClientRect();
    const inSight = bottom - VRThinker.coveredHeight() > 24 && window.innerHeight - top > 24;
    const hidden = !VRThinker.buttons.running || inSight;
    if (hidden === this.node.hidden) return;
    if (!this.node.isConnected) document.getElementById("run").prepend(this.node);
    const { activeElement: focused } = document;
    const held = this.node.contains(focused);
    this.node.hidden = hidden;
    document.documentElement.style.setProperty("--stop-bar", `${this.node.offsetHeight}px`);
    if (held) VRThinker.pointerFocus.pass(focused);
  }
};

/* -- a recorded run, played from what the server has given: the server does nothing for it ----- */
/** LETTERS are written in a second; a TICK has milliseconds, all else seconds, MOST of a run. */
VRThinker.PACE = { TICK: 80, LOOK: 1.5, LETTERS: 60, LONGEST: 10, REST: 1.8, MOST: 12 };
/* What a run that goes on does not say yet. */
VRThinker.UNKNOWN = {
  over: false, verdict: null, order: null, vote: null, ending: "", branches: null,
};

VRThinker.Replay = class {
  at = Infinity; // how many seconds of the run have been played
  speed = 1;
  held = false;
  wanted = null; // the example whose card was pressed: it plays as soon as it is here

  /** `draw` shows what `take` returns. */
  constructor(root, draw) {
    this.draw = draw;
    this.watch = button("", "▶ Watch it think", () => this.play());
    this.line = element("p", "vrt-recorded", this.watch);
    this.hold = button("", "", () => {
      this.held = !this.held;
      this.draw();
    });
    this.place = element("span");
    this.fast = button("", "2×", () => {
      this.fast.ariaPressed = this.speed === 1;
      this.speed = 3 - this.speed;
    });
    const skip = button({ "aria-label": "Skip to the end" }, "Skip", () => this.end());
    this.controls = group("vrt-playing", "Recorded run", this.hold, this.fast, skip, this.place);
    root.prepend(this.line);
    root.append(this.controls);
  }

  get playing() {
    return this.at < Infinity;
  }

  play() {
    Object.assign(this, { at: 0, held: false, before: performance.now() });
    VRThinker.selectTraceTab();
    this.tick();
  }

  /** Show the verdict, even if the person has scrolled. The focus leaves the vanishing button. */
  end() {
    const { activeElement: focused } = document;
    this.at = Infinity;
    VRThinker.follow.on = true;
    const passes = this.controls.contains(focused) && focused !== VRThinker.pointerFocus.pressed;
    this.draw();
    if (passes) this.watch.focus({ preventScroll: true });
  }

  /** A page that nobody sees stands nearly still: its ticks are rare, and none counts for long. */
  tick() {
    clearTimeout(this.timer);
    this.draw();
    if (!this.playing) return;
    this.timer = setTimeout(() => {
      const now = performance.now();
      const passed = Math.min(now - this.before, 3 * VRThinker.PACE.TICK) / 1000;
      if (!this.held) this.at += passed * this.speed;
      this.before = now;
      this.tick();
    }, VRThinker.PACE.TICK);
  }

  /** What the page shows of a run: as much as has been played, else all. */
  take(run) {
    const { recorded, ballot, turns = [] } = run;
    const fresh = this.run !== run.run;
    this.run = run.run;
    if (fresh) this.at = Infinity;
    const can = Boolean(recorded && turns.length && !ballot?.hidden); // nothing could be read
    if (fresh && this.wanted === run.address) {
      Object.assign(this, { wanted: null, at: can ? 0 : Infinity });
      if (can) setTimeout(() => this.play());
    }
    const shown = this.playing && this.played(turns);
    if (!shown) this.at = Infinity;
    this.line.hidden = this.watch.hidden = !can || this.playing;
    this.controls.hidden = !this.playing;
    say(this.hold, this.held ? "▶ Go on" : "❚❚ Pause");
    if (!shown) return run;
    const which = run.order ? " · as given" : ""; // the other order is shown at the end
    say(this.place, `Turn ${shown.turns.length} of ${turns.length}${which}`);
    return { ...run, ...VRThinker.UNKNOWN, ...shown };
  }

  /** The turns so far, and the frames that were asked for and are coming; null at the end. */
  played(turns) {
    const { LOOK, LETTERS, LONGEST, REST, MOST } = VRThinker.PACE;
    const lettersOf = ({ parts }) => parts.reduce((sum, [, text]) => sum + text.length, 0);
    const wordsOf = (turn) => VRThinker.clamp(lettersOf(turn) / LETTERS, 1, LONGEST);
    const whole = turns.reduce((sum, turn) => sum + LOOK + wordsOf(turn) + REST, 0);
    let left = this.at * Math.max(1, whole / MOST);
    for (const [position, turn] of turns.entries()) {
      const letters = lettersOf(turn);
      const words = wordsOf(turn);
      const share = (left - LOOK) / words;
      left -= LOOK + words + REST;
      if (left >= 0) continue;
      const next = turns[position + 1];
      const coming = share > 1 && next?.tiles.length ? this.unread(next, []) : null;
      const last = this.written(turn, share, share * letters);
      return { turns: [...turns.slice(0, position), last], coming };
    }
    return null;
  }

  /** The turn with that share of its words; whoever asked for less motion gets them all at once. */
  written(turn, share, letters) {
    if (share >= (VRThinker.isCalm() ? 0 : 1)) return turn;
    const parts = [];
    let left = letters;
    for (const [heading, text] of turn.parts) {
      if (left <= 0) break;
      const end = left < text.length ? Math.max(0, text.lastIndexOf(" ", left)) : text.length;
      parts.push([heading, text.slice(0, end)]);
      left -= text.length;
    }
    const { facts } = turn;
    const known = facts && parts.length ? letters / turn.parts[0][1].length : 0;
    const rows = known ? facts.rows.slice(0, Math.ceil(known * facts.rows.length)) : [];
    return this.unread(turn, parts, known ? { ...facts, rows } : null);
  }

  unread({ number, state, taken, tiles }, parts, facts = null) {
    const came = tiles.length ? state.split(" · ")[0] : ""; // not what the reply did
    return { number, state: came, taken, tiles, live: true, parts, facts };
  }
};

/** ms for which a whole request stands: 0.8 s of it in sight, after a glide if there is one. */
VRThinker.stands = () => (VRThinker.isCalm() ? 800 : 1200);

/* Holds a turn back until the request for its frames has stood, however fast the judge writes. */
VRThinker.Hold = class {
  shown = {};

  /** What the page shows of a run, until `again` is called. All of one just opened, or stopped. */
  take(run, again) {
    const { order, over, ending, ballot } = run;
    const stopped = over && (ending || order?.checked === false);
    const goesOn = run.run && run.run === this.shown.run && !stopped;
    this.shown = (goesOn && !ballot?.hidden && !document.hidden && this.hold(run)) || run;
    const { turns = [], coming } = this.shown.order?.run ?? this.shown;
    const request = [run.run, Boolean(order), turns.length, coming?.tiles.length].join();
    if (this.request !== request) Object.assign(this, { request, since: performance.now() });
    clearTimeout(this.timer);
    const left = this.since + VRThinker.stands() - performance.now();
    if (this.shown.held) this.timer = setTimeout(again, left);
    return this.shown;
  }

  /** The run without the turns that must wait, and without what came after them; else null. */
  hold(run) {
    const { shown } = this;
    const before = Object.keys(VRThinker.UNKNOWN).map((name) => [name, shown[name]]);
    const known = { ...run, ...Object.fromEntries(before), held: true };
    const first = this.cut(shown, run);
    if (first) return { ...known, ...first };
    const second = shown.order && run.order && this.cut(shown.order.run, run.order.run);
    return second && { ...known, order: { ...shown.order, run: { ...run.order.run, ...second } } };
  }

  cut({ turns: { length }, coming }, { turns }) {
    const stood = coming && performance.now() - this.since >= VRThinker.stands();
    const count = Math.max(1, stood ? length + 1 : length);
    const { state, tiles = [], taken } = turns[count] ?? {};
    if (taken || !tiles.some(({ marks }) => marks[0] === "requested")) return null;
    return { turns: turns.slice(0, count), coming: { state: state.split(" · ")[0], tiles } };
  }
};
