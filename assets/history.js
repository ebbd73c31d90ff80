/* The visitor's runs: one click opens one, another asks whether to delete it. The list is read when it can be seen, and never otherwise. */
VRThinker.MILLISECONDS_BETWEEN_LISTS = 3000; // while a run goes on and the list is in sight

VRThinker.History = class {
  /** `open(name)` shows the run of that name; `texts` are the sentences of the list. */
  constructor(root, open, texts) {
    const { element } = VRThinker;
    this.onOpen = open;
    this.texts = texts;
    this.root = root;
    root.classList.add("vrt", "vrt-history");
    this.help = element("p", "vrt-history-help");
    this.list = element("ul", "vrt-runs");
    this.list.setAttribute("aria-label", "Your runs");
    this.all = element("div", "vrt-delete-all");
    this.said = element("p", "vrt-said");
    this.said.setAttribute("role", "status");
    this.said.tabIndex = -1; // takes the focus when the last run has been deleted
    root.replaceChildren(this.help, this.list, this.all, this.said);
    this.drawAll(false);
    this.shown = (VRThinker.trace || {}).kept;
    this.asking = null; // the name of the run that may be deleted
    document.addEventListener("vrt:trace", (event) => this.onTrace(event.detail || {}));
    document.addEventListener("vrt:votefirst", () => this.load());
    new IntersectionObserver(() => this.load()).observe(root);
  }

  onTrace({ run, kept = "", over }) {
    const key = `${run} ${kept} ${over}`;
    if (this.key === key) return;
    this.key = key;
    this.shown = kept;
    this.load();
  }

  async load() {
    clearTimeout(this.timer);
    if (!this.root.checkVisibility()) return;
    await this.ask("history");
  }

  /** Every answer is the whole list; of two that cross, the one asked for last counts. Where a run goes on it is soon asked for again. */
  async ask(address, method = "GET") {
    clearTimeout(this.timer); // else the list that it asks for would be the one that counts
    const done = await this.fetch(address, method);
    clearTimeout(this.timer);
    const live = (this.runs || []).some((run) => !run.over);
    if (live) this.timer = setTimeout(() => this.load(), VRThinker.MILLISECONDS_BETWEEN_LISTS);
    return done;
  }

  async fetch(address, method) {
    const number = (this.number = (this.number || 0) + 1);
    const answer = await fetch(address, { method }).catch(() => null);
    if (number !== this.number) return false;
    if (!answer || !answer.ok) {
      VRThinker.say(this.said, this.texts.unreachable);
      return false;
    }
    const { runs, help } = await answer.json();
    if (number !== this.number) return false;
    if (this.said.textContent === this.texts.unreachable) VRThinker.say(this.said, "");
    VRThinker.say(this.help, help);
    this.draw(runs);
    return true;
  }

  draw(runs) {
    const key = JSON.stringify([runs, this.shown, this.asking]);
    if (this.drawn === key) return;
    const focused = document.activeElement && this.list.contains(document.activeElement) ? document.activeElement : null;
    const place = focused && { name: focused.closest("li").dataset.run, kind: focused.className };
    this.drawn = key;
    this.runs = runs;
    this.list.replaceChildren(...(runs.length ? runs.map((run) => this.row(run)) : [VRThinker.element("li", "vrt-none", this.texts.none)]));
    this.all.hidden = runs.length === 0;
    if (place) this.focus(place);
  }

  /** The focus stays where it was, whatever was added or removed above. */
  focus({ name, kind }) {
    const row = this.find(name);
    const same = row && row.querySelector(`.${kind}`);
    if (same) same.focus({ preventScroll: true });
  }

  find(name) {
    return [...this.list.children].find((item) => item.dataset.run === name);
  }

  row(run) {
    const { element } = VRThinker;
    const item = element("li");
    item.dataset.run = run.name;
    const open = VRThinker.button("vrt-open-run", null, () => this.onOpen(run.name));
    if (run.name === this.shown) open.setAttribute("aria-current", "true");
    const line = element("span", "vrt-run-line");
    const time = element("time", "", this.time(run.begun));
    time.dateTime = new Date(run.begun * 1000).toISOString();
    const unchecked = run.unchecked ? [element("small", "", run.unchecked)] : [];
    line.append(element("b", run.over ? "" : "vrt-goes-on", run.outcome), ...unchecked, time);
    const prompt = element("span", "vrt-run-prompt", (run.prompt || "").trim() || this.texts.noPrompt);
    prompt.dir = "auto";
    const branch = run.branch ? [element("span", "vrt-run-branch", run.branch)] : [];
    open.append(prompt, ...branch, line, element("span", "vrt-run-judge", run.judge));
    item.append(open, run.name === this.asking ? this.question(run) : this.away(run, prompt.textContent));
    return item;
  }

  away(run, prompt) {
    const away = VRThinker.button("vrt-delete-run", this.texts.delete, () => this.askWhether(run.name, "vrt-keep-run"));
    const names = [prompt.slice(0, 80), run.branch].filter(Boolean);
    away.setAttribute("aria-label", this.texts.deleteRun.replace("{}", () => names.join(" · ")));
    return away;
  }

  question(run) {
    const { button, element } = VRThinker;
    const node = element("div", "vrt-delete-question");
    const text = element("p", "", this.texts.deleteQuestion);
    text.setAttribute("role", "alert");
    const keep = button("vrt-keep-run", this.texts.keepIt, () => this.askWhether(null, "vrt-delete-run", run.name));
    node.append(text, keep, button("vrt-delete-it", this.texts.deleteIt, () => this.remove(run)));
    return node;
  }

  /** Whether to delete the run `asking`, if any; the focus goes to a button in the row of the run `name`. */
  askWhether(asking, kind, name = asking) {
    this.asking = asking;
    this.draw(this.runs);
    this.focus({ name, kind });
  }

  /** Today's runs by the hour, others with their day. */
  time(seconds) {
    const when = new Date(seconds * 1000);
    const day = when.toDateString() === new Date().toDateString() ? {} : { day: "numeric", month: "short" };
    return when.toLocaleString([], { ...day, hour: "2-digit", minute: "2-digit" });
  }

  /** The focus goes to the next run, or to the one before. */
  async remove(run) {
    const item = this.find(run.name);
    const neighbour = item && (item.nextElementSibling || item.previousElementSibling);
    if (!(await this.delete(`history/${run.name}`))) return;
    if (neighbour) this.focus({ name: neighbour.dataset.run, kind: "vrt-delete-run" });
    else this.said.focus();
  }

  /** The page goes on showing a run that was deleted, but its address does not name it any more. */
  async delete(address) {
    const done = await this.ask(address, "DELETE");
    if (!done) return false;
    VRThinker.say(this.said, this.texts.deleted);
    if (this.shown && !this.find(this.shown)) VRThinker.address.forget();
    return true;
  }

  drawAll(asking) {
    const { texts } = this;
    const { button, element } = VRThinker;
    const change = (now) => {
      this.drawAll(now);
      const first = this.all.querySelector("button");
      if (first.checkVisibility()) first.focus();
    };
    if (!asking) return this.all.replaceChildren(button("", texts.deleteAll, () => change(true)));
    const question = element("p", "", texts.question);
    question.setAttribute("role", "alert");
    const yes = async () => {
      await this.delete("history");
      change(false);
    };
    return this.all.replaceChildren(question, button("", texts.no, () => change(false)), button("", texts.yes, yes));
  }
};

/** The list. Gradio makes it when its tab is opened for the first time, so the page's address is kept elsewhere. */
VRThinker.mountHistory = (root, texts) => {
  VRThinker.history = new VRThinker.History(root, (name) => VRThinker.openRun(name), texts);
};
