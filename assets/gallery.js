/* All frames: every pair of a run, how each came, and what was written with the chosen one. */
VRThinker.SENTENCE = /([^.!?\s][^.!?\n]*(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?]?)/;

/** Whether a sentence names one of these frames: no part of a label, a time or a share does. */
VRThinker.isNamed = (sentence, numbers) => {
  const { AFTER, BEFORE } = VRThinker;
  const known = numbers.filter((number) => /^\d+$/.test(number)).join("|");
  return known !== "" && new RegExp(`${BEFORE}(?:${known})${AFTER}`, "i").test(sentence);
};

VRThinker.isSeen = (tile) => !tile.parentElement.hidden;
VRThinker.timeOf = (half) => (half ? seconds(half.time) : "not requested");
VRThinker.timesOf = (tag, { halves }) =>
  halves.map((half, side) => {
    const name = element("b", `vrt-side${side + 1}`, `Video ${side + 1}`);
    return element(tag, "", name, ` ${VRThinker.timeOf(half)}`);
  });

/** How a pair of a turn came to the judge, and what became of it. */
VRThinker.marksOf = ({ marks: [came, named], halves }, turn) => {
  const given = came === "given" ? "Given at the start" : "Chosen by a person";
  return [
    came === "requested" ? `Asked for in turn ${turn}` : given,
    named && "named in the reasoning for the verdict",
    halves.every((half) => !half || half.gone) && "no longer in the judge’s view",
  ].filter(Boolean);
};

/* The chosen pair, large, beside the snapshot and the thought of its turn. */
VRThinker.ChosenPair = class {
  constructor(onLook) {
    const look = button("vrt-pill", "Look closer", onLook);
    this.pair = element("div");
    this.text = element("div", { class: "vrt-text", role: "group", tabindex: 0 });
    this.text.ariaLabel = "What the judge wrote with this pair";
    this.node = element("li", "vrt-pair", element("div", "", this.pair, look), this.text);
  }

  update({ turns, ballot }, tile, turn) {
    const { Passage, frames, markSentences, marksOf, screen, timesOf } = VRThinker;
    const numbers = frames(tile).split(" · ");
    const written = [...this.reasoning(turns, tile, turn, numbers), ...turns[turn].parts];
    const parts = ballot?.hidden ? [["Think", "Hidden until you have voted."]] : written;
    const { facts } = turns[turn];
    fill(this.pair, [tile, turn], () => [
      element("div", "vrt-screens", tile.halves.map((half, side) => screen(half, side))),
      element("h4", "", `${tile.label} · turn ${turn + 1}`),
      timesOf("p", tile),
      element("p", "vrt-state", marksOf(tile, turn).join(" · ")),
    ]);
    fill(this.text, [numbers, turn, facts, parts.map(([heading]) => heading)], () => {
      this.passages = parts.map(() => new Passage("p", link));
      return this.passages.flatMap(({ node }, place) => {
        const [heading] = parts[place];
        const noted = facts && heading === "Snapshot" ? VRThinker.facts(facts, node) : [node];
        return [element("h4", "", heading), ...noted];
      });
    });
    for (const row of this.text.querySelectorAll("tbody tr")) {
      row.classList.toggle("vrt-named", numbers.includes(row.firstChild.textContent.slice(1)));
    }
    parts.forEach(([, text], place) => this.passages[place].update(text));
    markSentences(this.node, numbers, "vrt-chosen");
  }

  /** The later sentences for which the pair counts as named. */
  reasoning(turns, { marks }, turn, numbers) {
    const thought = ({ parts }) => parts.find(([heading]) => heading === "Think")?.[1];
    const last = turns.findLastIndex(thought);
    if (!marks.includes("named") || last <= turn) return [];
    const isNamed = (sentence) => VRThinker.isNamed(sentence, numbers);
    const text = thought(turns[last]).slice(-VRThinker.MOST);
    const sentences = text.split(VRThinker.SENTENCE).filter(isNamed);
    const heading = `Reasoning for the verdict, turn ${last + 1}`;
    return sentences.length ? [[heading, sentences.join("\n")]] : [];
  }
};

/* The gallery. A click, an arrow key or the players choose a pair; a second click opens it. */
VRThinker.Gallery = class extends VRThinker.Tiles {
  KINDS = {
    "": "All", given: "Given", requested: "Asked for", chosen: "By a person", named: "Named",
  };
  kind = ""; // of the pairs that are shown

  constructor(root, empty, onTile) {
    super(root, onTile);
    this.empty = element("p", "vrt-empty", empty);
    this.kinds = Object.keys(this.KINDS).map((kind) => button("", "", () => this.show(kind)));
    const how = "Choose a pair to read what the judge wrote with it; again to look closer.";
    this.choice = group("vrt-choice", "Pairs shown", this.kinds, element("span", "vrt-state", how));
    this.turns = new VRThinker.TurnList(this, "vrt-gallery", "Pairs by turn");
    this.about = new VRThinker.ChosenPair(() => this.chosen.click());
    this.turns.node.addEventListener("keydown", (event) => this.onKey(event));
    root.classList.add("vrt");
    this.notice = element("p", "vrt-swapped-names");
    root.replaceChildren(this.empty, this.choice, this.notice, this.turns.node);
  }

  update(trace = {}) {
    const { turns = [], shownOrder } = trace;
    const bare = ({ state, live, taken, tiles }) => ({ state, live, taken, tiles, stacked: false });
    this.trace = { ...trace, turns };
    this.turns.update(trace, turns.map(bare));
    this.turns.node.classList.toggle("vrt-swapped", Boolean(shownOrder));
    this.notice.hidden = !shownOrder;
    say(this.notice, shownOrder ? trace.order.run.notice : "");
    this.empty.hidden = turns.length > 0;
    for (const node of this.all()) this.mark(node);
    const { chosen } = VRThinker.rail ?? {};
    const isNew = chosen && chosen !== this.played; // while the tab was closed
    this.played = chosen;
    if (!this.chosen?.isConnected) this.chosen = this.chosen && this.find(this.chosen.tile);
    this.show(this.kind);
    if (isNew) this.ring(this.find(chosen));
  }

  turnOf(node) {
    return [...this.turns.node.children].indexOf(node.closest(".vrt-turn"));
  }

  mark(node) {
    const { marksOf, timeOf } = VRThinker;
    const turn = this.turnOf(node);
    const same = (tile) => tileKey(tile) === tileKey(node.tile);
    node.tile = this.trace.turns[turn].tiles.find(same) ?? node.tile; // it may have left the view
    const { marks: [came, named], halves } = node.tile;
    const gone = halves.every((half) => !half || half.gone);
    if (!node.came) {
      const caption = node.querySelector(".vrt-caption");
      caption.firstChild.after(element("span", "", `turn ${turn + 1}`));
      node.came = caption.appendChild(element("span", "vrt-came"));
    }
    fill(node.came, [came, named, gone], () => {
      const times = halves.map((half, side) => `video ${side + 1} ${timeOf(half)}`);
      node.ariaLabel = [node.tile.label, ...marksOf(node.tile, turn), ...times].join(", ");
      node.removeAttribute("title"); // a first click does something else here
      node.classList.toggle("gone", gone);
      const look = [this.KINDS[came], gone && " · out of view"];
      return [element("span", "", look), named && element("span", "vrt-named", "Named")];
    });
  }

  /** Show the pairs of one kind, all for "", and say how many there are of each. */
  show(wanted) {
    const all = this.all();
    const isOf = (kind) => (node) => !kind || node.tile.marks.includes(kind);
    const kind = all.some(isOf(wanted)) ? wanted : "";
    Object.entries(this.KINDS).forEach(([each, name], place) => {
      const count = all.filter(isOf(each)).length;
      const look = { disabled: !count, hidden: each === "chosen" && !count };
      Object.assign(this.kinds[place], { ariaPressed: each === kind, ...look });
      say(this.kinds[place], `${name} ${count}`);
    });
    this.kind = kind;
    this.choice.hidden = all.length === 0;
    for (const node of all) node.parentElement.hidden = !isOf(kind)(node);
    for (const turn of this.turns.node.children) {
      turn.hidden = !turn.querySelector(":not([hidden]) > .vrt-tile");
    }
    this.select(this.chosen?.parentElement.hidden ? null : this.chosen);
  }

  select(node) {
    const { about } = this;
    const held = about.node.contains(document.activeElement);
    const stop = node ?? this.all().find(VRThinker.isSeen); // Tab leads to it, arrows to others
    this.chosen = node ?? null;
    super.ring(this.chosen);
    for (const each of this.all()) each.tabIndex = each === stop ? 0 : -1;
    if (!node) return about.node.remove();
    if (node.parentElement.nextSibling !== about.node) node.parentElement.after(about.node);
    about.update(this.trace, node.tile, this.turnOf(node));
    this.markLinks();
    if (held && document.activeElement === document.body) node.focus({ preventScroll: true });
  }

  /** The players went to this pair. */
  ring(node) {
    const same = node && this.chosen && tileKey(this.chosen.tile) === tileKey(node.tile);
    if (node && !same && !node.parentElement.hidden) this.select(node);
  }

  /** The pair stays where it is: a second click finds it where the first one did. */
  choose(tile, node) {
    if (node.parentElement.hidden) this.show("");
    const before = node.getBoundingClientRect().top;
    this.select(node);
    this.onTile?.(tile);
    const top = node.getBoundingClientRect().top - before;
    window.scrollBy({ top, behavior: "instant" });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.about.node.scrollIntoView({ block: "nearest" }), 400);
  }

  open(tile, node, turn) {
    if (node !== this.chosen) return this.choose(tile, node);
    super.open(tile, node, turn);
    clearTimeout(this.timer);
  }

  onKey(event) {
    const { key, target, ctrlKey, metaKey, altKey } = event;
    const nodes = this.all().filter(VRThinker.isSeen);
    const at = nodes.indexOf(target);
    if (at < 0 || ctrlKey || metaKey || altKey) return;
    if (key === "Enter" && target !== this.chosen) this.choose(target.tile, target); // and opens it
    const { offsetTop, offsetLeft } = target;
    const down = (node) => node.offsetTop - offsetTop;
    const away = (node) => 1e4 * Math.abs(down(node)) + Math.abs(node.offsetLeft - offsetLeft);
    const moves = {
      ...{ ArrowLeft: nodes[at - 1], ArrowRight: nodes[at + 1] },
      ArrowUp: VRThinker.nearest(nodes.filter((node) => down(node) < 0), away),
      ArrowDown: VRThinker.nearest(nodes.filter((node) => down(node) > 0), away),
      ...{ Home: nodes[0], End: nodes.at(-1) },
    };
    if (!(key in moves)) return;
    event.preventDefault();
    event.stopPropagation(); // the players' keys rest
    if (!moves[key]) return;
    this.choose(moves[key].tile, moves[key]);
    moves[key].focus();
  }
};
