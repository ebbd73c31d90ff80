VRThinker.UNREACHABLE = "The server did not answer. Try again.";

/** What the server answers at this address, or null and a sentence that says why there is none. */
VRThinker.askServer = async (address, method = "GET") => {
  try {
    const answer = await fetch(address, { method });
    if (answer.ok) return [await answer.json()];
    if ([400, 404, 507].includes(answer.status)) return [null, await answer.text()];
  } catch {} // no answer, or not all of it
  return [null, VRThinker.UNREACHABLE];
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
    else say(this.said, trouble);
    const pause = this.pause(answer);
    if (pause) this.timer = setTimeout(() => this.load(), pause);
    return Boolean(answer);
  }

  /** Draw all rows, unless nothing that `shown` holds has changed. The focus stays where it is. */
  drawRows(runs, shown, none) {
    const { activeElement: focused } = document;
    const name = this.list.contains(focused) && focused.closest("li").dataset.run;
    const empty = none ? [element("li", "vrt-none", none)] : [];
    const rows = () => (runs.length ? runs.map((run) => this.row(run)) : empty);
    if (!fill(this.list, [runs, shown], rows)) return false;
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
    const list = element("ul", { class: "vrt-runs", "aria-label": "Your runs" });
    const said = element("p", { class: "vrt-said", role: "status", tabindex: -1 });
    super(root, list, said, texts, () => VRThinker.askServer("history"));
    this.help = element("p", "vrt-history-help");
    this.all = element("div", "vrt-delete-all");
    this.runs = [];
    this.shown = VRThinker.trace.kept;
    this.asking = null; // the name of the run that may be deleted
    root.classList.add("vrt", "vrt-history");
    root.replaceChildren(this.help, list, this.all, said);
    this.drawAll(false);
    document.addEventListener("vrt:trace", ({ detail: { run, kept = "", over } }) => {
      const key = `${run} ${kept} ${over}`;
      if (this.key === key) return;
      Object.assign(this, { key, shown: kept });
      this.load();
    });
  }

  pause() {
    return this.runs.some((run) => !run.over) && 3000;
  }

  draw({ runs, help }) {
    this.runs = runs;
    this.all.hidden = runs.length === 0;
    say(this.help, help);
    if (this.said.textContent === VRThinker.UNREACHABLE) say(this.said, "");
    this.drawRows(runs, [this.shown, this.asking], this.texts.none);
  }

  row(run) {
    const { texts } = this;
    const begun = new Date(run.begun * 1000);
    const today = begun.toDateString() === new Date().toDateString();
    const day = today ? {} : { day: "numeric", month: "short" };
    const format = { ...day, hour: "2-digit", minute: "2-digit" };
    const prompt = run.prompt.trim() || texts.noPrompt;
    const about = [
      element("span", { class: "vrt-run-prompt", dir: "auto" }, prompt),
      run.branch && element("span", "vrt-run-branch", run.branch),
      element("span", "vrt-run-line",
        element("b", run.over ? "" : "vrt-goes-on", run.outcome),
        run.unchecked && element("small", "", run.unchecked),
        element("time", { datetime: begun.toISOString() }, begun.toLocaleString([], format))),
      element("span", "vrt-run-judge", run.judge),
    ];
    const open = button("vrt-open-run", about, () => VRThinker.openRun(run.name));
    if (run.name === this.shown) open.ariaCurrent = "true";
    const away = button("vrt-delete-run", texts.delete, () => this.ask(run.name, "keep"));
    const name = [prompt.slice(0, 80), run.branch].filter(Boolean).join(" · ");
    away.ariaLabel = texts.deleteRun.replace("{}", () => name);
    const keep = [texts.keepIt, () => this.ask(null, "delete", run.name)];
    const asked = [texts.deleteQuestion, keep, [texts.deleteIt, () => this.remove(run.name)]];
    const question = () => element("div", "vrt-delete-question", this.question(...asked));
    const next = run.name === this.asking ? question() : away;
    return element("li", { "data-run": run.name }, open, next);
  }

  question(asked, keep, remove) {
    const alert = element("p", { role: "alert" }, asked);
    return [alert, button("vrt-keep-run", ...keep), button("", ...remove)];
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
    if (!(await this.read(VRThinker.askServer(address, "DELETE")))) return false;
    say(this.said, this.texts.deleted);
    if (this.shown && !this.find(this.shown)) VRThinker.address.name("");
    return true;
  }

  /** The button to delete all runs, or whether to. */
  drawAll(asking) {
    const { all, texts } = this;
    const change = (now) => {
      this.drawAll(now);
      all.querySelector("button").focus();
    };
    const yes = [texts.yes, () => this.delete("history").then(() => change(false))];
    const first = button("", texts.deleteAll, () => change(true));
    const question = this.question(texts.question, [texts.no, () => change(false)], yes);
    all.replaceChildren(...(asking ? question : [first]));
  }
};

/** Gradio makes it when its tab is opened for the first time. */
VRThinker.mountHistory = (root, texts) => new VRThinker.History(root, texts);
