/** What the built-in judge noted of each frame, as a table; its own text, `passage`, lies below. */
VRThinker.facts = ({ columns, rows, raw }, passage) => {
  const head = columns.map((text) => link(element("th"), text));
  const cell = (text, column) => {
    const odd = column > 0 && text !== "clear" && !text.startsWith("clear, moves on");
    return link(element(column ? "td" : "th", odd ? "vrt-odd" : ""), text);
  };
  const body = element("tbody", "", rows.map((cells) => element("tr", "", cells.map(cell))));
  const table = element("table", "vrt-facts", element("thead", "", element("tr", "", head)), body);
  return [table, element("details", "vrt-raw", element("summary", "", raw), passage)];
};

/* Both orders: the button for the second run, both verdicts, and the run whose turns are shown. */
VRThinker.Order = class {
  /** `check`: [name, help, what a click does], missing where nothing can be judged; `following()`:
  whether the newest words are wanted. */
  constructor({ check: [name, help, onCheck] = [], following = () => true, onShow }) {
    Object.assign(this, { help, following, onShow });
    this.swapped = false; // the turns of the second run are shown
    this.live = false; // the second run goes on
    this.line = element("p", { class: "vrt-order-line", role: "status" });
    this.caveats = element("ul", "vrt-caveats");
    const choose = (text, place) => button("", text, () => this.show(place === 1));
    this.buttons = ["As given", "Sides swapped"].map(choose);
    this.choice = group("vrt-choice", "Turns shown", element("span", "", "Turns"), this.buttons);
    this.said = element("p", { class: "vrt-check", role: "status" });
    this.button = button({ title: help ?? "" }, name, onCheck);
    const parts = [this.line, this.caveats, this.choice];
    this.node = element("section", { class: "vrt-order", "aria-label": "Both orders" }, parts);
    this.notice = element("p", "vrt-swapped-notice");
  }

  show(swapped) {
    this.swapped = swapped;
    this.followed = false; // the person's choice stays
    this.onShow();
  }

  update(trace) {
    const { order, run, over, refusal, no_check: never } = trace;
    const { live = false, line = "", checked = false, caveats, run: second } = order ?? {};
    const hasTurns = Boolean(second?.turns.length);
    if (this.run !== run || !(live || hasTurns)) this.swapped = false;
    else if (live && !this.live) this.swapped = this.followed = this.following();
    else if (!live && this.live && this.followed && !VRThinker.closer?.isOpen) this.swapped = false;
    this.run = run;
    this.live = live;
    const judged = VRThinker.hasVerdict(trace) && trace.verdict.says; // not by a script
    const canAsk = this.help && run && over && judged && !checked;
    const held = document.activeElement === this.button;
    this.button.hidden = !canAsk;
    if (held && !canAsk) VRThinker.pointerFocus.pass(this.button);
    this.button.disabled = Boolean(never);
    say(this.said, (canAsk && (refusal || never)) || "");
    this.choice.hidden = !hasTurns;
    this.buttons.forEach((node, place) => (node.ariaPressed = this.swapped === (place === 1)));
    this.line.hidden = !line;
    say(this.line, line);
    fill(this.caveats, caveats, items);
    this.node.hidden = !canAsk && !order;
    this.notice.hidden = !this.swapped;
    say(this.notice, this.swapped ? second.notice : "");
  }

  /** The trace, with the turns of the second run where those were chosen. */
  shown(trace) {
    return this.swapped ? { ...trace, ...trace.order.run, shownOrder: "swapped" } : trace;
  }
};

/* A person's vote on a run: what was saved, and on the live page the form for it. */
VRThinker.Vote = class {
  /** `send(act, vote)` tells the server; without it (in a saved report) a vote can only be read. */
  constructor(dimensions, send) {
    this.ballot = send && new VRThinker.Ballot(dimensions, send, () => this.update(this.trace));
    this.button = send && button("vrt-ask-vote", "Vote", () => this.ballot.toggle());
    this.saved = element("div", "vrt-voted");
    const parts = [this.ballot?.notice, this.ballot?.node, this.saved];
    this.node = element("section", { class: "vrt-vote", "aria-label": "Vote" }, parts);
  }

  update(trace) {
    const { run, over, turns = [], vote, ballot = {} } = trace;
    const asked = Boolean(this.ballot && run && turns.length && (over || ballot.hidden));
    this.trace = trace;
    const held = this.ballot?.node.contains(document.activeElement);
    this.ballot?.update(trace, asked);
    fill(this.saved, vote && [vote, ballot.own, run], () => this.drawn(vote, ballot.own));
    this.saved.hidden = !vote || Boolean(this.ballot?.open);
    this.node.hidden = this.saved.hidden && !this.ballot?.open;
    if (!this.ballot) return;
    const { blind } = VRThinker;
    if (held && !this.ballot.open && !blind?.on) this.saved.querySelector("button")?.focus();
    this.button.hidden = !asked || Boolean(vote || ballot.hidden); // then it can be changed below
    this.button.setAttribute("aria-expanded", this.ballot.open);
  }

  drawn({ rows, agrees, slots, note, blind, when }, own) {
    const isBad = note === VRThinker.BOTH_BAD; // which no judge says
    const row = ({ name, label, value, compared }) => {
      const words = compared && !isBad && ` · ${own ? "you" : "they"} ${compared}`;
      const same = words && element("span", `vrt-compared ${compared}`, words);
      return element("li", `vrt-says${value}`, `${name} `, element("b", "", label), same);
    };
    const said = rows.filter(({ value }) => value !== null).map(row);
    const agreed = `${own ? "You" : "They"} ${agrees ? "agree" : "disagree"} with the verdict.`;
    const links = slots.map((slot) => VRThinker.pairLink(this.trace, slot));
    const change = () => this.ballot.edit(own ? this.trace.vote : null);
    return [
      element("h3", "", own ? "Your vote" : "A person’s vote"),
      element("p", "vrt-when", [blind, when].filter(Boolean).join(" · ")),
      said.length && element("ul", "vrt-own", said),
      agrees !== null && !isBad && element("p", "", agreed),
      links.length && element("p", "", "Deciding pair: ", links),
      note && passage(note),
      this.ballot && button("vrt-pill", own ? "Change" : "Vote yourself", change),
    ];
  }
};

/** The label of each pair of a run, by its slot. */
VRThinker.pairs = ({ turns = [] }) => {
  const tiles = turns.flatMap((turn) => turn.tiles);
  const first = (slot) => tiles.find((tile) => tile.slot === slot);
  return new Map(tiles.map(({ slot }) => [slot, first(slot).label]));
};

VRThinker.pairLink = (trace, slot) =>
  frameLink(VRThinker.pairs(trace).get(slot) ?? `slot ${slot}`);

/* The form of a vote: which video is better; behind "More" dimensions, deciding pairs, a note. */
VRThinker.BOTH_BAD = "Both are bad."; // the note of a vote that says so

VRThinker.Ballot = class {
  /** `redraw()`: it was opened or closed. */
  constructor(dimensions, send, redraw) {
    Object.assign(this, { send, redraw, slots: [], refusal: "", overall: null });
    [[this.key], ...this.others] = dimensions;
    const show = button("vrt-pill", "Show the verdict without voting", () => send("show"));
    const why = element("p", "", "What the judge says is hidden until you have voted.");
    this.notice = element("div", { class: "vrt-hidden", hidden: "" }, why, show);
    this.said = element("p", { class: "vrt-vote-said", role: "status" });
    this.sides = [1, 0, 2, 0].map((overall, place) => {
      const node = button(`vrt-side${overall}`, "", () => this.pick(node.overall, node.isBad));
      return Object.assign(node, { overall, isBad: place === 3 });
    });
    const asked = element("p", { class: "vrt-asked", id: "vrt-asked" }, "Which video is better?");
    const group = { class: "vrt-sides", role: "group", "aria-labelledby": "vrt-asked" };
    this.form = this.build();
    this.more = element("details", "", element("summary", "", "More"), this.form);
    const sidesNode = element("div", group, this.sides);
    this.node = element("div", "vrt-ballot", asked, sidesNode, this.said, this.more);
    document.addEventListener("vrt:votefirst", ({ detail: on }) => {
      if (!on && this.hidden) send("show");
    });
  }

  build() {
    const none = [null, "Not said"];
    const labels = [[1, "Video 1"], [0, "No difference"], [2, "Video 2"], none];
    const groups = this.others.map(([key, name, help]) => this.group(key, name, labels, help));
    const views = [[true, "Agree"], [false, "Disagree"], none];
    this.agrees = this.group("agrees", "The judge’s verdict", views);
    this.choice = element("select");
    this.choice.addEventListener("change", () => {
      const { value } = this.choice;
      if (value && this.slots.length < 16) this.slots.push(Number(value));
      this.drawPairs();
    });
    this.marked = element("span", "vrt-marked");
    this.note = element("textarea", { rows: 2, maxlength: 2000 });
    const pair = element("label", "vrt-field", "Deciding pair", this.choice);
    const form = element("form", "", groups, this.agrees, [
      element("p", "vrt-pairs", pair, this.marked),
      element("label", "vrt-field", "Note", this.note),
      element("p", "vrt-vote-foot", element("button", "vrt-save-vote", "Save vote")),
    ]);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    return form;
  }

  submit() {
    Object.assign(this, { sent: true, refusal: "" });
    this.send("vote", this.value());
  }

  /** One press is a vote, unless more of it is open. */
  pick(overall, bad) {
    const { note } = this;
    this.overall = overall;
    if (bad) note.value ||= VRThinker.BOTH_BAD;
    else if (note.value === VRThinker.BOTH_BAD) note.value = "";
    this.drawSides();
    if (!this.more.open) this.submit();
  }

  drawSides() {
    const bad = this.note.value === VRThinker.BOTH_BAD;
    for (const side of this.sides) {
      side.ariaPressed = side.overall === this.overall && side.isBad === (!side.overall && bad);
    }
  }

  /** Radio buttons, so that arrow keys choose one and Tab leaves them. Their values are JSON. */
  group(key, name, choices, help = "") {
    const labels = choices.map(([value, text]) => {
      const input = element("input", { type: "radio", name: `vrt-vote-${key}`, value });
      return element("label", `vrt-side${value ?? ""}`, input, element("span", "", text));
    });
    const look = { class: "vrt-choices", title: help };
    return element("fieldset", look, element("legend", "", name), labels);
  }

  /** The person sees what was chosen once the server has kept it: then the form closes. */
  update(trace, asked) {
    const { run, vote, ballot = {} } = trace;
    const fresh = this.run !== run;
    const kept = !fresh && vote && ballot.own && !ballot.refusal;
    const saved = kept && (vote.key !== this.voted || this.sent);
    const hidden = Boolean(ballot.hidden) && asked;
    this.nameSides(hidden && Boolean(VRThinker.blind?.isStored));
    this.more.hidden = hidden;
    Object.assign(this, { trace, run, hidden, voted: vote?.key });
    if (fresh) this.fill(null);
    if (fresh || saved) Object.assign(this, { editing: false, sent: false, refusal: "" });
    this.refusal = ballot.refusal || this.refusal; // stands until the next try
    this.notice.hidden = !hidden;
    this.agrees.hidden = !VRThinker.hasVerdict(trace);
    this.open = Boolean(asked && (hidden || this.editing));
    this.node.hidden = !this.open;
    say(this.said, this.refusal);
    this.drawPairs();
  }

  /** Blind, the sides have no names: the left one may be video 2. */
  nameSides(isBlind) {
    const order = isBlind && VRThinker.blind.shuffled ? [2, 0, 1, 0] : [1, 0, 2, 0];
    const [left, right] = isBlind ? ["Left", "Right"] : ["Video 1", "Video 2"];
    const names = [left, "No difference", right, "Both bad"];
    const keys = VRThinker.blind?.on ? [..."A=BX"] : [];
    this.sides.forEach((side, at) => {
      side.overall = order[at];
      fill(side, [names, keys], () => [names[at], keys[at] && element("kbd", "", keys[at])]);
    });
  }

  toggle() {
    if (!this.open) return this.edit(null);
    this.editing = false;
    this.redraw();
  }

  edit(vote) {
    this.fill(vote);
    this.editing = true;
    this.redraw();
    this.sides[0].focus();
  }

  radios(key) {
    return this.form.elements[`vrt-vote-${key}`];
  }

  fill(vote) {
    const said = (key) => vote?.rows.find(({ dimension }) => dimension === key)?.value ?? null;
    const { agrees = null, slots = [], note = "" } = vote ?? {};
    for (const [key] of this.others) this.radios(key).value = String(said(key));
    this.overall = said(this.key);
    this.radios("agrees").value = String(agrees);
    this.slots = [...slots];
    this.note.value = note;
    const more = this.others.some(([key]) => said(key) !== null) || agrees !== null;
    this.more.open = more || slots.length > 0 || !["", VRThinker.BOTH_BAD].includes(note);
    this.drawSides();
  }

  value() {
    const chosen = (key) => JSON.parse(this.radios(key).value);
    const others = this.others.map(([key]) => [key, chosen(key)]);
    const labels = Object.fromEntries([[this.key, this.overall], ...others]);
    const agrees = this.agrees.hidden ? null : chosen("agrees");
    return { labels, agrees, slots: this.slots, note: this.note.value };
  }

  drawPairs() {
    const pairs = VRThinker.pairs(this.trace);
    const left = [...pairs].filter(([slot]) => !this.slots.includes(slot));
    const marked = this.slots.map((slot) => [slot, pairs.get(slot)]);
    const option = ([slot, label]) => new Option(label, slot);
    const chip = (slot) => {
      const link = VRThinker.pairLink(this.trace, slot);
      const look = { class: "vrt-pill", "aria-label": `Unmark ${link.textContent}` };
      const unmark = () => {
        this.slots = this.slots.filter((other) => other !== slot);
        this.drawPairs();
        this.choice.focus();
      };
      return [link, button(look, "×", unmark)];
    };
    fill(this.choice, [["", "Mark a pair"], ...left], (choices) => choices.map(option));
    fill(this.marked, marked, () => this.slots.map(chip));
  }
};

/** Keep a choice for a year. In another site's frame, as on a Space, only such cookies stay. */
VRThinker.remember = (name, value) => {
  const framed = "SameSite=None; Secure; Partitioned";
  const scope = location.protocol === "https:" ? framed : "SameSite=Lax";
  document.cookie = `${name}=${encodeURIComponent(value)}; path=/; max-age=31536000; ${scope}`;
};
