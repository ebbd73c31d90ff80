/* "What if": a small form on a turn's card, which asks for a branch of the run that is shown. */
VRThinker.BranchForm = class {
  /** Made of what `ui/layout.py` gives; `start` sends the form's values. */
  constructor({ words, maxFrames, maxPrompt, windows, judges }, start) {
    Object.assign(this, { words, start });
    const small = (text) => element("small", "", text);
    const input = (name, type, more) =>
      element("input", { name, type, autocomplete: "off", ...more });
    const select = (name, choices) => {
      const options = [[words.same, ""], ...choices].map((choice) => new Option(...choice));
      return element("select", { name }, options);
    };
    this.turn = input("turn", "number", { min: 1 });
    this.frames = input("frames", "text", { maxlength: 8 * maxFrames, "aria-label": words.frames });
    this.take = button("", words.take, () => {
      const all = `${this.frames.value} ${VRThinker.rail.numbers()}`.match(/\d+/g) ?? [];
      this.frames.value = [...new Set(all)].join(", ");
    });
    this.noTool = input("no_tool", "checkbox");
    this.prompt = element("textarea", { name: "prompt", rows: 2, maxlength: maxPrompt });
    this.framesHelp = small(words.framesHelp);
    this.promptHelp = small(words.promptLater);
    this.said = element("p", { class: "vrt-whatif-said", role: "alert" });
    // No label: it could name one of the two only.
    const taken = element("span", "vrt-take", this.frames, this.take);
    const text = (name) => element("span", "", name);
    const field = (name, ...parts) => element("label", "vrt-field", text(name), parts);
    const look = { class: "vrt-whatif", "aria-label": words.open.replace("…", "") };
    this.node = element("form", look,
      field(words.turn, this.turn, small(words.turnHelp)),
      element("div", "vrt-field", text(words.frames), taken, this.framesHelp),
      element("label", "vrt-field vrt-tick", this.noTool, text(words.noTool)),
      field(words.window, select("window", windows)),
      field(words.judge, select("judge", judges)),
      field(words.prompt, this.prompt, this.promptHelp),
      this.said,
      element("div", "vrt-whatif-foot", [
        element("button", "vrt-start", words.start),
        button("", words.close, () => this.close()),
      ]));
    this.node.addEventListener("submit", (event) => this.submit(event));
    this.node.addEventListener("input", () => this.fit());
    this.node.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
      event.stopPropagation(); // what is typed here moves no player
    });
  }

  open(card, turn, trace) {
    this.opener = document.activeElement;
    this.node.reset();
    this.turn.max = trace.turns.length + 1;
    this.turn.value = turn;
    this.prompt.value = trace.prompt || "";
    this.judged = this.prompt.value;
    this.say("");
    card.append(this.node);
    this.fit();
    this.turn.focus();
  }

  close() {
    this.node.remove();
    this.opener.focus();
  }

  say(sentence) {
    fill(this.said, sentence ? [sentence] : [], (said) => said);
  }

  /** What the first turn cannot have, or only it: said before anything is sent. */
  fit() {
    const { words } = this;
    const isFirst = Number(this.turn.value) <= 1;
    this.frames.disabled = this.take.disabled = isFirst;
    say(this.framesHelp, isFirst ? words.framesFirst : words.framesHelp);
    this.prompt.disabled = !isFirst;
    this.promptHelp.hidden = isFirst;
  }

  submit(event) {
    event.preventDefault();
    this.say("");
    const values = Object.fromEntries(new FormData(this.node)); // of fields that are enabled
    if (this.prompt.value === this.judged) delete values.prompt;
    this.start({ ...values, no_tool: this.noTool.checked });
  }
};

/* Origin and branches side by side above the verdict, and the way to a branch on each card. */
VRThinker.Branches = class {
  /** `form` asks for a branch; `show` shows the run at a place. */
  constructor(form, show) {
    const { words } = form;
    Object.assign(this, { form, show, words });
    this.scroll = element("div", "vrt-strip-scroll");
    this.node = element("section", { class: "vrt-strip", "aria-label": words.strip }, this.scroll);
    const ask = (judge) => form.start({ turn: 1, judge });
    this.compare = button("vrt-compare", words.compare, () => VRThinker.chooseJudge(ask));
    document.addEventListener("vrt:trace", ({ detail }) => this.draw(detail));
  }

  draw(trace) {
    const { run, over, turns, branches, shownOrder } = trace;
    const isNew = this.trace?.run !== run;
    const verdict = document.querySelector("#trace .vrt-verdict");
    this.trace = trace;
    const vote = document.querySelector("#trace .vrt-ask-vote");
    if (!verdict || !vote) return; // the page is going
    const first = verdict.parentNode.firstChild; // the button to share the run, beside the headline
    if (this.node !== first) first.before(this.node);
    if (!this.compare.isConnected) vote.before(this.compare);
    const can = Boolean(run && over && turns.length && !shownOrder);
    this.drawStrip(branches, Boolean(over));
    this.compare.hidden = !can;
    this.node.hidden = !branches;
    const cards = document.querySelectorAll("#trace .vrt-turns > .vrt-turn");
    cards.forEach((card, position) => this.drawButton(card, position + 1, can));
    // The run that the form was on is gone, and the form with it.
    const lost = isNew && document.activeElement === document.body;
    if (lost) this.scroll.querySelector('[aria-pressed="true"]')?.focus({ preventScroll: true });
  }

  drawButton(card, turn, can) {
    let ask = card.querySelector(".vrt-ask-branch");
    if (!ask) {
      const name = `${this.words.open.replace("…", "")} from turn ${turn}`;
      const look = { class: "vrt-ask-branch", "aria-label": name };
      ask = button(look, this.words.open, () => this.form.open(card, turn, this.trace));
      card.querySelector("header").append(ask);
    }
    ask.style.visibility = can ? "" : "hidden"; // nothing that is read may move
  }

  drawStrip(branches, over) {
    const { scroll } = this;
    const buttons = () => [...scroll.querySelectorAll("button")];
    const focused = buttons().indexOf(document.activeElement);
    const table = () => [this.table(branches, over)];
    if (!fill(scroll, branches && [branches, over], table)) return;
    buttons()[focused]?.focus({ preventScroll: true });
    // Where not all columns have room, that of the run that is shown is in sight.
    const column = scroll.querySelector("thead .shown");
    if (column) scroll.scrollLeft = column.offsetLeft + column.offsetWidth - scroll.clientWidth;
  }

  table({ runs, shown }, over) {
    const { dimension, differs } = this.words;
    const look = (place) => (place === shown ? "shown" : "");
    const heads = runs.map(({ name, judge }, place) => {
      const state = { "aria-pressed": place === shown, "aria-disabled": !over };
      const choose = () => over && place !== shown && this.show(place);
      const named = [element("b", "", name), element("span", "", judge)];
      return element("th", { class: look(place), scope: "col" }, button(state, named, choose));
    });
    const cell = ({ labels, note }, row, place) => {
      const label = labels[row];
      const why = row === 0 && note;
      if (!label) return element("td", look(place), element("span", "vrt-strip-note", why));
      const mark = label.differs && [" ", element("span", "vrt-differs", differs)];
      const said = `${look(place)} vrt-says${label.value}`;
      return element("td", said, element("b", "", label.label), mark);
    };
    const { labels: names = [] } = runs.find((run) => run.labels.length) ?? {};
    const rows = names.map(({ name }, row) => {
      const cells = runs.map((run, place) => cell(run, row, place));
      return element("tr", "", element("th", { scope: "row" }, name), cells);
    });
    const head = element("tr", "", element("th", { scope: "col" }, dimension), heads);
    return element("table", "", element("thead", "", head), element("tbody", "", rows));
  }
};

/** `props` and `watch` are what Gradio gives to the component, which itself shows nothing. */
VRThinker.mountBranches = (props, watch, data, trigger) => {
  const form = new VRThinker.BranchForm(data, (values) => trigger("submit", values));
  new VRThinker.Branches(form, (place) => trigger("select", { place }));
  watch("value", () => form.say(props.value?.refusal ?? ""));
};
