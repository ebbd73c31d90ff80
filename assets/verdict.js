/* What the built-in judge noted of each frame, as a table; its own text is folded below it. */

/** Put the table of `facts` before the passage of `part`, or take it away where there is none. */
VRThinker.drawFacts = (part, facts) => {
  const key = JSON.stringify(facts || null);
  if (part.factsKey === key || (!part.factsKey && !facts)) return;
  part.factsKey = key;
  const { element } = VRThinker;
  const { node: passage } = part.passage;
  part.node.querySelectorAll(".vrt-facts, .vrt-raw").forEach((old) => old.remove());
  part.node.append(passage);
  if (!facts) return;
  const table = element("table", "vrt-facts");
  const row = (cells, tag) => {
    const line = element("tr");
    line.append(...cells.map((text, column) => VRThinker.factCell(text, column === 0 && tag === "td" ? "th" : tag)));
    return line;
  };
  const head = element("thead");
  head.append(row(facts.columns, "th"));
  const body = element("tbody");
  body.append(...facts.rows.map((cells) => row(cells, "td")));
  table.append(head, body);
  const raw = element("details", "vrt-raw");
  raw.append(element("summary", "", facts.raw), passage);
  part.node.append(table, raw);
};

VRThinker.factCell = (text, tag) => {
  const cell = VRThinker.element(tag);
  VRThinker.link(cell, text);
  if (tag === "td" && !text.startsWith("clear, moves on") && text !== "clear") cell.classList.add("vrt-odd");
  return cell;
};

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

/* A person's vote on a run: what was saved, and on the live page the form for it. */
VRThinker.Vote = class {
  /** `send(act, vote)` tells the server; without it (in a saved report) a vote can only be read. */
  constructor(dimensions = [], send = null) {
    const { element } = VRThinker;
    this.send = send;
    this.node = element("section", "vrt-vote");
    this.node.setAttribute("aria-label", "Vote");
    this.saved = element("div", "vrt-voted");
    this.node.append(this.saved);
    this.ballot = send && new VRThinker.Ballot(dimensions, send);
    if (this.ballot) this.node.prepend(this.ballot.notice, this.ballot.node);
  }

  update(trace) {
    this.trace = trace;
    const { vote = null, ballot = {} } = trace;
    if (this.ballot) {
      const asked = Boolean(trace.run) && (trace.turns || []).length > 0 && (trace.over || ballot.hidden);
      this.ballot.update(trace, asked);
    }
    const key = JSON.stringify([vote, ballot.own || false, trace.run]);
    if (this.key !== key) {
      this.key = key;
      this.saved.replaceChildren(...(vote ? this.drawn(vote, ballot.own) : []));
    }
    const changing = Boolean(this.ballot && this.ballot.open);
    this.saved.hidden = !vote || changing;
    this.node.hidden = this.saved.hidden && !(this.ballot && this.ballot.asked);
  }

  drawn(vote, own) {
    const { element } = VRThinker;
    const head = element("h3", "", own ? "Your vote" : "A person’s vote");
    const when = element("p", "vrt-when", [vote.blind, vote.when].filter(Boolean).join(" · "));
    const list = element("ul", "vrt-own");
    list.append(...vote.rows.filter((row) => row.value !== null).map((row) => this.row(row, own)));
    list.hidden = list.children.length === 0;
    const lines = [];
    if (vote.agrees !== null) lines.push(element("p", "", `${own ? "You" : "They"} ${vote.agrees ? "agree" : "disagree"} with the verdict.`));
    if (vote.slots.length) {
      const line = element("p", "", "Deciding pair: ");
      line.append(...vote.slots.map((slot) => VRThinker.pairLink(this.trace, slot)));
      lines.push(line);
    }
    if (vote.note) {
      const note = new VRThinker.Passage("p");
      note.update(vote.note);
      lines.push(note.node);
    }
    return [head, when, list, ...lines, ...(this.ballot ? [this.change(own)] : [])];
  }

  row({ name, label, value, compared }, own) {
    const { element } = VRThinker;
    const item = element("li", `vrt-says${value}`, `${name} `);
    item.append(element("b", "", label));
    if (compared) item.append(element("span", `vrt-compared ${compared}`, ` · ${own ? "you" : "they"} ${compared}`));
    return item;
  }

  change(own) {
    const button = VRThinker.button("vrt-pill", own ? "Change" : "Vote yourself");
    button.addEventListener("click", () => {
      this.ballot.edit(this.trace.vote, own);
      this.update(this.trace);
      this.ballot.focus();
    });
    return button;
  }
};

/** The pairs of a run, each once: [slot, label]. */
VRThinker.pairs = (trace) => {
  const pairs = new Map();
  for (const tile of (trace.turns || []).flatMap((turn) => turn.tiles)) if (!pairs.has(tile.slot)) pairs.set(tile.slot, tile.label);
  return [...pairs];
};

/** A marked pair, as a link to its tile. */
VRThinker.pairLink = (trace, slot) => {
  const label = new Map(VRThinker.pairs(trace)).get(slot) || `slot ${slot}`;
  return VRThinker.frameLink(label.split(" · ")[0].replace("#", ""), label);
};
