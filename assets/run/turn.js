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
