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
