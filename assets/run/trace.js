/* What the judge saw and said, drawn from data. The same code draws the live page, a replay and the saved report.
 *
 * Everything that a person, a file or a model wrote reaches the page as text nodes, never as markup.
 */
window.VRThinker = window.VRThinker || {};

VRThinker.element = (tag, className = "", text = null) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== null) node.textContent = text;
  return node;
};

/** A button that sends no form; `onClick` is what it does. */
VRThinker.button = (className = "", text = null, onClick = null) => {
  const button = VRThinker.element("button", className, text);
  button.type = "button";
  if (onClick) button.addEventListener("click", onClick);
  return button;
};

/** Make `node` say `text`. Only what is new is written, so that a selection in the text outlives a stream. */
VRThinker.say = (node, text) => {
  const old = node.textContent;
  if (old === text) return;
  if (old && text.startsWith(old) && node.firstChild === node.lastChild) node.firstChild.appendData(text.slice(old.length));
  else node.textContent = text;
};

VRThinker.seconds = (value) => (Number.isFinite(value) ? `${value.toFixed(2)} s` : "–");

VRThinker.TURN_HUES = [300, 140, 350, 110, 325, 160];

/** Give a turn, or a mark of its frames, the colour of that turn. */
VRThinker.colour = (node, position) => {
  const { TURN_HUES } = VRThinker;
  node.style.setProperty("--hue", String(TURN_HUES[position % TURN_HUES.length]));
  node.classList.toggle("vrt-again", Math.floor(position / TURN_HUES.length) % 2 === 1);
};

/** The numbers of a tile's frames, as in its label. */
VRThinker.frames = (tile) => tile.label.replaceAll("#", "");

/** What tells a tile from others. Whether its frames have left the judge's view changes while a run goes on. */
VRThinker.tileKey = (tile) => JSON.stringify([tile.label, tile.halves.map((half) => half && half.src)]);

/** Where a tile stands in the clips, 0 to 1. */
VRThinker.place = (tile) => (tile.halves[0] || tile.halves[1]).place;

VRThinker.hasVerdict = (trace) => Boolean(trace.verdict && trace.verdict.chips.length);

VRThinker.Trace = class {
  constructor(root, { empty = null, onTile = null, check = null, vote = null, following, onShow = null } = {}) {
    const { element } = VRThinker;
    root.addEventListener("click", ({ target }) => {
      const ofVerdict = this.verdict.contains(target.closest(".vrt-ref"));
      if (ofVerdict && this.order.swapped) this.order.show(false); // the verdict's frames are the first run's
    });
    this.tiles = new VRThinker.Tiles(root, onTile);
    this.ending = new VRThinker.Passage("p");
    this.ending.node.classList.add("vrt-ending");
    this.ending.node.setAttribute("role", "status");
    this.verdict = element("section", "vrt-verdict");
    this.verdict.setAttribute("aria-label", "Verdict");
    this.notes = element("ul", "vrt-notes");
    this.health = element("details", "vrt-health");
    this.empty = empty || element("p"); // what stands here while there is no run
    this.turns = new VRThinker.TurnList(this.tiles, "vrt-turns", "Turns of the judge");
    this.order = new VRThinker.Order({ check, following, onShow: () => (onShow ? onShow() : this.update(this.data)) });
    this.vote = new VRThinker.Vote(...(vote || []));
    document.addEventListener("vrt:ballot", () => this.update(this.data));
    root.classList.add("vrt");
    this.root = root;
    const { order, turns, vote: own } = this;
    const said = [this.verdict, this.ending.node, order.node, own.node];
    root.replaceChildren(...said, this.notes, this.health, this.empty, order.notice, turns.node);
    this.update({});
  }

  /** Draw `data` as `view.data` gives it; what has not changed is left alone. */
  update(data) {
    this.data = data;
    const trace = data || {};
    this.order.update(trace);
    this.shown = this.order.shown(trace);
    const turns = this.shown.turns || [];
    this.drawVerdict(trace.verdict);
    this.vote.update(trace);
    this.ending.update(trace.ending || "");
    this.ending.node.hidden = !trace.ending;
    this.drawNotes(this.notes, trace.notes || []);
    this.drawHealth(trace.health || []);
    this.empty.hidden = turns.length > 0 || Boolean(trace.ending || trace.run);
    this.turns.node.classList.toggle("vrt-swapped", this.order.swapped);
    this.turns.update(this.shown, turns);
    this.tiles.markLinks(this.order.swapped ? this.turns.node : this.root);
  }

  drawVerdict(verdict) {
    const key = JSON.stringify(verdict || null);
    if (this.verdictKey === key) return;
    this.verdictKey = key;
    this.verdict.hidden = !verdict;
    if (!verdict) return this.verdict.replaceChildren();
    const { element } = VRThinker;
    this.verdict.replaceChildren(element("h2", "vrt-headline", verdict.headline));
    if (verdict.note) this.verdict.append(element("p", "vrt-unchecked", verdict.note));
    if (!verdict.chips.length) return; // the headline says why there is no verdict
    const chips = element("ul", "vrt-chips");
    chips.append(...verdict.chips.map((chip, position) => VRThinker.chip(chip, position)));
    this.verdict.append(chips, ...verdict.caveats.map((text) => element("p", "vrt-caveat", text)));
  }

  /** Notes on the files are folded: they would push the turns down. */
  drawHealth(notes) {
    const list = this.health.querySelector("ul") || VRThinker.element("ul");
    const count = `${notes.length} ${notes.length === 1 ? "note" : "notes"} on the videos`;
    if (!list.parentNode) this.health.append(VRThinker.element("summary"), list);
    VRThinker.say(this.health.firstChild, count);
    this.drawNotes(list, notes);
    this.health.hidden = notes.length === 0;
  }

  drawNotes(list, notes) {
    const key = JSON.stringify(notes);
    if (list.dataset.key === key) return;
    list.dataset.key = key;
    list.hidden = notes.length === 0;
    list.replaceChildren(...notes.map(VRThinker.item));
  }
};

/** One dimension of a verdict. Its meaning is one hover, one tap or one keystroke away. */
VRThinker.chip = (chip, position) => {
  const { element } = VRThinker;
  const item = element("li", `vrt-chip vrt-says${chip.value}`);
  const button = VRThinker.button();
  const said = element("span", "vrt-said");
  said.append(element("b", "", chip.label));
  button.append(element("span", "vrt-name", chip.name), VRThinker.glyph(chip.value), said);
  item.append(button, VRThinker.help(button, chip.help, `vrt-help-${position}`), ...VRThinker.reason(chip));
  return item;
};

/** How likely the judge was to write a label, beside it; what that means comes with a hover. Nothing where it is not known. */
VRThinker.share = (text, help = "") => {
  if (!text) return [];
  const share = VRThinker.element("span", "vrt-share", text);
  if (help) share.title = help;
  return [" ", share]; // the line may break between label and share
};

/** The judge's own sentence about a dimension, and the frames that decided it. */
VRThinker.reason = (chip) => {
  const { element, frameLink } = VRThinker;
  const nodes = [];
  if (chip.reason) {
    nodes.push(element("p", "vrt-reason"));
    VRThinker.link(nodes[0], chip.reason);
  }
  if (chip.frames.length) {
    const line = element("p", "vrt-deciding", `${chip.source}: `);
    line.append(...chip.frames.map((label) => frameLink(label.split(" · ")[0].replace("#", ""), label)));
    nodes.push(line);
  }
  return nodes;
};

/**
 * What `button` means: shown by a hover, a tap or a keystroke, and told to who listens. The pointer may go on to it; a second press and Escape put
 * it away. It stands in the same element as its button.
 */
VRThinker.help = (button, text, id) => {
  const help = VRThinker.element("span", "vrt-help", text);
  const reasons = new Set(); // why it is shown: "pointer", "focus", "press"
  const show = () => {
    help.classList.toggle("open", reasons.size > 0);
    button.setAttribute("aria-expanded", String(reasons.has("press")));
  };
  const set = (reason, on) => {
    if (on) reasons.add(reason);
    else reasons.delete(reason);
    show();
  };
  const away = () => {
    reasons.clear();
    show();
  };
  help.id = id;
  help.setAttribute("role", "tooltip");
  button.setAttribute("aria-describedby", id);
  show();
  button.addEventListener("pointerenter", () => {
    set("pointer", true);
    button.parentElement.addEventListener("pointerleave", () => set("pointer", false), { once: true });
  });
  button.addEventListener("focus", () => set("focus", button.matches(":focus-visible")));
  button.addEventListener("click", () => (reasons.has("press") ? away() : set("press", true)));
  button.addEventListener("blur", away);
  help.addEventListener("vrt:away", away);
  return help;
};

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") for (const help of document.querySelectorAll(".vrt-help.open")) help.dispatchEvent(new Event("vrt:away"));
});

/** Two little screens side by side, as on every tile: filled where the better video is, both for a tie. */
VRThinker.glyph = (value) => {
  const { element } = VRThinker;
  const glyph = element("span", "vrt-glyph");
  glyph.setAttribute("aria-hidden", "true");
  for (const side of [1, 2]) {
    const better = value === side;
    glyph.append(element("i", `vrt-side${side} ${better ? "better" : value === 0 ? "even" : ""}`, String(side)));
  }
  return glyph;
};
