/** Make an element of a class with these properties and children. */
VRThinker.part = (tag, className, properties, ...children) =>
  VRThinker.make(tag, { className, ...properties }, ...children);

/** What the server answers at this address, or null and a sentence that says why there is none. */
VRThinker.askServer = async (address, texts, method = "GET") => {
  try {
    const answer = await fetch(address, { method });
    if (answer.ok) return [await answer.json()];
    return [null, [400, 404].includes(answer.status) ? await answer.text() : texts.unreachable];
  } catch {
    return [null, texts.unreachable];
  }
};

/* A list of runs, which is read when it can be seen, and never otherwise. A subclass has `draw` for
an answer, `row` for a run, and `pause`: after how many milliseconds the list is read again. */
VRThinker.RunList = class {
  /** `request` asks the server for the list; `said` is where it says why there is none. */
  constructor(root, list, said, texts, request) {
    Object.assign(this, { root, list, said, texts, request, asked: 0 });
    document.addEventListener("vrt:votefirst", () => this.load());
    new IntersectionObserver(() => this.load()).observe(root);
  }

  load() {
    clearTimeout(this.timer);
    if (this.root.checkVisibility()) this.read(this.request());
  }

  /** Draw the answer; of two that cross, the one asked for last counts. */
  async read(request) {
    clearTimeout(this.timer);
    const number = ++this.asked;
    const [answer, trouble] = await request;
    if (number !== this.asked) return false;
    if (answer) this.draw(answer);
    else VRThinker.say(this.said, trouble);
    const pause = this.pause(answer);
    if (pause) this.timer = setTimeout(() => this.load(), pause);
    return Boolean(answer);
  }

  /** Draw all rows, unless nothing that `shown` holds has changed. The focus stays where it is. */
  drawRows(runs, shown, none) {
    const key = JSON.stringify([runs, shown]);
    if (this.drawn === key) return false;
    this.drawn = key;
    const { activeElement: focused } = document;
    const name = this.list.contains(focused) && focused.closest("li").dataset.run;
    const empty = none ? [VRThinker.element("li", "vrt-none", none)] : [];
    this.list.replaceChildren(...(runs.length ? runs.map((run) => this.row(run)) : empty));
    if (name) this.focus(name, focused.className ? `.${focused.className}` : focused.tagName);
    return true;
  }

  focus(name, selector) {
    this.find(name)?.querySelector(selector)?.focus({ preventScroll: true });
  }

  find(name) {
    return [...this.list.children].find((item) => item.dataset.run === name);
  }
};

/* The visitor's runs: one click opens one, another asks whether to delete it. */
VRThinker.History = class extends VRThinker.RunList {
  constructor(root, texts) {
    const { part } = VRThinker;
    const list = part("ul", "vrt-runs", { ariaLabel: "Your runs" });
    const said = part("p", "vrt-said", { role: "status", tabIndex: -1 });
    super(root, list, said, texts, () => VRThinker.askServer("history", texts));
    this.help = part("p", "vrt-history-help");
    this.all = part("div", "vrt-delete-all");
    this.runs = [];
    this.shown = VRThinker.trace?.kept;
    this.asking = null; // the name of the run that may be deleted
    root.classList.add("vrt", "vrt-history");
    root.replaceChildren(this.help, list, this.all, said);
    this.drawAll(false);
    document.addEventListener("vrt:trace", ({ detail: { run, kept = "", over } }) => {
      const key = `${run} ${kept} ${over}`;
      if (this.key === key) return;
      this.key = key;
      this.shown = kept;
      this.load();
    });
  }

  pause() {
    return this.runs.some((run) => !run.over) && 3000;
  }

  draw({ runs, help }) {
    const { said, texts } = this;
    this.runs = runs;
    this.all.hidden = runs.length === 0;
    VRThinker.say(this.help, help);
    if (said.textContent === texts.unreachable) VRThinker.say(said, "");
    this.drawRows(runs, [this.shown, this.asking], texts.none);
  }

  row(run) {
    const { button, element, part } = VRThinker;
    const { texts } = this;
    const begun = new Date(run.begun * 1000);
    const today = begun.toDateString() === new Date().toDateString();
    const day = today ? {} : { day: "numeric", month: "short" };
    const format = { ...day, hour: "2-digit", minute: "2-digit" };
    const prompt = run.prompt.trim() || texts.noPrompt;
    const line = part("span", "vrt-run-line", {},
      element("b", run.over ? "" : "vrt-goes-on", run.outcome),
      run.unchecked && element("small", "", run.unchecked),
      part("time", "", { dateTime: begun.toISOString() }, begun.toLocaleString([], format)));
    const open = button("vrt-open-run", null, () => VRThinker.openRun(run.name));
    if (run.name === this.shown) open.ariaCurrent = "true";
    open.append(part("span", "vrt-run-prompt", { dir: "auto" }, prompt));
    if (run.branch) open.append(element("span", "vrt-run-branch", run.branch));
    open.append(line, element("span", "vrt-run-judge", run.judge));
    const away = button("vrt-delete-run", texts.delete, () => this.ask(run.name, "keep"));
    const name = [prompt.slice(0, 80), run.branch].filter(Boolean).join(" · ");
    away.ariaLabel = texts.deleteRun.replace("{}", () => name);
    const item = part("li", "", {}, open, run.name === this.asking ? this.question(run) : away);
    item.dataset.run = run.name;
    return item;
  }

  question({ name }) {
    const { button, part } = VRThinker;
    const { texts } = this;
    return part("div", "vrt-delete-question", {},
      part("p", "", { role: "alert" }, texts.deleteQuestion),
      button("vrt-keep-run", texts.keepIt, () => this.ask(null, "delete", name)),
      button("vrt-delete-it", texts.deleteIt, () => this.remove(name)));
  }

  /** Whether to delete the run `asking`, if any; a button in the row of `name` has the focus. */
  ask(asking, button, name = asking) {
    this.asking = asking;
    this.drawRows(this.runs, [this.shown, asking], this.texts.none);
    this.focus(name, `.vrt-${button}-run`);
  }

  /** The focus goes to the next run, or to the one before. */
  async remove(name) {
    const item = this.find(name);
    const neighbour = item.nextElementSibling ?? item.previousElementSibling;
    if (!(await this.delete(`history/${name}`))) return;
    if (neighbour) this.focus(neighbour.dataset.run, ".vrt-delete-run");
    else this.said.focus();
  }

  /** The page goes on showing a run that was deleted, but its address does not name it any more. */
  async delete(address) {
    const done = await this.read(VRThinker.askServer(address, this.texts, "DELETE"));
    if (!done) return false;
    VRThinker.say(this.said, this.texts.deleted);
    if (this.shown && !this.find(this.shown)) VRThinker.address.forget();
    return true;
  }

  /** The button to delete all runs, or whether to. */
  drawAll(asking) {
    const { button, part } = VRThinker;
    const { all, texts } = this;
    const change = (now) => {
      this.drawAll(now);
      const first = all.querySelector("button");
      if (first.checkVisibility()) first.focus();
    };
    if (!asking) return all.replaceChildren(button("", texts.deleteAll, () => change(true)));
    const question = part("p", "", { role: "alert" }, texts.question);
    const no = button("", texts.no, () => change(false));
    const yes = button("", texts.yes, () => this.delete("history").then(() => change(false)));
    return all.replaceChildren(question, no, yes);
  }
};

/** Gradio makes it when its tab is opened for the first time. */
VRThinker.mountHistory = (root, texts) => new VRThinker.History(root, texts);
