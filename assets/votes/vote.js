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
