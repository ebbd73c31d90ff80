/* "What if": a small form on a turn's card, which asks for a branch of the run that is shown. */
VRThinker.BranchForm = class {
  /** `data` as `ui/branch_form.py` gives it; `start` sends the form's values. */
  constructor(data, start) {
    const { element } = VRThinker;
    this.words = data.words;
    this.start = start;
    this.node = element("form", "vrt-whatif");
    this.node.setAttribute("aria-label", this.words.open.replace("…", ""));
    this.turn = this.input("turn", "number");
    this.frames = this.input("frames", "text");
    this.frames.maxLength = 8 * data.maxFrames;
    this.take = VRThinker.button("", this.words.take, () => this.toggleTaking());
    this.noTool = this.input("noTool", "checkbox");
    this.window = this.select("window", [[this.words.same, ""], ...data.windows]);
    this.judge = this.select("judge", [[this.words.same, ""], ...data.judges.map((name) => [name, name])]);
    this.prompt = element("textarea");
    this.prompt.rows = 2;
    this.prompt.maxLength = data.maxPrompt;
    this.build();
    this.node.addEventListener("submit", (event) => this.submit(event));
    this.node.addEventListener("input", () => this.fit());
    this.node.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
      event.stopPropagation(); // what is typed here moves no player
    });
    document.addEventListener("pointerup", (event) => event.target.closest("#rail .vrt-track") && this.addMoment());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target.closest("#rail .vrt-track")) this.addMoment();
    });
    document.addEventListener("click", (event) => {
      const mark = event.target.closest("#rail .vrt-mark");
      if (mark) this.add(mark.dataset.frames);
    });
  }

  build() {
    const { element } = VRThinker;
    const { words } = this;
    this.framesHelp = element("small", "", words.framesHelp);
    this.promptHelp = element("small", "", words.promptLater);
    this.said = element("p", "vrt-whatif-said");
    this.said.setAttribute("role", "alert");
    const send = element("button", "vrt-start", words.start);
    send.type = "submit";
    const foot = element("div", "vrt-whatif-foot");
    foot.append(send, VRThinker.button("", words.close, () => this.close()));
    const taken = element("span", "vrt-take");
    taken.append(this.frames, this.take);
    this.node.append(
      this.label(words.turn, this.turn, element("small", "", words.turnHelp)),
      this.label(words.frames, taken, this.framesHelp),
      this.label(words.noTool, this.noTool),
      this.label(words.window, this.window),
      this.label(words.judge, this.judge),
      this.label(words.prompt, this.prompt, this.promptHelp),
      this.said,
      foot,
    );
  }

  input(name, type) {
    const input = VRThinker.element("input");
    input.type = type;
    input.name = name;
    input.autocomplete = "off";
    return input;
  }

  select(name, choices) {
    const select = VRThinker.element("select");
    select.name = name;
    select.append(...choices.map(([text, value]) => new Option(text, value)));
    return select;
  }

  /** A field with its name and help. A field within others, like that of the frames, is named by itself. */
  label(text, field, help = null) {
    const { element } = VRThinker;
    const box = field.type === "checkbox";
    const label = element(field === this.frames.parentNode ? "div" : "label", box ? "vrt-field vrt-tick" : "vrt-field");
    if (label.tagName === "DIV") this.frames.setAttribute("aria-label", text);
    const name = element("span", "", text);
    label.append(...(box ? [field, name] : [name, field]), ...(help ? [help] : []));
    return label;
  }

  open(card, turn, trace, judge = null) {
    this.opener = document.activeElement;
    this.count = trace.turns.length;
    this.turn.min = 1;
    this.turn.max = this.count + 1;
    this.turn.value = turn;
    this.frames.value = "";
    this.noTool.checked = false;
    this.window.value = "";
    this.judge.value = judge || "";
    this.prompt.value = trace.prompt || "";
    this.judged = this.prompt.value;
    this.setTaking(false);
    this.say("");
    card.append(this.node);
    this.fit();
    (judge === null ? this.turn : this.judge).focus();
  }

  close() {
    this.setTaking(false);
    this.node.remove();
    if (this.opener && this.opener.isConnected) this.opener.focus();
  }

  say(sentence) {
    this.said.hidden = !sentence;
    VRThinker.say(this.said, sentence);
  }

  /** What the first turn cannot have, or only it: said before anything is sent. */
  fit() {
    const first = Number(this.turn.value) <= 1;
    const { words } = this;
    this.frames.disabled = this.take.disabled = first;
    if (first) this.setTaking(false);
    VRThinker.say(this.framesHelp, first ? words.framesFirst : this.taking ? words.taking : words.framesHelp);
    this.prompt.disabled = !first;
    this.promptHelp.hidden = first;
  }

  submit(event) {
    event.preventDefault();
    const first = Number(this.turn.value) <= 1;
    this.setTaking(false);
    this.say("");
    const prompt = first && this.prompt.value !== this.judged ? this.prompt.value : null;
    this.start({
      turn: Number(this.turn.value),
      frames: first ? "" : this.frames.value,
      no_tool: this.noTool.checked,
      window: this.window.value,
      judge: this.judge.value,
      prompt,
    });
  }

  toggleTaking() {
    this.setTaking(!this.taking);
    this.fit();
  }

  setTaking(on) {
    this.taking = on;
    this.take.setAttribute("aria-pressed", String(on));
  }

  addMoment() {
    if (VRThinker.rail) this.add(VRThinker.rail.numbers());
  }

  add(numbers) {
    if (!this.taking || !this.node.isConnected) return;
    const chosen = this.frames.value.match(/\d+/g) || [];
    this.frames.value = [...new Set([...chosen, ...(numbers.match(/\d+/g) || [])])].join(", ");
  }
};

/* Origin and branches side by side above the verdict, and the way to a branch on each card. */
VRThinker.Branches = class {
  /** `form` asks for a branch; `show` shows the run at a place. */
  constructor(form, show) {
    const { element } = VRThinker;
    this.form = form;
    this.words = form.words;
    this.show = show;
    this.node = element("section", "vrt-strip");
    this.node.setAttribute("aria-label", this.words.strip);
    this.scroll = element("div", "vrt-strip-scroll");
    this.compare = VRThinker.button("vrt-compare", this.words.compare, () => this.openForJudge());
    this.node.append(this.scroll);
    document.addEventListener("vrt:trace", (event) => this.draw(event.detail || {}));
  }

  draw(trace) {
    const before = this.trace || {};
    this.trace = trace;
    const verdict = document.querySelector("#trace .vrt-verdict");
    if (!verdict) return;
    if (this.node.nextSibling !== verdict) verdict.before(this.node);
    if (!this.compare.isConnected) document.querySelector("#trace .vrt-order").after(this.compare);
    const can = Boolean(trace.run && trace.over && trace.turns.length && !trace.shownOrder);
    this.drawStrip(trace.branches || null, Boolean(trace.over));
    this.compare.hidden = !can || this.form.judge.length < 3;
    this.node.hidden = !trace.branches;
    for (const [position, card] of this.cards().entries()) this.drawButton(card, position + 1, can);
    if (before.run !== trace.run && trace.branches && document.activeElement === document.body) this.focusShown();
  }

  cards() {
    return document.querySelectorAll("#trace .vrt-turns > .vrt-turn");
  }

  drawButton(card, turn, can) {
    let button = card.querySelector(".vrt-ask-branch");
    if (!button) {
      button = VRThinker.button("vrt-ask-branch", this.words.open, () => this.form.open(card, turn, this.trace));
      button.setAttribute("aria-label", `${this.words.open.replace("…", "")} from turn ${turn}`);
      card.querySelector(".vrt-foot").before(button); // else a long foot pushes it onto a line of its own
    }
    button.style.visibility = can ? "" : "hidden"; // its place is kept: nothing that is read may move
  }

  openForJudge() {
    const [card] = this.cards();
    const others = [...this.form.judge.options].map((option) => option.value).filter((name) => name && !this.trace.judge.endsWith(name));
    this.form.open(card, 1, this.trace, others[0] || "");
    this.form.node.scrollIntoView({ block: "center", behavior: "instant" });
  }

  drawStrip(branches, over) {
    const key = JSON.stringify([branches, over]);
    if (this.key === key) return;
    this.key = key;
    if (!branches) return this.scroll.replaceChildren();
    const focused = [...this.scroll.querySelectorAll("button")].indexOf(document.activeElement);
    const { element } = VRThinker;
    const table = element("table");
    table.append(this.head(branches, over), this.body(branches));
    this.scroll.replaceChildren(table);
    const button = this.scroll.querySelectorAll("button")[focused];
    if (button) button.focus({ preventScroll: true });
    this.showColumn();
  }

  /** Where there are more columns than room, the run that is shown is among those that are seen. */
  showColumn() {
    const column = this.scroll.querySelector("thead .shown");
    if (column) this.scroll.scrollLeft = column.offsetLeft + column.offsetWidth - this.scroll.clientWidth;
  }

  head({ runs, shown }, over) {
    const { element } = VRThinker;
    const row = element("tr");
    const corner = element("th", "", this.words.dimension);
    corner.scope = "col";
    row.append(corner);
    runs.forEach((run, place) => {
      const cell = element("th", place === shown ? "shown" : "");
      cell.scope = "col";
      const button = VRThinker.button();
      button.append(element("b", "", run.name), element("span", "", run.judge));
      button.setAttribute("aria-pressed", String(place === shown));
      button.setAttribute("aria-disabled", String(!over));
      button.addEventListener("click", () => over && place !== shown && this.show(place));
      cell.append(button);
      row.append(cell);
    });
    const head = element("thead");
    head.append(row);
    return head;
  }

  body({ runs, shown }) {
    const { element } = VRThinker;
    const body = element("tbody");
    const names = (runs.find((run) => run.labels.length) || { labels: [] }).labels.map((label) => label.name);
    names.forEach((name, position) => {
      const row = element("tr");
      const cell = element("th", "", name);
      cell.scope = "row";
      row.append(cell, ...runs.map((run, place) => this.cell(run, position, place === shown)));
      body.append(row);
    });
    return body;
  }

  cell(run, position, shown) {
    const { element } = VRThinker;
    const label = run.labels[position];
    const cell = element("td", shown ? "shown" : "");
    if (!label) {
      cell.append(element("span", "vrt-strip-note", position ? "" : run.note));
      return cell;
    }
    cell.classList.add(`vrt-says${label.value}`);
    cell.append(element("b", "", label.label));
    if (label.differs) cell.append(" ", element("span", "vrt-differs", this.words.differs));
    return cell;
  }

  /** The run that the form was on is gone, and the form with it. */
  focusShown() {
    const button = this.scroll.querySelector('[aria-pressed="true"]');
    if (button) button.focus({ preventScroll: true });
  }
};

/** `props` and `watch` are what Gradio gives to the component, which itself shows nothing. */
VRThinker.mountBranches = (props, watch, data, trigger) => {
  const form = new VRThinker.BranchForm(data, (values) => trigger("submit", values));
  new VRThinker.Branches(form, (place) => trigger("select", { place }));
  watch("value", () => form.say((props.value || {}).refusal || ""));
};
