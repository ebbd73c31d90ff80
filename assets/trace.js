/* What the judge saw and said, drawn from data. The same code draws the live page, a replay and the saved report.
 *
 * Everything that a person, a file or a model wrote reaches the page as text nodes, never as markup.
 */
window.VRThinker = window.VRThinker || {};

/** An element. `look` is its class or its attributes; what is empty of `content` is left out. */
VRThinker.element = (tag, look = "", ...content) => {
  const node = document.createElement(tag);
  const attributes = typeof look === "string" ? look && { class: look } : look;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...content.flat().filter(Boolean));
  return node;
};

/** A button that sends no form. */
VRThinker.button = (look, content, onClick = null) => {
  const button = VRThinker.element("button", look, content);
  button.type = "button";
  button.addEventListener("click", onClick);
  return button;
};

/** Make `node` say `text`. Only what is new is written: a selection of text outlives a stream. */
VRThinker.say = (node, text) => {
  const old = node.textContent;
  if (old === text) return;
  const grows = old && text.startsWith(old) && node.firstChild === node.lastChild;
  if (grows) node.firstChild.appendData(text.slice(old.length));
  else node.textContent = text;
};

/** Put what `draw` makes of `data` into `node` if `data` is new. Without data, hide the node. */
VRThinker.fill = (node, data, draw) => {
  const key = JSON.stringify(data ?? []);
  if (node.drawn === key) return false;
  node.drawn = key;
  node.hidden = key === "[]";
  node.replaceChildren(...(node.hidden ? [] : draw(data).flat().filter(Boolean)));
  return true;
};

VRThinker.seconds = (value) => (Number.isFinite(value) ? `${value.toFixed(2)} s` : "–");

VRThinker.TURN_HUES = [300, 140, 350, 110, 325, 160];

/** Give a turn, or a mark of its frames, the colour of that turn. */
VRThinker.colour = (node, position) => {
  const { TURN_HUES } = VRThinker;
  node.style.setProperty("--hue", String(TURN_HUES[position % TURN_HUES.length]));
  node.classList.toggle("vrt-again", Math.floor(position / TURN_HUES.length) % 2 === 1);
};

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

/* The tiles of a run below `root`, and the frame numbers in its text that lead to them. */
/** Let rail and players show the frames of a tile. */
VRThinker.showTile = (tile) => document.dispatchEvent(new CustomEvent("vrt:tile", { detail: tile }));

VRThinker.Tiles = class {
  /** `onTile` is told which tile was chosen; without it nothing can be. */
  constructor(root, onTile) {
    this.root = root;
    this.onTile = onTile;
    document.addEventListener("vrt:chosen", (event) => this.ring(this.find(event.detail)));
    for (const [name, on] of [["mouseover", true], ["focusin", true], ["mouseout", false], ["focusout", false]]) {
      root.addEventListener(name, (event) => this.onPoint(event, on));
    }
    root.addEventListener("click", (event) => {
      const link = event.target.closest(".vrt-ref");
      const node = link && this.tileOf(link.dataset.frame, link.closest(".vrt-turn"));
      if (node) this.choose(node.tile, node);
    });
  }

  /** A frame number leads to its tile: hovering lights tile and mark, a click seeks. */
  onPoint(event, on) {
    const link = event.target.closest && event.target.closest(".vrt-ref");
    if (link) this.light(on ? link.dataset.frame : null);
  }

  all() {
    return [...this.root.querySelectorAll(".vrt-tile")];
  }

  find(tile) {
    const key = VRThinker.tileKey(tile);
    return this.all().find((node) => VRThinker.tileKey(node.tile) === key);
  }

  numbered(number) {
    return this.all().filter((node) => node.dataset.frames.split(" · ").includes(number));
  }

  /** The tile of a frame: in the same turn where it has one, else the latest. */
  tileOf(number, turn) {
    const tiles = this.numbered(number);
    return tiles.find((node) => turn && turn.contains(node)) || tiles.at(-1);
  }

  light(number) {
    this.root.querySelectorAll(".vrt-tile.lit").forEach((node) => node.classList.remove("lit"));
    const tiles = number === null ? [] : this.numbered(number);
    tiles.forEach((node) => node.classList.add("lit"));
    document.dispatchEvent(new CustomEvent("vrt:light", { detail: tiles.map((node) => node.dataset.frames) }));
  }

  /** A number without a tile is no link, wherever it stands below `root`. */
  markLinks(root = this.root) {
    const shown = new Set(this.all().flatMap((node) => node.dataset.frames.split(" · ")));
    root.querySelectorAll(".vrt-ref").forEach((link) => {
      const known = shown.has(link.dataset.frame);
      if (link.disabled === known) link.disabled = !known;
    });
  }

  choose(tile, node) {
    if (!this.onTile) return;
    this.onTile(tile);
    this.ring(node);
  }

  ring(node) {
    this.root.querySelectorAll("[aria-current]").forEach((other) => other.removeAttribute("aria-current"));
    if (node) node.setAttribute("aria-current", "true");
  }

  open(tile, node, turn) {
    this.choose(tile, node);
    document.dispatchEvent(new CustomEvent("vrt:look", { detail: { tile, node, turn } }));
  }
};

/* Text that may be very long: its beginning, and the rest when it is wanted. A megabyte of it must not freeze the page. */
VRThinker.MOST = 20_000;

VRThinker.Passage = class {
  /** `fill(node, text)` writes the text into `tag`; without it the text is written as it is. */
  constructor(tag, fill = VRThinker.say) {
    this.fill = fill;
    this.text = "";
    this.whole = false;
    this.node = VRThinker.element("div", "vrt-passage");
    this.body = VRThinker.element(tag);
    this.body.dir = "auto";
    this.more = VRThinker.button("vrt-more");
    this.more.hidden = true;
    this.more.addEventListener("click", () => {
      this.whole = true;
      this.draw();
    });
    this.node.append(this.body, this.more);
  }

  update(text) {
    if (this.text === text) return;
    this.text = text;
    this.draw();
  }

  draw() {
    const { MOST } = VRThinker;
    const long = this.text.length > MOST && !this.whole;
    this.fill(this.body, long ? this.text.slice(0, MOST) : this.text);
    this.more.hidden = !long;
    if (long) VRThinker.say(this.more, `Show all ${this.text.length.toLocaleString("en")} characters`);
  }
};

VRThinker.item = (text) => {
  const item = VRThinker.element("li");
  const passage = new VRThinker.Passage("span");
  passage.update(text);
  item.append(passage.node);
  return item;
};

/* A judge's text in which the two videos have their colours and every frame number leads to its frame. */
VRThinker.NAMED = /(\bvideo\s?[12]\b)|(?:\bframes?|\bind(?:ex|ices)|#|select_frames\(\[)\s*(?:\d{1,9}(?:\s*(?:,|and|to|-|–|&|#)\s*)*)+/gi;
VRThinker.MOST_LINKS = 400;
VRThinker.CLOSING = /^[,.;:!?)\]}”…]*/; // punctuation that no line begins with

/** Write `text` into `node`. Pieces that stand there already are left alone, so that a selection outlives a stream. */
VRThinker.link = (node, text) => {
  const pieces = VRThinker.pieces(text);
  const old = [...node.childNodes];
  let same = 0;
  while (same < pieces.length && same < old.length && VRThinker.isPiece(old[same], pieces[same])) same += 1;
  const [kind, words] = pieces[same] || [];
  if (kind === "text" && old[same] && old[same].nodeType === 3 && words.startsWith(old[same].data)) {
    old[same].appendData(words.slice(old[same].data.length));
    same += 1;
  }
  old.slice(same).forEach((child) => child.remove());
  node.append(...pieces.slice(same).map(VRThinker.drawPiece));
};

/**
 * [kind, text] of each piece: "text", "v1", "v2", or "frame" for a number, with its "#", and behind it the punctuation that follows:
 * no line ends between them.
 */
VRThinker.pieces = (text) => {
  const pieces = [];
  let end = 0;
  const push = (kind, piece) => {
    if (piece) pieces.push([kind, piece]);
  };
  for (const match of text.matchAll(VRThinker.NAMED)) {
    if (pieces.length > VRThinker.MOST_LINKS) break;
    push("text", text.slice(end, match.index));
    if (match[1]) push(`v${match[1].at(-1)}`, match[1]);
    else match[0].split(/(#?\d+)/).forEach((part, odd) => push(odd % 2 ? "frame" : "text", part));
    end = match.index + match[0].length;
  }
  push("text", text.slice(end));
  return VRThinker.joined(pieces);
};

/** Neighbouring pieces of text are one node: what streams in is appended to it. */
VRThinker.joined = (pieces) => {
  const joined = [];
  for (const [kind, text] of pieces) {
    const last = joined.at(-1);
    const kept = kind === "text" && last && last[0] === "frame" ? text.match(VRThinker.CLOSING)[0] : "";
    if (kept) last[2] = (last[2] || "") + kept;
    if (last && kind === "text" && last[0] === "text") last[1] += text;
    else if (kept !== text) joined.push([kind, text.slice(kept.length)]);
  }
  return joined;
};

VRThinker.isPiece = (child, [kind, text, kept = ""]) => child.textContent === text + kept && (kind === "text") === (child.nodeType === 3);

VRThinker.drawPiece = ([kind, text, kept]) => {
  if (kind === "text") return document.createTextNode(text);
  if (kind !== "frame") return VRThinker.element("b", `vrt-${kind}`, text);
  const link = VRThinker.frameLink(text.replace("#", ""), text);
  if (!kept) return link;
  const both = VRThinker.element("span", "vrt-kept");
  both.append(link, kept);
  return both;
};

/** A number that leads to the tile of that frame. Where no such tile is shown it is plain text (`Trace.markLinks`). */
VRThinker.frameLink = (number, text) => {
  const link = VRThinker.button("vrt-ref", text);
  link.dataset.frame = number;
  return link;
};

/* One turn of the judge: the frames it looked at beside what it wrote. */
VRThinker.Turn = class {
  constructor(position, onTile) {
    const { element } = VRThinker;
    this.position = position;
    this.onTile = onTile;
    this.parts = [];
    this.node = element("li", "vrt-turn");
    VRThinker.colour(this.node, position);
    this.state = element("span", "vrt-state");
    this.sure = element("span", "vrt-sure");
    this.foot = element("span", "vrt-foot");
    const header = element("header");
    header.append(element("h3", "", `Turn ${position + 1}`), this.state, this.sure, this.foot);
    this.tiles = element("ul", "vrt-tiles");
    this.tiles.setAttribute("aria-label", `Frames of turn ${position + 1}`);
    this.reply = element("div");
    this.course = element("ul", "vrt-course");
    this.remarks = element("ul", "vrt-remarks");
    const text = element("div", "vrt-text");
    text.append(this.reply, this.course, this.remarks);
    this.node.append(header, this.tiles, text);
  }

  /** What the judge thought beside its reply, folded above it. */
  drawAside([name, text, help]) {
    const { element } = VRThinker;
    if (this.thought === text) return;
    this.thought = text;
    if (this.aside) this.aside.remove();
    if (!text) return;
    const passage = new VRThinker.Passage("p");
    passage.update(text);
    this.aside = element("details", "vrt-raw vrt-aside");
    this.aside.append(element("summary", "", name), element("p", "vrt-aside-help", help), passage.node);
    this.reply.before(this.aside);
  }

  update(turn) {
    VRThinker.say(this.state, turn.state);
    VRThinker.say(this.foot, turn.foot);
    this.drawSure(turn.confidence || []);
    this.node.classList.toggle("live", turn.live);
    this.node.classList.toggle("bare", turn.tiles.length === 0);
    this.node.classList.toggle("taken", Boolean(turn.taken));
    this.drawTiles(turn.tiles);
    this.drawAside(turn.aside || []);
    turn.parts.forEach(([heading, text], position) => this.drawPart(position, heading, text));
    this.parts.splice(turn.parts.length).forEach((part) => part.node.remove());
    if (this.parts.length) VRThinker.drawFacts(this.parts[0], turn.facts);
    this.drawCourse(turn.labels || []);
    this.drawRemarks(turn.remarks);
  }

  /** What the judge would have answered at the end of this turn: over the turns, the verdict's course. */
  drawCourse(labels) {
    const key = JSON.stringify(labels);
    if (this.courseKey === key) return;
    this.courseKey = key;
    this.course.hidden = labels.length === 0;
    this.course.setAttribute("aria-label", `Labels of turn ${this.position + 1}`);
    this.course.replaceChildren(...labels.map((label) => this.label(label)));
  }

  label({ name, label, value, probability }) {
    const item = VRThinker.element("li", `vrt-says${value}`, `${name} `);
    item.append(VRThinker.element("b", "", label), ...VRThinker.share(...(probability || [])));
    return item;
  }

  /** How sure the judge was; what that means is one hover, tap or keystroke away. */
  drawSure([text, help]) {
    if (this.sureText === text) return;
    this.sureText = text;
    if (!text) return this.sure.replaceChildren();
    const button = VRThinker.button("", text);
    this.sure.replaceChildren(button, VRThinker.help(button, help, `vrt-sure-${this.position}`));
  }

  drawTiles(tiles) {
    const key = tiles.map(VRThinker.tileKey).join();
    if (this.tilesKey !== key) {
      this.tilesKey = key;
      this.tiles.replaceChildren(...tiles.map((tile) => this.tile(tile)));
    }
    tiles.forEach((tile, position) => {
      this.tiles.children[position].classList.toggle("gone", tile.halves.every((half) => !half || half.gone));
    });
  }

  tile(tile) {
    const { element, seconds } = VRThinker;
    const item = element("li");
    const button = VRThinker.button("vrt-tile");
    const screens = element("span", "vrt-screens");
    screens.append(...tile.halves.map((half, position) => this.screen(half, position + 1)));
    const times = tile.halves.map((half) => (half ? seconds(half.time) : "–")).join(" | ");
    const caption = element("span", "vrt-caption");
    caption.append(element("b", "", tile.label), element("span", "", times));
    button.append(screens, caption);
    button.dataset.frames = VRThinker.frames(tile);
    button.tile = tile;
    button.title = "Look closer";
    button.setAttribute("aria-haspopup", "dialog");
    button.addEventListener("click", () => this.onTile(tile, button));
    item.append(button);
    return item;
  }

  screen(half, side) {
    const { element } = VRThinker;
    if (!half) return element("span", "vrt-missing", "not requested");
    const screen = element("span", `vrt-screen vrt-side${side}`);
    const image = element("img");
    image.alt = `Video ${side}`;
    image.decoding = "async";
    image.addEventListener("error", () => image.replaceWith(element("span", "vrt-missing", "picture lost")));
    image.style.aspectRatio = String(half.ratio);
    image.src = half.src;
    screen.append(image);
    return screen;
  }

  drawPart(position, heading, text) {
    const { element } = VRThinker;
    if (!this.parts[position]) {
      const part = { node: element("section"), heading: element("h4"), passage: new VRThinker.Passage("p", VRThinker.link) };
      part.node.append(part.heading, part.passage.node);
      this.parts[position] = part;
      this.reply.append(part.node);
    }
    const part = this.parts[position];
    VRThinker.say(part.heading, heading);
    part.passage.update(text);
  }

  drawRemarks(remarks) {
    const key = JSON.stringify(remarks);
    if (this.remarksKey === key) return;
    this.remarksKey = key;
    this.remarks.hidden = remarks.length === 0;
    this.remarks.replaceChildren(...remarks.map(VRThinker.item));
  }
};

/** The turns of the run that is shown, in a list; `tiles` opens the pair that was clicked. */
VRThinker.TurnList = class {
  constructor(tiles, className, label) {
    this.tiles = tiles;
    this.cards = [];
    this.node = VRThinker.element("ol", className);
    this.node.setAttribute("aria-label", label);
  }

  /** Draw `turns`; what has not changed is left alone, unless they are of another run, or of the other order. */
  update({ run, shownOrder }, turns) {
    const shown = `${run} ${shownOrder}`;
    if (this.shown !== shown) this.keep(0);
    this.shown = shown;
    turns.forEach((turn, position) => this.card(position).update(turn));
    this.keep(turns.length);
  }

  keep(count) {
    this.cards.splice(count).forEach((card) => card.node.remove());
  }

  card(position) {
    if (!this.cards[position]) {
      this.cards[position] = new VRThinker.Turn(position, (tile, node) => this.tiles.open(tile, node, position));
      this.node.append(this.cards[position].node);
    }
    return this.cards[position];
  }
};
