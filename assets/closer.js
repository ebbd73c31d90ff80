VRThinker.clamp = (value, least, most) => Math.min(most, Math.max(least, value));
/** Whether the person asked for less motion. */
VRThinker.isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/* One zoom for all `.vrt-lens` below `root`: wheel, pinch and keys enlarge, a drag moves. */
VRThinker.MOST_ZOOM = 16;
VRThinker.ZOOM_STEP = 1.5;

VRThinker.Zoom = class {
  /** While there is nothing to move, `onDrag` gets the place of a drag, 0 to 1 from the left. */
  constructor(root, onDrag, onChange) {
    Object.assign(this, { root, onDrag, onChange, pointers: new Map() });
    root.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { x, y } = this.place(event);
      this.by(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), x, y);
    });
    root.addEventListener("dblclick", () => this.set());
    root.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault(); // or the browser drags the picture
      root.focus({ preventScroll: true });
      event.target.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, event);
      if (this.scale === 1) onDrag(this.place(event).x);
    });
    root.addEventListener("pointermove", (event) => this.onMove(event));
    root.addEventListener("lostpointercapture", (event) => this.pointers.delete(event.pointerId));
    this.set();
  }

  /** Enlarge by `factor` around a place in a lens, 0 to 1 each way. */
  by(factor, x = 0.5, y = 0.5) {
    const scale = VRThinker.clamp(this.scale * factor, 1, VRThinker.MOST_ZOOM);
    const move = (place, offset) => place - ((place - offset) * scale) / this.scale;
    this.set(scale, move(x, this.x), move(y, this.y));
  }

  pan(x, y) {
    this.set(this.scale, this.x + x, this.y + y);
  }

  /** Enlarge by `scale`, moved by so much of a lens; without arguments, show all of the frames. */
  set(scale = 1, x = 0, y = 0) {
    const within = (offset) => VRThinker.clamp(offset, 1 - scale, 0);
    Object.assign(this, { scale, x: within(x), y: within(y) });
    for (const name of ["scale", "x", "y"]) this.root.style.setProperty(`--${name}`, this[name]);
    this.root.classList.toggle("zoomed", scale > 1);
    this.root.classList.toggle("pixels", scale >= 4); // from here on people look for single pixels
    this.onChange(scale);
  }

  /** Where in its lens a pointer is, 0 to 1 each way. */
  place({ target, clientX, clientY }) {
    const lens = target.closest(".vrt-lens") ?? this.root.querySelector(".vrt-lens");
    const box = lens.getBoundingClientRect();
    return { x: (clientX - box.left) / box.width, y: (clientY - box.top) / box.height };
  }

  onMove(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    this.pointers.set(event.pointerId, event);
    const other = [...this.pointers.values()].find((pointer) => pointer !== event);
    const [from, to] = [before, event].map((pointer) => this.place(pointer));
    if (!other && this.scale === 1) return this.onDrag(to.x);
    if (!other) return this.pan(to.x - from.x, to.y - from.y);
    const away = (at) => Math.hypot(at.clientX - other.clientX, at.clientY - other.clientY) || 1;
    this.by(away(event) / away(before), to.x, to.y);
  }
};

/* The exact frames of one run: pictures of the very pixels the judge was given. */
VRThinker.ExactFrames = class {
  /** `order`: "swapped" for the second run of a pair, in which its sides were swapped. */
  constructor(run, order) {
    Object.assign(this, { run, order, answers: {}, loaded: {} });
  }

  /** Where the frames of a turn are, and why any is missing; asked again if there was no answer. */
  turn(turn) {
    const lost = (note) => {
      delete this.answers[turn];
      return { frames: {}, note };
    };
    this.answers[turn] ??= fetch(`runs/${this.run}/turns/${turn + 1}/frames?order=${this.order}`)
      .then(async (answer) => (answer.ok ? answer.json() : lost(await answer.text())))
      .catch(() => lost("Thumbnail: the server does not answer."));
    return this.answers[turn];
  }

  /** The picture of the frame "SIDE-SLOT" of that turn; undefined where it cannot be had. */
  async load(turn, name) {
    const src = (await this.turn(turn)).frames[name];
    if (!src) return;
    const image = Object.assign(new Image(), { src });
    try {
      await image.decode();
      return (this.loaded[name] = { src, size: `${image.naturalWidth} × ${image.naturalHeight}` });
    } catch {
      delete this.answers[turn]; // the server has dropped it, and makes it again when asked
    }
  }
};

/* A closer look: a pair, large, at the judge's very pixels if possible; or both playing videos. */
VRThinker.FLICKER_MS = 700; // WCAG 2.3.1 allows three flashes a second; here it is less than one

VRThinker.Closer = class {
  constructor() {
    Object.assign(this, { pairs: [], position: 0, mode: "side", exact: {}, moving: false });
    document.addEventListener("vrt:look", (event) => this.open(event.detail));
    document.addEventListener("vrt:trace", () => {
      if (!this.isOpen || this.moving) return;
      if (this.collect() && this.pairs[this.position]) this.drawPlace();
      else this.node.close();
    });
  }

  get isOpen() {
    return Boolean(this.node?.open);
  }

  /** Show a pair of `other`, else of the run that is shown; on closing, go back to `node`. */
  open({ tile, node, turn, other }) {
    if (!this.node) this.build();
    this.other = other;
    this.collect();
    const same = (pair) => pair.turn === turn && tileKey(pair.tile) === tileKey(tile);
    const position = this.pairs.findIndex(same);
    if (position < 0) return;
    this.begin(node, false);
    this.show(position);
  }

  begin(opener, moving) {
    Object.assign(this, { opener, moving });
    this.node.classList.toggle("moving", moving);
    const [keys, earlier, later] = moving
      ? ["Arrow keys move by a frame, Space plays and pauses.", "‹ Frame", "Frame ›"]
      : ["Arrow keys change the pair.", "‹ Earlier", "Later ›"];
    say(this.hint, `${keys} A wheel, or + and −, zooms both; a drag moves them.`);
    say(this.earlier, earlier);
    say(this.later, later);
    this.zoom.set();
    VRThinker.showDialog(this.node);
    this.lenses.focus({ preventScroll: true });
  }

  /** Show what `players` play, from where they are; on closing, they go on from there. */
  openVideos(players, opener) {
    if (!this.node) this.build();
    const { frameRates, place, playing, speed } = players;
    players.pause();
    this.from = players;
    const sides = [1, 2].map((side) => `.vrt-closer .vrt-side${side} video`);
    this.players ??= new VRThinker.Players(sides, () => this.drawMoment());
    Object.assign(this.players, { frameRates, place, speed });
    const come = players.videos().map(({ src }, side) => {
      const video = this.figures[side].querySelector("video");
      video.src = src;
      return new Promise((done) => (video.onloadedmetadata = done));
    });
    Promise.all(come).then(() => {
      this.players.seek(place);
      if (playing) this.players.play();
    });
    this.begin(opener, true);
    say(this.title, "Both videos");
    say(this.note, "As your browser plays them.");
    say(this.place, "");
    this.earlier.ariaDisabled = this.later.ariaDisabled = false;
    this.drawMode();
    this.drawMoment();
  }

  /** The moment in both videos while they are shown. */
  drawMoment() {
    const { place, playing } = this.players;
    const told = (video, side) =>
      element("span", "", `Video ${side + 1} ${seconds(video?.currentTime)}`);
    this.times.replaceChildren(...this.players.videos().map(told));
    this.scrub.value = place;
    say(this.playButton, playing ? "❚❚" : "▶");
    this.playButton.ariaLabel = playing ? "Pause both" : "Play both";
  }

  /** Take the pairs of the run. Return whether it is the same run as before. */
  collect() {
    const { run = "", turns = [], shownOrder = "" } = this.other ?? VRThinker.shown;
    const same = this.exact.run === run && this.exact.order === shownOrder;
    if (!same) this.exact = new VRThinker.ExactFrames(run, shownOrder);
    this.pairs = turns.flatMap(({ tiles }, turn) => tiles.map((tile) => ({ tile, turn })));
    return same;
  }

  build() {
    this.title = element("h2", { id: "vrt-closer-title" });
    this.times = element("p", "vrt-closer-times");
    this.closeButton = this.button("✕", () => this.node.close(), "Close");
    const head = element("header", "", this.title, this.times, this.closeButton);
    this.figures = [1, 2].map((side) => {
      const image = make("img", { draggable: false, alt: `Video ${side}` });
      const missing = element("span", "vrt-missing", "not requested");
      const video = make("video", { muted: true, playsInline: true });
      const caption = element("figcaption", "", `Video ${side}`);
      return element("figure", `vrt-lens vrt-side${side}`, image, missing, caption, video);
    });
    const keys = "Frames. Plus and minus zoom, Shift with an arrow moves, 0 shows all";
    this.lenses = Object.assign(group("vrt-lenses", keys, this.figures), { tabIndex: 0 });
    this.lenses.dataset.front = 1;
    // What belongs to one mode keeps its place, so that nothing moves from mode to mode.
    this.hint = element("p", "vrt-hint");
    const ends = "Where Video 1 ends and Video 2 begins";
    this.slider = element("input", { type: "range", "aria-label": ends });
    this.slider.addEventListener("input", () => this.setWipe(this.slider.value));
    this.pauseButton = button("", "Pause", () => this.flicker(!this.timer));
    this.otherButton = button("", "Other video", () => {
      this.flicker(false);
      this.turnOver();
    });
    this.playButton = button("vrt-moves", "▶", () => this.players.toggle());
    const moment = { type: "range", max: 1, step: "any", "aria-label": "Moment in both videos" };
    this.scrub = element("input", { ...moment, class: "vrt-moves" });
    this.scrub.oninput = () => this.players.stand(Number(this.scrub.value));
    const own = [this.hint, this.slider, this.pauseButton, this.otherButton];
    this.earlier = button("", "", () => this.step(-1));
    this.later = button("", "", () => this.step(1));
    this.place = element("p", { class: "vrt-place", role: "status" });
    this.note = element("p", { class: "vrt-note", role: "status" });
    const foot = element("footer", "", this.earlier, this.playButton, this.scrub,
      this.place, this.later, this.note);
    const parts = [head, this.tools(), this.lenses, element("div", "vrt-options", own), foot];
    const look = { class: "vrt vrt-closer", "aria-labelledby": this.title.id };
    this.node = element("dialog", look, parts);
    const onDrag = (x) => this.mode === "wipe" && this.setWipe(100 * x);
    const onZoom = (scale) => say(this.zoomed, scale > 1 ? `${Math.round(scale * 100)} %` : "Fit");
    this.zoom = new VRThinker.Zoom(this.lenses, onDrag, onZoom);
    this.setWipe(50);
    this.node.addEventListener("keydown", (event) => this.onKey(event));
    this.node.addEventListener("wheel", (event) => event.preventDefault());
    this.node.addEventListener("close", () => this.onClose());
  }

  onClose() {
    this.flicker(false);
    if (this.moving) {
      const { place, playing } = this.players;
      this.players.pause();
      for (const video of this.node.querySelectorAll("video")) video.removeAttribute("src");
      this.from.seek(place);
      if (playing) this.from.play();
    }
    const pair = this.pairs[this.position];
    const isIt = (tile) => pair && tileKey(tile) === tileKey(pair.tile);
    const nodes = [...document.querySelectorAll(".vrt-tile")];
    const again = () => nodes.find(({ tiles }) => tiles.some(isIt));
    (this.opener.isConnected ? this.opener : again())?.focus({ preventScroll: true });
  }

  button(text, act, label) {
    return button({ title: label, "aria-label": label }, text, act);
  }

  tools() {
    this.modes = ["Side by side", "Wipe", "Flicker", "Difference"].map((text) => {
      const mode = text.toLowerCase().split(" ")[0]; // "side" for the first
      return button({ "data-mode": mode }, text, () => this.drawMode(mode));
    });
    const out = this.button("−", () => this.zoom.by(1 / VRThinker.ZOOM_STEP), "Zoom out");
    this.zoomed = this.button("Fit", () => this.zoom.set(), "Show all of the frames");
    const nearer = this.button("+", () => this.zoom.by(VRThinker.ZOOM_STEP), "Zoom in");
    const modes = group("vrt-group", "How the frames are compared", this.modes);
    const zoom = group("vrt-group", "Zoom", out, this.zoomed, nearer);
    return element("div", "vrt-tools", modes, zoom);
  }

  onKey(event) {
    const { key, shiftKey, target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [end, begin] = shiftKey ? [this.closeButton, this.later] : [this.later, this.closeButton];
    const keys = {
      ArrowLeft: () => this.step(-1),
      ArrowRight: () => this.step(1),
      "+": () => this.zoom.by(VRThinker.ZOOM_STEP),
      "=": () => this.zoom.by(VRThinker.ZOOM_STEP),
      "-": () => this.zoom.by(1 / VRThinker.ZOOM_STEP),
      0: () => this.zoom.set(),
      " ": this.moving && target === this.lenses ? () => this.players.toggle() : null,
      Tab: target === end ? () => begin.focus() : null, // the focus stays inside
    };
    const moves = { Left: [0.1, 0], Right: [-0.1, 0], Up: [0, 0.1], Down: [0, -0.1] };
    const move = moves[key.replace("Arrow", "")];
    const act = shiftKey && move ? () => this.zoom.pan(...move) : keys[key];
    if (!act || (move && target.matches("input"))) return;
    event.preventDefault();
    act();
  }

  step(direction) {
    if (this.moving) return this.players.nudge(direction);
    const next = this.pairs[this.position + direction];
    if (next) this.show(this.position + direction);
    if (next && !this.other) VRThinker.showTile(next.tile);
  }

  show(position) {
    const { tile, turn } = this.pairs[position];
    this.position = position;
    say(this.title, `${tile.label} · turn ${turn + 1}`);
    this.times.replaceChildren(...VRThinker.timesOf("span", tile));
    this.drawPlace();
    this.drawMode();
    this.drawHalves(tile);
    if (this.exact.run) this.sharpen(position);
    else say(this.note, this.other?.noLarger ?? "Thumbnail: this file holds no larger pictures.");
  }

  async sharpen(position) {
    const { exact } = this;
    const { tile, turn } = this.pairs[position];
    const names = tile.halves.flatMap((half, side) => (half ? `${side + 1}-${tile.slot}` : []));
    if (!names.every((name) => exact.loaded[name])) say(this.note, "Fetching the judge's pixels.");
    const pictures = await Promise.all(names.map((name) => exact.load(turn, name)));
    const { note } = await exact.turn(turn);
    if (this.exact !== exact || this.position !== position) return;
    this.drawHalves(tile);
    const sizes = [...new Set(pictures.map((picture) => picture?.size))].join(" and ");
    const all = `${sizes} pixels, exactly as the judge was given them.`;
    const lost = note || "Thumbnail: the larger picture did not arrive. Open this pair again.";
    say(this.note, pictures.every(Boolean) ? all : lost);
    const next = this.pairs[position + 1];
    if (next && next.turn !== turn) exact.turn(next.turn);
  }

  drawHalves({ halves, slot }) {
    halves.forEach((half, position) => {
      const figure = this.figures[position];
      const [image, missing] = figure.children;
      missing.hidden = Boolean(half);
      image.hidden = !half;
      figure.classList.toggle("bare", !half);
      if (!half) return image.removeAttribute("src");
      const { src } = this.exact.loaded[`${position + 1}-${slot}`] ?? half;
      if (image.getAttribute("src") !== src) image.src = src;
    });
  }

  /** Where the judge saw one video only, there is nothing to compare it with. */
  drawMode(wanted = this.mode) {
    this.mode = wanted;
    const alone = !this.moving && !this.pairs[this.position].tile.halves.every(Boolean);
    const mode = alone ? "side" : wanted;
    this.lenses.dataset.mode = mode;
    for (const node of this.modes) {
      const on = node.dataset.mode === mode;
      Object.assign(node, { ariaPressed: on, ariaDisabled: alone && !on });
    }
    this.hint.hidden = !["side", "difference"].includes(mode);
    this.slider.hidden = mode !== "wipe";
    this.pauseButton.hidden = this.otherButton.hidden = mode !== "flicker";
    const still = mode !== "flicker" || VRThinker.isCalm();
    if (mode !== "flicker" || this.drawn !== mode) this.flicker(!still);
    this.drawn = mode;
    if (document.activeElement.hidden) this.lenses.focus({ preventScroll: true });
  }

  flicker(on) {
    clearInterval(this.timer);
    this.timer = on ? setInterval(() => this.turnOver(), VRThinker.FLICKER_MS) : null;
    say(this.pauseButton, on ? "Pause" : "Play");
  }

  turnOver() {
    this.lenses.dataset.front = this.lenses.dataset.front === "1" ? "2" : "1";
  }

  setWipe(percent) {
    const place = VRThinker.clamp(percent, 0, 100);
    this.slider.value = place;
    this.lenses.style.setProperty("--wipe", `${place}%`);
  }

  drawPlace() {
    say(this.place, `Pair ${this.position + 1} of ${this.pairs.length}`);
    // Not `disabled`, which would take the focus away from the keys.
    this.earlier.ariaDisabled = this.position === 0;
    this.later.ariaDisabled = this.position === this.pairs.length - 1;
  }
};

/* The exact text that the judge got and wrote in a turn, with all visible that usually is not. */
VRThinker.UNSEEN =
  /(<\|[^|<>]{1,40}\|>|[\0-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff])/;
VRThinker.MOST_TOKENS = 2000;

VRThinker.Exact = class {
  /** `read()` asks for the passages of the turn, once they are wanted. */
  constructor(read) {
    const summary = element("summary", "", "Exact messages");
    this.body = element("div", { role: "status" });
    this.node = element("details", "vrt-exact", summary, this.body);
    this.node.addEventListener("toggle", () => this.node.open && !this.drawn && this.draw(read));
  }

  async draw(read) {
    const [passages, trouble] = await read();
    this.drawn = Boolean(passages);
    if (!passages) return say(this.body, trouble);
    this.body.removeAttribute("role"); // the trouble is told, but not pages of text
    const draw = ([heading, text]) => {
      const node = section("h4", heading, passage(text, "pre", VRThinker.writeVisible));
      const copy = button("vrt-copy", "Copy", async () => {
        say(copy, (await VRThinker.copy(text)) ? "Copied" : "Not copied");
      });
      if (navigator.clipboard) node.firstChild.append(copy);
      return node;
    };
    this.body.replaceChildren(...passages.map(draw));
  }
};

/** Copy `text`; return whether it was copied. Only pages of safe origins have a clipboard. */
VRThinker.copy = async (text) =>
  Boolean(await navigator.clipboard?.writeText(text).then(() => true, () => false));

/** Write `text` so that control tokens stand out and unseen characters have a name. */
VRThinker.writeVisible = (node, text) => {
  const pieces = text.split(VRThinker.UNSEEN);
  if (pieces.length > 2 * VRThinker.MOST_TOKENS) return node.replaceChildren(text);
  const draw = (piece, position) => {
    if (position % 2 === 0) return piece;
    const code = piece.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return element("mark", "", piece.length === 1 ? `U+${code}` : piece);
  };
  node.replaceChildren(...pieces.map(draw));
};
