/* One rail for both players, with a mark for every frame the judge saw. */
VRThinker.SPEEDS = [0.25, 0.5, 1, 2];
VRThinker.STEP = 1 / 40;

/** [as `aria-keyshortcuts` has it, as a person reads it] of the key that does the same as a button (`VRThinker.KEYS`). */
VRThinker.SHORTCUTS = { play: ["Space", "Space"], earlier: ["ArrowLeft", "←"], later: ["ArrowRight", "→"] };

VRThinker.Rail = class {
  constructor(root, players, onSwap) {
    this.players = players;
    this.onSwap = onSwap;
    this.grid = null;
    this.marks = [];
    this.chosen = null;
    this.live = false;
    root.classList.add("vrt", "vrt-rail");
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", "Both players");
    this.build(root);
    this.listen(root);
    this.draw();
  }

  build(root) {
    const { element } = VRThinker;
    this.track = element("div", "vrt-track");
    this.track.tabIndex = 0;
    this.track.setAttribute("role", "slider");
    this.track.setAttribute("aria-label", "Moment in both videos");
    this.track.setAttribute("aria-keyshortcuts", ", . Home End");
    this.track.title = "Comma and full stop move by one frame, Home and End to either end";
    this.track.setAttribute("aria-valuemin", "0");
    this.track.setAttribute("aria-valuemax", "100");
    this.fill = element("div", "vrt-fill");
    this.strip = element("div", "vrt-marks");
    const line = element("div", "vrt-line");
    line.append(this.track, this.fill, this.strip);
    this.playButton = this.button("play", "Play both", "▶");
    this.speedButton = this.button("speed", "Speed", "1×");
    this.loopButton = this.button("loop", "Loop", "Loop");
    this.time = element("output", "vrt-time");
    const controls = element("div", "vrt-controls");
    const earlier = this.button("earlier", "Earlier frame that the judge saw", "‹");
    const later = this.button("later", "Later frame that the judge saw", "›");
    this.swapButton = this.button("swap", "Swap sides", "⇄ Swap sides");
    controls.append(this.playButton, earlier, later, this.speedButton, this.loopButton, this.swapButton, this.time);
    root.replaceChildren(line, controls);
  }

  button(action, label, text) {
    const button = VRThinker.button("", text);
    button.dataset.action = action;
    this.name(button, label);
    return button;
  }

  /** What a button does, and the key that does the same. */
  name(button, label) {
    const [key, written] = VRThinker.SHORTCUTS[button.dataset.action] || [];
    button.setAttribute("aria-label", label);
    if (!key) return;
    button.setAttribute("aria-keyshortcuts", key);
    button.title = `${label} (${written})`;
  }

  listen(root) {
    root.addEventListener("click", (event) => {
      const button = event.target.closest("[data-action]");
      if (button) this.act(button.dataset.action);
    });
    const follow = (event) => {
      const box = this.track.getBoundingClientRect();
      this.chosen = null;
      this.players.pause();
      this.players.seek((event.clientX - box.left) / box.width);
    };
    this.track.addEventListener("pointerdown", (event) => {
      this.track.setPointerCapture(event.pointerId);
      follow(event);
    });
    this.track.addEventListener("pointermove", (event) => {
      if (this.track.hasPointerCapture(event.pointerId)) follow(event);
    });
  }

  act(action) {
    const { players } = this;
    const actions = {
      play: () => players.toggle(),
      earlier: () => this.step(-1),
      later: () => this.step(1),
      back: () => this.nudge(-1),
      forth: () => this.nudge(1),
      start: () => players.seek(0),
      end: () => players.seek(1),
      loop: () => { players.loop = !players.loop; },
      speed: () => this.changeSpeed(),
      swap: () => this.onSwap(),
    };
    actions[action]();
    this.draw();
  }

  changeSpeed() {
    const { SPEEDS } = VRThinker;
    this.players.speed = SPEEDS[(SPEEDS.indexOf(this.players.speed) + 1) % SPEEDS.length];
    if (this.players.playing) this.players.play();
  }

  nudge(frames) {
    if (this.players.showStills) return this.step(frames); // the next frame is the next one that was seen
    this.chosen = null;
    this.players.nudge(frames);
  }

  /** To the next frame that the judge saw in that direction; by a fortieth of the clips while there is none. */
  step(direction) {
    const here = this.players.place;
    const beyond = this.marks.filter(({ place }) => (place - here) * direction > 1e-4);
    if (!beyond.length) {
      if (this.marks.length) return;
      this.players.pause();
      this.players.seek(here + direction * VRThinker.STEP);
      return;
    }
    beyond.sort((a, b) => (a.place - b.place) * direction);
    this.show(beyond[0].tile);
  }

  show(tile) {
    this.players.show(tile);
    this.chosen = tile;
    this.draw();
    document.dispatchEvent(new CustomEvent("vrt:chosen", { detail: tile }));
  }

  /** A video that has just come goes where the other one is. */
  again() {
    if (this.chosen) this.show(this.chosen);
    else if (!this.players.playing) this.players.seek(this.players.place);
  }

  /** The marks of a trace. */
  mark(trace) {
    const turns = (trace && trace.turns) || [];
    this.players.frameRates = (trace && trace.fps) || [0, 0];
    this.grid = (trace && trace.grid) || null;
    this.live = Boolean(trace && trace.run && !trace.over);
    const run = (trace && trace.run) || "";
    if (this.run !== run) {
      this.chosen = null; // a tile of another run
      if (run && trace.over) this.players.place = 0; // where its videos begin, which come after it
    }
    this.run = run;
    const marks = turns.flatMap((turn, position) => turn.tiles.map((tile) => ({ tile, position, place: VRThinker.place(tile) })));
    const key = JSON.stringify(marks);
    if (this.key !== key) this.strip.replaceChildren(...marks.map((mark) => this.drawMark(mark)));
    this.key = key;
    this.marks = marks;
    this.draw();
  }

  drawMark({ tile, position, place }) {
    const gone = tile.halves.every((half) => !half || half.gone);
    const mark = VRThinker.button(`vrt-mark${gone ? " gone" : ""}`);
    mark.dataset.frames = VRThinker.frames(tile);
    VRThinker.colour(mark, position);
    mark.style.setProperty("--lane", String(position % 6));
    mark.tabIndex = -1;
    mark.style.left = `${place * 100}%`;
    mark.title = `${tile.label}, turn ${position + 1}${gone ? ", no longer in the judge's view" : ""}`;
    mark.setAttribute("aria-label", mark.title);
    mark.addEventListener("click", () => this.show(tile));
    return mark;
  }

  /** Light the marks of these tiles. */
  light(frames) {
    for (const mark of this.strip.children) mark.classList.toggle("lit", frames.includes(mark.dataset.frames));
  }

  /** The index of this moment, in the numbers of the judge's protocol. */
  index() {
    const numbers = this.numbers();
    return numbers && `index ${numbers} of ${this.grid.last}`;
  }

  /** The same without words: "60", or "5 · 53" where the videos are counted apart. */
  numbers() {
    if (!this.grid || !this.players.ready) return "";
    const { slots, rule, first } = this.grid;
    const { place } = this.players;
    const slot = rule === "even" ? Math.round(place * (slots - 1)) : Math.min(slots - 1, Math.floor(place * slots));
    const tile = this.chosen || (this.players.showStills && this.nearest());
    return tile ? VRThinker.frames(tile) : [...new Set(first.map((number) => number + slot))].join(" · ");
  }

  /** The tile of the frames that stills show at this moment. */
  nearest() {
    const far = (mark) => Math.abs(mark.place - this.players.place);
    const mark = this.marks.reduce((best, other) => (far(other) < far(best) ? other : best), this.marks[0]);
    return mark && mark.tile;
  }

  /** The time of the frame that a player shows: when that frame appears, as on its tile. */
  timeOf(video, side) {
    const half = this.chosen && this.chosen.halves[side];
    const there = half && Number.isFinite(half.time) && Math.abs(video.currentTime - half.at) < 0.01; // another video may be shorter
    return there ? half.time : this.players.frameTime(video, side);
  }

  draw() {
    const { players } = this;
    const { say, seconds } = VRThinker;
    this.fill.style.width = `${players.place * 100}%`;
    if (!players.playing) this.track.setAttribute("aria-valuenow", String(Math.round(players.place * 100)));
    if (this.chosen && (players.playing || players.place !== VRThinker.place(this.chosen))) this.chosen = null;
    const times = players.videos().map((video, side) => (video ? `Video ${side + 1} ${seconds(this.timeOf(video, side))}` : ""));
    const where = [this.index(), ...times].filter(Boolean).join(" · ");
    this.time.setAttribute("aria-live", players.playing ? "off" : "polite"); // else each frame would be told
    say(this.time, where || "The players move together.");
    if (!players.playing) this.track.setAttribute("aria-valuetext", where || "no videos yet");
    this.swapButton.disabled = this.live || players.showStills;
    say(this.playButton, players.playing ? "❚❚" : "▶");
    this.name(this.playButton, players.playing ? "Pause both" : "Play both");
    say(this.speedButton, `${players.speed}×`);
    this.speedButton.setAttribute("aria-label", `Speed ${players.speed}×`);
    this.loopButton.setAttribute("aria-pressed", String(players.loop));
  }
};
