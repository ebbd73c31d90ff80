/* Players of a saved run whose videos are not at hand: they show the frames that the judge saw. */
VRThinker.LOST = {
  1: "Video 1 of this run is not kept here: its player shows the frames that the judge saw.",
  2: "Video 2 of this run is not kept here: its player shows the frames that the judge saw.",
  12: "The videos of this run are not kept here: the players show the frames that the judge saw.",
};

/** The first of `things` that is nearest, as `away` measures it; undefined if there are none. */
VRThinker.nearest = (things, away) => [...things].sort((a, b) => away(a) - away(b))[0];

/** What stands in an empty player, with the parts of a video element that `Players` uses. */
VRThinker.Still = class {
  constructor(part, number) {
    Object.assign(this, { part, number, shown: false, frames: [], time: 0, paused: true });
    this.image = VRThinker.element("img");
    const upload = VRThinker.button("", "Upload", () => this.uploadArea().click());
    upload.ariaLabel = `Upload video ${number}`;
    const properties = { className: "vrt vrt-still", hidden: true };
    this.node = VRThinker.make("div", properties, this.image, upload);
    this.node.addEventListener("dragover", (event) => event.preventDefault());
    this.node.addEventListener("drop", (event) => {
      event.preventDefault();
      event.stopPropagation();
      const { dataTransfer } = event;
      const again = new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer });
      this.uploadArea().dispatchEvent(again);
    });
  }

  /** Gradio's own, which the picture covers; null while it holds or gets a video. */
  uploadArea() {
    return document.querySelector(`${this.part} button.upload-container`);
  }

  /** Stand in the player when it is empty and there are frames. Return whether that has changed. */
  stand() {
    const shown = this.frames.length > 0 && this.uploadArea() !== null;
    if (shown === this.shown) return false;
    this.shown = shown;
    this.node.hidden = !shown;
    this.pause();
    if (shown) document.querySelector(this.part).append(this.node);
    return true;
  }

  get duration() {
    const lengths = this.frames.map(({ at, place }) => at / place).filter(Number.isFinite);
    return Math.max(0, ...lengths) || 1;
  }

  get currentTime() {
    return this.time;
  }

  /** Show the frame that is nearest to this moment. */
  set currentTime(seconds) {
    this.time = VRThinker.clamp(seconds, 0, this.duration);
    this.frame = VRThinker.nearest(this.frames, ({ at }) => Math.abs(at - this.time));
    if (!this.frame || this.image.getAttribute("src") === this.frame.src) return;
    const { src, label, time } = this.frame;
    this.image.src = src;
    this.image.alt = `Video ${this.number}, ${label}, ${VRThinker.seconds(time)}`;
  }

  get ended() {
    return this.time >= this.duration;
  }

  /** Frame after frame, each as long as it is the nearest one. */
  async play() {
    if (!this.paused) return;
    this.paused = false;
    let before = performance.now();
    const tick = (now) => {
      if (this.paused) return;
      this.currentTime += (Math.max(0, now - before) / 1000) * this.playbackRate;
      before = now;
      if (this.ended) this.pause();
      else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  pause() {
    this.paused = true;
  }
};

/** Both sides, and the sentence that says what is seen; `onChange` hears when that changes. */
VRThinker.Stills = class {
  constructor(parts, onChange) {
    this.onChange = onChange;
    this.sides = parts.map((part, side) => new VRThinker.Still(part, side + 1));
    this.sentence = VRThinker.make("p", { className: "vrt-lost", role: "status", hidden: true });
    this.observer = new MutationObserver(() => this.draw());
  }

  /** Take the frames of a run. Return whether it has just come, to be shown from its beginning. */
  update(trace) {
    const { run, stills: lost = [] } = trace;
    const fresh = this.run !== run;
    this.run = run;
    this.sides.forEach((still, side) => {
      const turns = lost.includes(still.number) ? trace.turns : [];
      const tiles = turns.flatMap((turn) => turn.tiles).filter((tile) => tile.halves[side]);
      still.frames = tiles.map(({ label, halves }) => ({ label, ...halves[side] }));
      still.currentTime = fresh ? 0 : still.time;
    });
    const players = document.getElementById("players");
    if (lost.length) this.observer.observe(players, { childList: true, subtree: true });
    this.draw();
    return fresh && lost.length > 0;
  }

  draw() {
    if (!this.sides.map((still) => still.stand()).includes(true)) return;
    const shown = this.sides.filter((still) => still.shown);
    const text = VRThinker.LOST[shown.map((still) => still.number).join("")] ?? "";
    this.sentence.hidden = !text;
    VRThinker.say(this.sentence, text);
    this.onChange();
  }
};

/* Both players as one: the same moment is the same fraction of each clip, not the same second. */
/* Seconds on the clock: in which a drift is to be made up, and beyond which a player seeks. The most that its speed changes. */
VRThinker.DRIFT = { CATCH_UP: 0.2, MOST_CHANGE: 0.5, TOO_FAR: 0.25 };

/** Browsers play at a sixteenth to sixteen times the speed. */
VRThinker.RATES = [0.0625, 16];
VRThinker.possibleRate = (rate) => Math.min(VRThinker.RATES[1], Math.max(VRThinker.RATES[0], rate));

VRThinker.Players = class {
  /** `selectors` find the two players whenever they are needed: they come and go with the uploads. `stills` stand in for them. */
  constructor(selectors, onChange, stills = []) {
    this.selectors = selectors;
    this.stills = stills;
    this.onChange = onChange;
    this.playing = false;
    this.loop = true;
    this.speed = 1;
    this.place = 0;
    this.frameRates = [0, 0];
    document.addEventListener("loadedmetadata", () => this.onChange(), true);
    document.addEventListener("timeupdate", (event) => this.notice(event.target), true);
    document.addEventListener("pause", (event) => this.stopped(event.target), true);
  }

  /** Both video elements, or the stills in their place; null where there is nothing that can be played. */
  videos() {
    return this.selectors.map((selector, side) => {
      const video = document.querySelector(selector);
      const still = this.stills[side];
      if (still && still.shown) return still;
      // A clip may end nobody knows where, until its copy comes: its duration is Infinity, and no place in it can be reached.
      return video && video.readyState > 0 && video.duration > 0 && Number.isFinite(video.duration) ? video : null;
    });
  }

  get ready() {
    return this.videos().some(Boolean);
  }

  get showStills() {
    const shown = this.videos().filter(Boolean);
    return shown.length > 0 && shown.every((video) => this.stills.includes(video));
  }

  /** Move one to so many seconds, never quite to its end, where it would count as ended. */
  move(video, seconds) {
    video.currentTime = Math.min(Math.max(0, seconds), Math.max(0, video.duration - 0.001));
  }

  seek(place) {
    this.place = Math.min(1, Math.max(0, place));
    for (const video of this.videos()) {
      if (video) this.move(video, this.place * video.duration);
    }
    this.onChange();
  }

  /** Show a tile's very frames; a side that was not requested follows to the same fraction. */
  show(tile) {
    this.pause();
    this.place = VRThinker.place(tile);
    this.videos().forEach((video, side) => {
      if (!video) return;
      const half = tile.halves[side];
      const at = half && Number.isFinite(half.at) && half.at < video.duration ? half.at : this.place * video.duration;
      this.move(video, at);
    });
    this.onChange();
  }

  /** Move by single frames: to the middle of each, for at its first moment browsers may show the one before. */
  nudge(frames) {
    this.pause();
    this.videos().forEach((video, side) => {
      if (!video) return;
      const rate = this.frameRates[side] || 30;
      const middle = (this.frameNumber(video, rate) + frames + 0.5) / rate;
      this.move(video, middle);
    });
    const leader = this.leader();
    if (leader) this.place = leader.currentTime / leader.duration;
    this.onChange();
  }

  /** When the frame appears that a player shows. Where the frame rate is not known, the moment itself. */
  frameTime(video, side) {
    if (video === this.stills[side]) return video.frame.time;
    const rate = this.frameRates[side];
    return rate ? this.frameNumber(video, rate) / rate : video.currentTime;
  }

  frameNumber(video, rate) {
    return Math.floor(video.currentTime * rate + 1e-3);
  }

  /** A player that is driven by its own buttons takes the rail with it. */
  notice(video) {
    if (this.playing || video.paused || !this.videos().includes(video)) return;
    this.place = Math.min(1, video.currentTime / video.duration);
    this.onChange();
  }

  /** A player that is paused by its own buttons pauses the other, too; at its end it only waits. */
  stopped(video) {
    if (this.playing && video.paused && !video.ended && this.videos().includes(video)) this.pause();
  }

  leader() {
    const shown = this.videos().filter(Boolean);
    return shown.find((video) => !this.stills.includes(video)) || shown[0];
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    const leader = this.leader();
    if (!leader) return;
    if (this.place > 0.995) this.seek(0);
    for (const video of this.videos()) {
      if (!video) continue;
      video.muted = true;
      video.playbackRate = VRThinker.possibleRate(this.rateOf(video, leader));
      video.play().catch(() => {});
    }
    const wasPlaying = this.playing;
    this.playing = true;
    if (!wasPlaying) this.tick();
    this.onChange();
  }

  pause() {
    for (const video of this.videos()) if (video) video.pause();
    this.playing = false;
    this.onChange();
  }

  tick() {
    const leader = this.leader();
    if (!this.playing || !leader) {
      this.playing = false;
      return;
    }
    this.place = Math.min(1, leader.currentTime / leader.duration);
    if (leader.ended || this.place > 0.999) {
      if (!this.loop) return this.pause();
      this.seek(0);
      this.play();
    } else {
      this.follow(leader);
      this.onChange();
    }
    requestAnimationFrame(() => this.tick());
  }

  /** How fast a player must go, so that both need the same time for their clips. */
  rateOf(video, leader) {
    return (this.pace(leader) * video.duration) / leader.duration;
  }

  /** How fast the leader goes: as was chosen, or as the other player can keep up with, also where it has to catch up. */
  pace(leader) {
    const { MOST_CHANGE } = VRThinker.DRIFT;
    const [slowest, fastest] = VRThinker.RATES;
    const other = this.videos().find((video) => video && video !== leader) || leader;
    const ratio = other.duration / leader.duration;
    return Math.min(fastest / (1 + MOST_CHANGE) / ratio, Math.max(slowest / (1 - MOST_CHANGE) / ratio, this.speed));
  }

  /**
   * Bring the other player back when the two have drifted apart: it goes a little faster or slower until it has caught up. A seek
   * stops the picture, and at double speed the player has fallen behind again before it is over, so that only a long way takes one.
   */
  follow(leader) {
    const { CATCH_UP, MOST_CHANGE, TOO_FAR } = VRThinker.DRIFT;
    for (const video of this.videos()) {
      if (!video || video === leader || video.seeking) continue;
      const wanted = this.place * video.duration;
      const rate = this.rateOf(video, leader);
      const behind = (wanted - video.currentTime) / rate;
      if (Math.abs(behind) > TOO_FAR) video.currentTime = wanted;
      const nudged = VRThinker.possibleRate(rate * (1 + Math.min(MOST_CHANGE, Math.max(-MOST_CHANGE, behind / CATCH_UP))));
      if (Math.abs(video.playbackRate / nudged - 1) > 0.01) video.playbackRate = nudged; // a change costs some work
    }
  }
};

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
