VRThinker.clamp = (value, least, most) => Math.min(most, Math.max(least, value));

/** An element with these properties and children, which may be nodes or text. */
VRThinker.make = (tag, properties, ...children) => {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
};

/* One zoom for all `.vrt-lens` below `root`: a wheel, a pinch or a key enlarges them around the same place, a drag moves them. */
VRThinker.MOST_ZOOM = 16;
VRThinker.ZOOM_STEP = 1.5;

VRThinker.Zoom = class {
  /** `onDrag` is told where, 0 to 1 from the left, while a drag has nothing to move; `onChange`, that the zoom has changed. */
  constructor(root, onDrag, onChange) {
    this.root = root;
    this.onDrag = onDrag;
    this.onChange = onChange;
    this.pointers = new Map();
    root.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    root.addEventListener("dblclick", () => this.reset());
    root.addEventListener("pointerdown", (event) => this.onDown(event));
    root.addEventListener("pointermove", (event) => this.onMove(event));
    for (const name of ["pointerup", "pointercancel"]) {
      root.addEventListener(name, (event) => this.pointers.delete(event.pointerId));
    }
    this.reset();
  }

  reset() {
    [this.scale, this.x, this.y] = [1, 0, 0];
    this.draw();
  }

  /** Enlarge by `factor` around a place of the frame that is seen, both 0 to 1 of a lens: without one, around its middle. */
  by(factor, x = 0.5, y = 0.5) {
    const scale = Math.min(VRThinker.MOST_ZOOM, Math.max(1, this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.draw();
  }

  pan(x, y) {
    this.x += x;
    this.y += y;
    this.draw();
  }

  draw() {
    const within = (value) => Math.min(0, Math.max(1 - this.scale, value));
    this.x = within(this.x);
    this.y = within(this.y);
    for (const name of ["scale", "x", "y"]) this.root.style.setProperty(`--${name}`, String(this[name]));
    this.root.classList.toggle("zoomed", this.scale > 1);
    this.root.classList.toggle("pixels", this.scale >= 4); // from there on single pixels are what one looks for
    this.onChange();
  }

  /** Where in its lens a pointer is, 0 to 1. */
  place(event) {
    const lens = event.target.closest(".vrt-lens") || this.root.querySelector(".vrt-lens");
    const box = lens.getBoundingClientRect();
    return { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height, box };
  }

  onWheel(event) {
    event.preventDefault();
    const { x, y } = this.place(event);
    this.by(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), x, y);
  }

  onDown(event) {
    if (event.button !== 0) return;
    event.preventDefault(); // or the browser drags the picture
    this.root.focus({ preventScroll: true });
    event.target.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (this.scale === 1) this.onDrag(this.place(event).x);
  }

  onMove(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const { x, y, box } = this.place(event);
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (others.length) {
      const distance = (place) => Math.hypot(place.x - others[0].x, place.y - others[0].y) || 1;
      this.by(distance({ x: event.clientX, y: event.clientY }) / distance(before), x, y);
    } else if (this.scale > 1) {
      this.pan((event.clientX - before.x) / box.width, (event.clientY - before.y) / box.height);
    } else {
      this.onDrag(x);
    }
  }
};

/* The exact frames of one run: pictures of the very pixels the judge was given, asked for turn by turn. */
VRThinker.ExactFrames = class {
  /** `order`: "swapped" for the second run of a pair, in which its sides were swapped. */
  constructor(run, order = "") {
    this.run = run;
    this.order = order;
    this.answers = new Map();
    this.loaded = new Map();
  }

  /** Where the frames of a turn are, and why any is missing; asked once, unless the server could not answer. */
  turn(turn) {
    if (!this.answers.has(turn)) {
      const again = (note) => {
        this.answers.delete(turn);
        return { frames: {}, note };
      };
      const asked = fetch(`runs/${this.run}/turns/${turn + 1}/frames?order=${this.order}`);
      const read = async (answer) => (answer.ok ? answer.json() : again(await answer.text()));
      this.answers.set(turn, asked.then(read).catch(() => again("Thumbnail: the server does not answer.")));
    }
    return this.answers.get(turn);
  }

  /** The picture of a frame where it has been loaded, else null. */
  picture(side, slot) {
    return this.loaded.get(`${side}-${slot}`) || null;
  }

  /** The picture of a frame of that turn; null where it cannot be had. */
  async load(turn, side, slot) {
    const { frames } = await this.turn(turn);
    const src = frames[`${side}-${slot}`];
    if (!src) return null;
    const image = new Image();
    image.src = src;
    try {
      await image.decode();
    } catch {
      this.answers.delete(turn); // the server has dropped it; it is made again for the next one who asks
      return null;
    }
    const picture = { src, width: image.naturalWidth, height: image.naturalHeight };
    this.loaded.set(`${side}-${slot}`, picture);
    return picture;
  }
};

/* A closer look: one pair of a run, large, at the very pixels the judge was given where they can be had. */
VRThinker.MODES = [["side", "Side by side"], ["wipe", "Wipe"], ["flicker", "Flicker"], ["difference", "Difference"]];
VRThinker.FLICKER_MS = 700; // WCAG 2.3.1 allows three flashes a second; here it is less than one
VRThinker.NO_LARGER = "Thumbnail: this file holds no larger pictures.";

VRThinker.Closer = class {
  constructor() {
    this.pairs = [];
    this.position = 0;
    this.mode = "side";
    this.exact = new VRThinker.ExactFrames("");
    document.addEventListener("vrt:look", (event) => this.open(event.detail));
    document.addEventListener("vrt:trace", () => this.isOpen && this.follow());
  }

  get isOpen() {
    return Boolean(this.node && this.node.open);
  }

  /** Show the pair of `tile`, in the turn at that position, of the run that is shown or of `other`. On closing, `node` has the focus again. */
  open({ tile, node, turn, other = null }) {
    if (!this.node) this.build();
    this.other = other;
    this.collect();
    const key = VRThinker.tileKey(tile);
    const position = this.pairs.findIndex((pair) => pair.turn === turn && pair.key === key);
    if (position < 0) return;
    this.opener = node;
    this.zoom.reset();
    this.node.showModal();
    this.setMode(this.mode);
    this.show(position);
    this.lenses.focus({ preventScroll: true });
  }

  /** The pairs of the run that is shown now, or of the other one. */
  collect() {
    const { run = "", turns = [], shownOrder = "" } = this.other || VRThinker.shown || {};
    if (this.exact.run !== run || this.exact.order !== shownOrder) this.exact = new VRThinker.ExactFrames(run, shownOrder);
    this.pairs = turns.flatMap(({ tiles }, turn) => tiles.map((tile) => ({ tile, turn, key: VRThinker.tileKey(tile) })));
  }

  /** The run has gone on, or another one is shown. */
  follow() {
    const { exact } = this;
    this.collect();
    if (this.exact !== exact || !this.pairs[this.position]) this.node.close();
    else this.drawPlace();
  }

  build() {
    const { element } = VRThinker;
    this.node = element("dialog", "vrt vrt-closer");
    this.node.setAttribute("aria-labelledby", "vrt-closer-title");
    this.title = element("h2");
    this.title.id = "vrt-closer-title";
    this.times = element("p", "vrt-closer-times");
    const head = element("header");
    head.append(this.title, this.times, this.button("✕", () => this.node.close(), "Close"));
    this.lenses = element("div", "vrt-lenses");
    this.lenses.tabIndex = 0;
    this.lenses.setAttribute("role", "group");
    this.lenses.setAttribute("aria-label", "Frames. Plus and minus zoom, Shift with an arrow moves, 0 shows all");
    this.figures = [1, 2].map((side) => this.figure(side));
    this.lenses.append(...this.figures.map(({ node }) => node));
    this.node.append(head, this.tools(), this.lenses, this.options(), this.foot());
    this.zoom = new VRThinker.Zoom(this.lenses, (x) => this.mode === "wipe" && this.setWipe(100 * x), () => this.drawZoom());
    this.setWipe(50);
    this.listen();
    // Gradio narrows the media queries of a page's style sheet to what stands here.
    (document.querySelector(".gradio-container .contain") || document.body).append(this.node);
  }

  listen() {
    this.node.addEventListener("keydown", (event) => this.onKey(event));
    this.node.addEventListener("wheel", (event) => event.preventDefault(), { passive: false });
    this.node.addEventListener("close", () => {
      this.flicker(false);
      const pair = this.pairs[this.position];
      const again = () => pair && [...document.querySelectorAll(".vrt-tile")].find((node) => VRThinker.tileKey(node.tile) === pair.key);
      const node = this.opener.isConnected ? this.opener : again();
      if (node) node.focus({ preventScroll: true });
    });
  }

  button(text, act, label = "") {
    const button = VRThinker.button("", text, act);
    if (label) {
      button.setAttribute("aria-label", label);
      button.title = label;
    }
    return button;
  }

  figure(side) {
    const { element } = VRThinker;
    const node = element("figure", `vrt-lens vrt-side${side}`);
    const image = element("img");
    image.draggable = false;
    const missing = element("span", "vrt-missing", "not requested");
    const caption = element("figcaption", "", `Video ${side}`);
    node.append(image, missing, caption);
    return { node, image, missing };
  }

  tools() {
    const { element, MODES, ZOOM_STEP } = VRThinker;
    this.modes = MODES.map(([mode, text]) => {
      const button = this.button(text, () => this.setMode(mode));
      button.dataset.mode = mode;
      return button;
    });
    const modes = element("div", "vrt-group");
    modes.setAttribute("role", "group");
    modes.setAttribute("aria-label", "How the frames are compared");
    modes.append(...this.modes);
    this.zoomed = this.button("100 %", () => this.zoom.reset(), "Show all of the frames");
    const zoom = element("div", "vrt-group");
    zoom.setAttribute("role", "group");
    zoom.setAttribute("aria-label", "Zoom");
    zoom.append(
      this.button("−", () => this.zoom.by(1 / ZOOM_STEP), "Zoom out"),
      this.zoomed,
      this.button("+", () => this.zoom.by(ZOOM_STEP), "Zoom in"),
    );
    const tools = element("div", "vrt-tools");
    tools.append(modes, zoom);
    return tools;
  }

  /** What belongs to one mode only. Its place is kept, so that nothing moves from mode to mode. */
  options() {
    const { element } = VRThinker;
    this.slider = element("input");
    this.slider.type = "range";
    this.slider.setAttribute("aria-label", "Where Video 1 ends and Video 2 begins");
    this.slider.addEventListener("input", () => this.setWipe(Number(this.slider.value)));
    this.pauseButton = this.button("Pause", () => this.flicker(!this.timer));
    this.otherButton = this.button("Other video", () => {
      this.flicker(false);
      this.turnOver();
    });
    this.hint = element("p", "vrt-hint", "Arrow keys change the pair. A wheel, or + and −, zooms both frames; a drag moves them.");
    const options = element("div", "vrt-options");
    options.append(this.hint, this.slider, this.pauseButton, this.otherButton);
    return options;
  }

  foot() {
    const { element } = VRThinker;
    this.earlier = this.button("‹ Earlier", () => this.step(-1));
    this.later = this.button("Later ›", () => this.step(1));
    this.place = element("p", "vrt-place");
    this.place.setAttribute("role", "status");
    this.note = element("p", "vrt-note");
    this.note.setAttribute("role", "status");
    const foot = element("footer");
    foot.append(this.earlier, this.place, this.later, this.note);
    return foot;
  }

  onKey(event) {
    event.stopPropagation(); // the players' keys rest
    const moves = { ArrowLeft: [0.1, 0], ArrowRight: [-0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };
    const { ZOOM_STEP } = VRThinker;
    const keys = {
      ArrowLeft: () => this.step(-1),
      ArrowRight: () => this.step(1),
      "+": () => this.zoom.by(ZOOM_STEP),
      "=": () => this.zoom.by(ZOOM_STEP),
      "-": () => this.zoom.by(1 / ZOOM_STEP),
      0: () => this.zoom.reset(),
    };
    if (event.key === "Tab") return this.keepFocus(event);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = event.shiftKey && moves[event.key] ? () => this.zoom.pan(...moves[event.key]) : keys[event.key];
    if (!act || (event.target === this.slider && moves[event.key])) return;
    event.preventDefault();
    act();
  }

  keepFocus(event) {
    const all = [...this.node.querySelectorAll("button:enabled, input, [tabindex]")].filter((node) => node.checkVisibility());
    const [from, to] = event.shiftKey ? [all[0], all.at(-1)] : [all.at(-1), all[0]];
    if (document.activeElement !== from) return;
    event.preventDefault();
    to.focus();
  }

  step(direction) {
    const next = this.position + direction;
    if (!this.pairs[next]) return;
    this.show(next);
    if (!this.other) VRThinker.showTile(this.pairs[next].tile);
  }

  show(position) {
    this.position = position;
    const { tile, turn } = this.pairs[position];
    VRThinker.say(this.title, `${tile.label} · turn ${turn + 1}`);
    this.times.replaceChildren(...tile.halves.map((half, side) => this.time(half, side + 1)));
    this.drawPlace();
    this.drawMode();
    this.drawHalves(tile);
    if (this.exact.run) this.sharpen(this.pairs[position]);
    else VRThinker.say(this.note, this.other ? this.other.noLarger : VRThinker.NO_LARGER);
  }

  /** Show the exact frames of the pair, once they are there, and say what is shown. */
  async sharpen({ tile, turn, key }) {
    const { exact } = this;
    const sides = [1, 2].filter((side) => tile.halves[side - 1]);
    if (!sides.every((side) => exact.picture(side, tile.slot))) VRThinker.say(this.note, "Fetching the judge's pixels.");
    const pictures = await Promise.all(sides.map((side) => exact.load(turn, side, tile.slot)));
    const { note } = await exact.turn(turn);
    const now = this.pairs[this.position];
    if (this.exact !== exact || now.key !== key || now.turn !== turn) return;
    this.drawHalves(tile);
    const sizes = [...new Set(pictures.filter(Boolean).map(({ width, height }) => `${width} × ${height}`))].join(" and ");
    const lost = note || "Thumbnail: the larger picture did not arrive. Open this pair again.";
    VRThinker.say(this.note, pictures.every(Boolean) ? `${sizes} pixels, exactly as the judge was given them.` : lost);
    const next = this.pairs[this.position + 1];
    if (next && next.turn !== turn) exact.turn(next.turn);
  }

  time(half, side) {
    const time = VRThinker.element("span");
    time.append(VRThinker.element("b", `vrt-v${side}`, `Video ${side}`), half ? ` ${VRThinker.seconds(half.time)}` : " not requested");
    return time;
  }

  drawHalves(tile) {
    tile.halves.forEach((half, position) => {
      const { node, image, missing } = this.figures[position];
      missing.hidden = Boolean(half);
      image.hidden = !half;
      node.classList.toggle("bare", !half);
      if (!half) return image.removeAttribute("src");
      const { src } = this.exact.picture(position + 1, tile.slot) || half;
      if (image.getAttribute("src") !== src) image.src = src;
      image.alt = `Video ${position + 1}`;
    });
  }

  setMode(mode) {
    this.mode = mode;
    this.drawMode();
  }

  /** Where the judge saw one video only, there is nothing to compare it with. */
  drawMode() {
    const pair = this.pairs[this.position];
    const alone = Boolean(pair) && pair.tile.halves.some((half) => !half);
    const mode = alone ? "side" : this.mode;
    this.lenses.dataset.mode = mode;
    this.modes.forEach((button) => {
      button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
      button.setAttribute("aria-disabled", String(alone && button.dataset.mode !== "side"));
    });
    this.hint.hidden = !["side", "difference"].includes(mode);
    this.slider.hidden = mode !== "wipe";
    this.pauseButton.hidden = this.otherButton.hidden = mode !== "flicker";
    if (mode !== "flicker") this.flicker(false);
    else if (this.drawn !== mode) this.flicker(!window.matchMedia("(prefers-reduced-motion: reduce)").matches);
    this.drawn = mode;
    if (document.activeElement && document.activeElement.hidden) this.lenses.focus({ preventScroll: true });
  }

  /** Change from one video to the other by itself, or stop doing so. */
  flicker(on) {
    clearInterval(this.timer);
    this.timer = on ? setInterval(() => this.turnOver(), VRThinker.FLICKER_MS) : null;
    VRThinker.say(this.pauseButton, on ? "Pause" : "Play");
    if (!this.lenses.dataset.front) this.lenses.dataset.front = "1";
  }

  turnOver() {
    this.lenses.dataset.front = this.lenses.dataset.front === "1" ? "2" : "1";
  }

  setWipe(percent) {
    const place = Math.min(100, Math.max(0, percent));
    this.slider.value = String(place);
    this.lenses.style.setProperty("--wipe", `${place}%`);
  }

  drawZoom() {
    if (this.zoom) VRThinker.say(this.zoomed, `${Math.round(this.zoom.scale * 100)} %`);
  }

  drawPlace() {
    VRThinker.say(this.place, `Pair ${this.position + 1} of ${this.pairs.length}`);
    // Not `disabled`, which would take the focus away from the keys.
    this.earlier.setAttribute("aria-disabled", String(this.position === 0));
    this.later.setAttribute("aria-disabled", String(this.position === this.pairs.length - 1));
  }
};

/* All frames of a run: its pairs by turn, each turn's beside what the judge wrote about them. */
VRThinker.Frames = class {
  constructor(root, empty, onTile) {
    this.empty = VRThinker.element("p", "vrt-empty", empty);
    this.tiles = new VRThinker.Tiles(root, onTile);
    this.turns = new VRThinker.TurnList(this.tiles, "vrt-gallery", "Frames by turn");
    root.classList.add("vrt");
    root.replaceChildren(this.empty, this.turns.node);
  }

  /** Draw a trace as `view.data` gives it; what has not changed is left alone. */
  update({ turns = [], ...trace } = {}) {
    const bare = { foot: "", confidence: [], labels: [], remarks: [] };
    this.empty.hidden = turns.length > 0;
    this.turns.update(trace, turns.map((turn) => ({ ...turn, ...bare })));
    this.tiles.markLinks();
  }
};

/* The exact text that the judge got and wrote, with everything visible that usually is not. */
VRThinker.UNSEEN =
  /(<\|[^|<>]{1,40}\|>|[\0-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff])/;
VRThinker.MOST_TOKENS = 2000;

VRThinker.Transcript = class {
  constructor(root) {
    this.root = root;
    root.classList.add("vrt", "vrt-transcript");
  }

  update(transcript) {
    const { passages = [] } = transcript ?? {};
    const key = JSON.stringify(passages);
    if (this.key === key) return;
    this.key = key;
    const sections = passages.map(([heading, text]) => {
      const passage = new VRThinker.Passage("pre", VRThinker.writeVisible);
      passage.update(text);
      return VRThinker.make("section", {}, VRThinker.element("h3", "", heading), passage.node);
    });
    this.root.replaceChildren(...sections);
  }
};

/** Write `text` so that control tokens stand out and unseen characters have a name. */
VRThinker.writeVisible = (node, text) => {
  const pieces = text.split(VRThinker.UNSEEN);
  if (pieces.length > 2 * VRThinker.MOST_TOKENS) return node.replaceChildren(text);
  const draw = (piece, position) => {
    if (position % 2 === 0) return piece;
    const code = piece.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return VRThinker.element("mark", "", piece.length === 1 ? `U+${code}` : piece);
  };
  node.replaceChildren(...pieces.map(draw));
};
