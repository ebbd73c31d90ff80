/* Both orders: the button under a verdict, both verdicts beside each other, and which run's turns are shown. */
VRThinker.Order = class {
  /** `check`: [name, help, what a click does], null where nothing can be judged; `following`: the newest words are wanted. */
  constructor({ check = null, following = () => true, onShow }) {
    const { element } = VRThinker;
    this.check = check;
    this.following = following;
    this.onShow = onShow;
    this.swapped = false; // the turns of the second run are shown
    this.node = element("section", "vrt-order");
    this.node.setAttribute("aria-label", "Both orders");
    this.line = element("p", "vrt-order-line");
    this.line.setAttribute("role", "status");
    this.table = element("table", "vrt-both");
    this.caveats = element("ul", "vrt-caveats");
    this.node.append(this.line, this.table, this.caveats, this.buildChoice(), this.buildCheck());
    this.notice = element("p", "vrt-swapped-notice");
  }

  buildCheck() {
    const { element } = VRThinker;
    this.ask = element("p", "vrt-check");
    if (!this.check) return this.ask;
    const [name, help, onClick] = this.check;
    this.button = VRThinker.button("", name, onClick);
    this.said = element("span", "", help);
    this.said.setAttribute("role", "status");
    this.ask.append(this.button, this.said);
    return this.ask;
  }

  /** Which run's turns are shown. */
  buildChoice() {
    const { element } = VRThinker;
    this.choice = element("div", "vrt-choice");
    this.choice.setAttribute("role", "group");
    this.choice.setAttribute("aria-label", "Turns shown");
    this.choice.append(element("span", "", "Turns"));
    const texts = ["As given", "Sides swapped"];
    this.buttons = texts.map((text, position) => VRThinker.button("", text, () => this.show(position === 1)));
    this.choice.append(...this.buttons);
    return this.choice;
  }

  show(swapped) {
    this.swapped = swapped;
    this.onShow();
  }

  update(trace) {
    const order = trace.order || null;
    const live = Boolean(order && order.live);
    if (this.run !== trace.run || !order) this.swapped = false;
    else if (live && !this.live) this.swapped = this.following();
    if (order && !live && !order.run.turns.length) this.swapped = false;
    this.run = trace.run;
    this.live = live;
    this.ask.hidden = !(this.check && trace.run && trace.over && VRThinker.hasVerdict(trace) && !(order && order.rows.length));
    if (this.check) {
      this.button.disabled = Boolean(trace.no_check);
      VRThinker.say(this.said, trace.refusal || trace.no_check || this.check[1]);
    }
    this.choice.hidden = !(order && order.run.turns.length);
    this.buttons.forEach((button, position) => button.setAttribute("aria-pressed", String((position === 1) === this.swapped)));
    this.line.hidden = !order;
    VRThinker.say(this.line, order ? order.line : "");
    this.drawTable(order ? order.rows : []);
    this.drawCaveats(order ? order.caveats : []);
    this.node.hidden = this.ask.hidden && !order;
    this.notice.hidden = !this.swapped;
    VRThinker.say(this.notice, this.swapped ? order.run.notice : "");
  }

  /** The run whose turns are shown: the same trace, with those of the second run where that was chosen. */
  shown(trace) {
    if (!this.swapped) return trace;
    const { turns, grid } = trace.order.run;
    return { ...trace, turns, grid, shownOrder: "swapped" };
  }

  drawTable(rows) {
    const key = JSON.stringify(rows);
    if (this.key === key) return;
    this.key = key;
    const { element } = VRThinker;
    this.table.hidden = rows.length === 0;
    const head = element("tr");
    for (const text of ["Dimension", "As given", "Sides swapped", "Order"]) {
      const cell = element("th", "", text);
      cell.scope = "col";
      head.append(cell);
    }
    this.table.replaceChildren(head, ...rows.map((row) => this.row(row)));
  }

  row({ name, first, second, effect }) {
    const { element } = VRThinker;
    const row = element("tr");
    const cell = element("th", "", name);
    cell.scope = "row";
    const labels = [first, second].map(({ label, value }) => {
      const said = element("td", `vrt-says${value}`);
      said.append(element("b", "", label));
      return said;
    });
    row.append(cell, ...labels, element("td", `vrt-effect${effect === "stable" ? " stable" : ""}`, effect));
    return row;
  }

  drawCaveats(texts) {
    if (this.told === texts.join("\n")) return;
    this.told = texts.join("\n");
    this.caveats.hidden = texts.length === 0;
    this.caveats.replaceChildren(...texts.map(VRThinker.item));
  }
};
