/** What the built-in judge noted of each frame, as a table; its own text, `passage`, lies below. */
VRThinker.facts = ({ columns, rows, raw }, passage) => {
  const { element, link } = VRThinker;
  const head = columns.map((text) => link(element("th"), text));
  const cell = (text, column) => {
    if (column === 0) return link(element("th"), text);
    const odd = text !== "clear" && !text.startsWith("clear, moves on");
    return link(element("td", odd ? "vrt-odd" : ""), text);
  };
  const body = rows.map((cells) => element("tr", "", cells.map(cell)));
  const thead = element("thead", "", element("tr", "", head));
  const table = element("table", "vrt-facts", thead, element("tbody", "", body));
  return [table, element("details", "vrt-raw", element("summary", "", raw), passage)];
};

/* Both orders: the button for the second run, both verdicts, and the run whose turns are shown. */
VRThinker.Order = class {
  /**
   * `check`: [name, help, what a click does], missing where nothing can be judged. `following()`
   * tells whether the newest words are wanted.
   */
  constructor({ check, following = () => true, onShow }) {
    const { element, button } = VRThinker;
    Object.assign(this, { check, following, onShow });
    this.swapped = false; // the turns of the second run are shown
    this.line = element("p", { class: "vrt-order-line", role: "status" });
    this.table = element("table", "vrt-both");
    this.caveats = element("ul", "vrt-caveats");
    this.buttons = ["As given", "Sides swapped"].map((text, position) =>
      button("", text, () => this.show(position === 1)),
    );
    const group = { class: "vrt-choice", role: "group", "aria-label": "Turns shown" };
    this.choice = element("div", group, element("span", "", "Turns"), this.buttons);
    this.ask = element("p", "vrt-check");
    if (check) {
      this.said = element("span", { role: "status" });
      this.button = button("", check[0], check[2]);
      this.ask.append(this.button, this.said);
    }
    const parts = [this.line, this.table, this.caveats, this.choice, this.ask];
    this.node = element("section", { class: "vrt-order", "aria-label": "Both orders" }, parts);
    this.notice = element("p", "vrt-swapped-notice");
  }

  show(swapped) {
    this.swapped = swapped;
    this.onShow();
  }

  update(trace) {
    const { say, fill } = VRThinker;
    const { order, run, over, refusal, no_check: never } = trace;
    const { live = false, line = "", rows = [], caveats, run: second } = order ?? {};
    const hasTurns = Boolean(second?.turns.length);
    if (this.run !== run || !(live || hasTurns)) this.swapped = false;
    else if (live && !this.live) this.swapped = this.following();
    this.run = run;
    this.live = live;
    const canAsk = this.check && run && over && VRThinker.hasVerdict(trace) && !rows.length;
    this.ask.hidden = !canAsk;
    if (this.check) {
      this.button.disabled = Boolean(never);
      say(this.said, refusal || never || this.check[1]);
    }
    this.choice.hidden = !hasTurns;
    this.buttons.forEach((button, position) =>
      button.setAttribute("aria-pressed", (position === 1) === this.swapped),
    );
    this.line.hidden = !order;
    say(this.line, line);
    fill(this.table, rows, () => this.tableRows(rows));
    fill(this.caveats, caveats, VRThinker.items);
    this.node.hidden = !canAsk && !order;
    this.notice.hidden = !this.swapped;
    say(this.notice, this.swapped ? second.notice : "");
  }

  /** The trace, with the turns of the second run where those were chosen. */
  shown(trace) {
    if (!this.swapped) return trace;
    const { turns, grid } = trace.order.run;
    return { ...trace, turns, grid, shownOrder: "swapped" };
  }

  tableRows(rows) {
    const { element } = VRThinker;
    const heads = ["Dimension", "As given", "Sides swapped", "Order"];
    const said = ({ label, value }) => element("td", `vrt-says${value}`, element("b", "", label));
    const row = ({ name, first, second, effect }) => {
      const look = `vrt-effect${effect === "stable" ? " stable" : ""}`;
      const cells = [said(first), said(second), element("td", look, effect)];
      return element("tr", "", element("th", { scope: "row" }, name), cells);
    };
    const head = element("tr", "", heads.map((text) => element("th", { scope: "col" }, text)));
    return [head, rows.map(row)];
  }
};

/* A person's vote on a run: what was saved, and on the live page the form for it. */
VRThinker.Vote = class {
  /** `send(act, vote)` tells the server; without it (in a saved report) a vote can only be read. */
  constructor(dimensions, send) {
    const { element } = VRThinker;
    this.ballot = send && new VRThinker.Ballot(dimensions, send);
    this.saved = element("div", "vrt-voted");
    const parts = [this.ballot?.notice, this.ballot?.node, this.saved];
    this.node = element("section", { class: "vrt-vote", "aria-label": "Vote" }, parts);
  }

  update(trace) {
    const { run, over, turns = [], vote, ballot = {} } = trace;
    const asked = Boolean(this.ballot && run && turns.length && (over || ballot.hidden));
    this.trace = trace;
    this.ballot?.update(trace, asked);
    VRThinker.fill(this.saved, vote && [vote, ballot.own, run], () => this.drawn(vote, ballot.own));
    this.saved.hidden = !vote || Boolean(this.ballot?.open);
    this.node.hidden = this.saved.hidden && !asked;
  }

  drawn({ rows, agrees, slots, note, blind, when }, own) {
    const { element, pairLink } = VRThinker;
    const row = ({ name, label, value, compared }) => {
      const words = compared && ` · ${own ? "you" : "they"} ${compared}`;
      const same = compared && element("span", `vrt-compared ${compared}`, words);
      return element("li", `vrt-says${value}`, `${name} `, element("b", "", label), same);
    };
    const said = rows.filter(({ value }) => value !== null).map(row);
    const agreed = `${own ? "You" : "They"} ${agrees ? "agree" : "disagree"} with the verdict.`;
    const links = slots.map((slot) => pairLink(this.trace, slot));
    const change = () => {
      this.ballot.edit(this.trace.vote, own);
      this.update(this.trace);
    };
    return [
      element("h3", "", own ? "Your vote" : "A person’s vote"),
      element("p", "vrt-when", [blind, when].filter(Boolean).join(" · ")),
      said.length && element("ul", "vrt-own", said),
      agrees !== null && element("p", "", agreed),
      links.length && element("p", "", "Deciding pair: ", links),
      note && new VRThinker.Passage("p").update(note).node,
      this.ballot && VRThinker.button("vrt-pill", own ? "Change" : "Vote yourself", change),
    ];
  }
};

/** The label of each pair of a run, by its slot. */
VRThinker.pairs = ({ turns = [] }) => {
  const pairs = new Map();
  for (const { slot, label } of turns.flatMap((turn) => turn.tiles)) {
    if (!pairs.has(slot)) pairs.set(slot, label);
  }
  return pairs;
};

/** A marked pair, as a link to its tile. */
VRThinker.pairLink = (trace, slot) =>
  VRThinker.frameLink(VRThinker.pairs(trace).get(slot) ?? `slot ${slot}`);
