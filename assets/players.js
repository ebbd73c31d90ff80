/* Players of a saved run whose videos are not at hand: they show the frames that the judge saw. */
/** What stands in an empty player, with the parts of a video element that `Players` uses. */
VRThinker.Still = class {
  constructor(part, number) {
    Object.assign(this, { part, number, shown: false, frames: [], time: 0, duration: 1 });
    this.image = element("img");
    const look = { "aria-label": `Upload video ${number}` };
    const upload = button(look, "Upload", () => this.uploadArea().click());
    this.node = make("div", { className: "vrt vrt-still", hidden: true }, this.image, upload);
    this.node.addEventListener("dragover", (event) => event.preventDefault());
    this.node.addEventListener("drop", (event) => {
      event.preventDefault();
      event.stopPropagation();
      this.uploadArea().dispatchEvent(new DragEvent("drop", event));
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
    if (shown) document.querySelector(this.part).append(this.node);
    return true;
  }

  get currentTime() {
    return this.time;
  }

  /** Show the frame that is nearest to this moment. */
  set currentTime(time) {
    this.time = VRThinker.clamp(time, 0, this.duration);
    this.frame = VRThinker.nearest(this.frames, ({ at }) => Math.abs(at - this.time));
    if (!this.frame || this.image.getAttribute("src") === this.frame.src) return;
    const { src, label } = this.frame;
    this.image.src = src;
    this.image.alt = `Video ${this.number}, ${label}, ${seconds(this.frame.time)}`;
  }

  /** `Players` moves it: frame after frame, each as long as it is the nearest one. */
  async play() {}
  pause() {}
};

/** Both sides, and the sentence that says what is seen; `onChange` hears when that changes. */
VRThinker.Stills = class {
  constructor(parts, onChange) {
    this.onChange = onChange;
    this.sides = parts.map((part, side) => new VRThinker.Still(part, side + 1));
    this.sentence = make("p", { className: "vrt-lost", role: "status", hidden: true });
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
      const lengths = still.frames.map(({ at, place }) => at / place).filter(Number.isFinite);
      still.duration = Math.max(0, ...lengths) || 1;
      still.currentTime = fresh ? 0 : still.time;
    });
    const players = document.getElementById("players");
    if (lost.length) this.observer.observe(players, { childList: true, subtree: true });
    this.draw();
    return fresh && lost.length > 0;
  }

  draw() {
    if (!this.sides.map((still) => still.stand()).includes(true)) return;
    const [still, ...others] = this.sides.filter(({ shown }) => shown);
    const one = `Video ${still?.number} of this run is not kept here: its player shows`;
    const both = "The videos of this run are not kept here: the players show";
    this.sentence.hidden = !still;
    say(this.sentence, still ? `${others.length ? both : one} the frames that the judge saw.` : "");
    this.onChange();
  }
};

/* Both players as one: the same moment is the same fraction of each clip, not the same second. */
/** A drift is made up in CATCH_UP seconds; beyond TOO_FAR seconds, a player seeks. */
VRThinker.DRIFT = { CATCH_UP: 0.2, MOST_CHANGE: 0.5, TOO_FAR: 0.25 };
VRThinker.RATES = [0.0625, 16]; // browsers play at a sixteenth to sixteen times the speed

VRThinker.Players = class {
  /** `selectors` find the players when they are needed, as they come and go; `stills` stand in. */
  constructor(selectors, onChange = () => {}, stills = []) {
    Object.assign(this, { selectors, onChange, stills, frameRates: [0, 0] });
    Object.assign(this, { playing: false, loop: false, speed: 1, place: 0 });
    // A media key pauses one of them.
    const onPause = ({ target: video }) => {
      const isOurs = this.playing && this.videos().includes(video);
      if (isOurs && video.paused && !video.ended) this.pause();
    };
    document.addEventListener("pause", onPause, true);
  }

  /** Both video elements, or the stills in their place; null where there is nothing to play. */
  videos() {
    return this.selectors.map((selector, side) => {
      if (this.stills[side]?.shown) return this.stills[side];
      const video = document.querySelector(selector);
      // While nobody knows where a clip ends, its duration is Infinity: no place can be reached.
      const { duration, videoWidth } = video ?? {}; // a file of sound alone has no width
      return duration > 0 && duration < Infinity && videoWidth ? video : null;
    });
  }

  get shown() {
    return this.videos().filter(Boolean);
  }

  get showStills() {
    return this.stills.includes(this.leader());
  }

  /** The player that the other one follows: a video where there is one. */
  leader() {
    return this.shown.find((video) => !this.stills.includes(video)) ?? this.shown[0];
  }

  /** Move each to the seconds that `at` gives, but not to its end, where it counts as ended. */
  move(at) {
    this.videos().forEach((video, side) => {
      if (video) video.currentTime = VRThinker.clamp(at(video, side), 0, video.duration - 0.001);
    });
  }

  /** Both videos, and neither a still in its place. */
  get isPair() {
    return this.videos().every((video) => video?.src);
  }

  /** Pause there. */
  stand(place) {
    this.pause();
    this.seek(place);
  }

  seek(place) {
    this.place = VRThinker.clamp(place, 0, 1);
    this.move((video) => this.place * video.duration);
    this.onChange();
  }

  /** Show a tile's very frames; a side that was not requested follows to the same fraction. */
  show(tile) {
    this.pause();
    this.place = VRThinker.place(tile);
    this.move(({ duration }, side) => {
      const at = tile.halves[side]?.at;
      return at < duration ? at : this.place * duration;
    });
    this.onChange();
  }

  /** Move by single frames, to the middle of each: at its start browsers may show another one. */
  nudge(frames) {
    this.pause();
    this.move((video, side) => {
      const rate = this.frameRates[side] || 30;
      return (this.frameNumber(video, rate) + frames + 0.5) / rate;
    });
    const { currentTime, duration } = this.leader();
    this.place = currentTime / duration;
    this.onChange();
  }

  frameNumber(video, rate) {
    return Math.floor(video.currentTime * rate + 1e-3);
  }

  play() {
    const leader = this.leader();
    if (!leader) return;
    if (this.place > 0.995) this.seek(0);
    for (const video of this.shown) {
      video.muted = true;
      video.playbackRate = VRThinker.clamp(this.rateOf(video, leader), ...VRThinker.RATES);
      video.play().catch(() => {});
    }
    const wasPlaying = this.playing;
    this.playing = true;
    if (!wasPlaying) this.tick(performance.now());
    this.onChange();
  }

  /** Pause both at the same moment. */
  pause() {
    this.shown.forEach((video) => video.pause());
    const leader = this.leader();
    if (this.playing && leader) {
      this.place = Math.min(1, leader.currentTime / leader.duration);
      const other = this.shown.find((video) => video !== leader);
      if (other && !leader.ended) other.currentTime = this.place * other.duration;
    }
    this.playing = this.once = false;
    this.onChange();
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  /** Play both to the end, unless the person asked for less motion. Return whether they play. */
  playOnce() {
    if (VRThinker.isCalm() || !this.isPair) return false;
    this.stand(0);
    this.once = true;
    this.play();
    return true;
  }

  tick(before) {
    const leader = this.leader();
    const now = performance.now();
    if (!leader) this.playing = false;
    if (!this.playing) return;
    for (const still of this.stills.filter(({ shown }) => shown)) {
      still.currentTime += ((now - before) / 1000) * still.playbackRate;
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
    requestAnimationFrame(() => this.tick(now));
  }

  /** How fast a player goes so that both need the same time, and either can still catch up. */
  rateOf(video, leader) {
    const { MOST_CHANGE } = VRThinker.DRIFT;
    const [slowest, fastest] = VRThinker.RATES;
    const other = this.shown.find((each) => each !== leader) ?? leader;
    const ratio = other.duration / leader.duration;
    const least = slowest / (1 - MOST_CHANGE) / ratio;
    const most = fastest / (1 + MOST_CHANGE) / ratio;
    return (VRThinker.clamp(this.speed, least, most) * video.duration) / leader.duration;
  }

  /** Bring the other player back by its speed: a seek stops the picture, and takes too long. */
  follow(leader) {
    const { CATCH_UP, MOST_CHANGE, TOO_FAR } = VRThinker.DRIFT;
    const video = this.shown.find((each) => each !== leader);
    if (!video || video.seeking) return;
    const wanted = this.place * video.duration;
    const rate = this.rateOf(video, leader);
    const behind = (wanted - video.currentTime) / rate;
    if (Math.abs(behind) > TOO_FAR) video.currentTime = wanted;
    const change = VRThinker.clamp(behind / CATCH_UP, -MOST_CHANGE, MOST_CHANGE);
    const pace = VRThinker.clamp(rate * (1 + change), ...VRThinker.RATES);
    if (Math.abs(video.playbackRate / pace - 1) > 0.01) video.playbackRate = pace; // it costs work
  }
};

/* One rail for both players, with a mark for every frame the judge saw. */
/** Of each button [text, label, the key of `VRThinker.KEYS` that does the same, its short name]. */
VRThinker.CONTROLS = {
  play: ["▶", "Play both", "Space", "Space"],
  earlier: ["‹", "Earlier frame that the judge saw", "ArrowLeft", "←"],
  later: ["›", "Later frame that the judge saw", "ArrowRight", "→"],
  closer: ["⤢", "Both videos, large", "f", "F"],
  speed: ["1×", "Speed"],
  loop: ["Loop", "Loop"],
  swap: ["⇄ Swap sides", "Swap sides"],
  keys: ["?", "Keys", "?", "?"],
};

VRThinker.Rail = class {
  /** `onPair()`: a new pair is shown. */
  constructor(root, players, onSwap, onPair) {
    Object.assign(this, { root, players, onSwap, onPair, grid: null, marks: [], chosen: null });
    root.classList.add("vrt", "vrt-rail");
    Object.assign(root, { role: "group", ariaLabel: "Both players" });
    this.build(root);
    this.draw();
    // Small players that stay above the run have no button that a finger hits by mistake.
    const stick = () => {
      const node = document.getElementById("players");
      const { top } = node.getBoundingClientRect();
      node.classList.toggle("vrt-stuck", VRThinker.coveredHeight() > 8 && top < 1);
    };
    const onTap = (event) => {
      if (!event.target.matches("#players video")) return;
      event.stopImmediatePropagation();
      event.preventDefault();
      this.act("play");
    };
    window.addEventListener("scroll", stick, { passive: true });
    document.addEventListener("click", onTap, true);
  }

  build(root) {
    const slider = { className: "vrt-track", tabIndex: 0, role: "slider" };
    this.track = make("div", { ...slider, ariaValueMin: 0, ariaValueMax: 100 });
    this.track.ariaLabel = "Moment in both videos";
    this.track.ariaKeyShortcuts = ", . Home End";
    this.track.title = "Comma and full stop move by one frame, Home and End to either end";
    const follow = ({ type, pointerId, clientX }) => {
      if (type === "pointerdown") this.track.setPointerCapture(pointerId);
      if (!this.track.hasPointerCapture(pointerId)) return;
      const box = this.track.getBoundingClientRect();
      this.chosen = null;
      this.players.stand((clientX - box.left) / box.width);
    };
    for (const name of ["pointerdown", "pointermove"]) this.track.addEventListener(name, follow);
    this.fill = element("div", "vrt-fill");
    this.strip = element("div", "vrt-marks");
    const line = element("div", "vrt-line", this.track, this.fill, this.strip);
    this.buttons = {};
    for (const [action, [text, label]] of Object.entries(VRThinker.CONTROLS)) {
      this.buttons[action] = button({ "data-action": action }, text, () => this.act(action));
      this.name(action, label);
    }
    this.time = element("output", "vrt-time");
    const controls = element("div", "vrt-controls", Object.values(this.buttons), this.time);
    root.replaceChildren(line, controls);
  }

  name(action, label) {
    const [, , key, written] = VRThinker.CONTROLS[action];
    const button = Object.assign(this.buttons[action], { ariaLabel: label });
    if (key) Object.assign(button, { ariaKeyShortcuts: key, title: `${label} (${written})` });
  }

  act(action) {
    const { buttons, players } = this;
    const actions = {
      play: () => players.toggle(),
      closer: () => buttons.closer.disabled || VRThinker.closer.openVideos(players, buttons.closer),
      earlier: () => this.step(-1),
      later: () => this.step(1),
      back: () => this.nudge(-1),
      forth: () => this.nudge(1),
      start: () => players.seek(0),
      end: () => players.seek(1),
      loop: () => (players.loop = !players.loop),
      speed: () => {
        players.speed = players.speed === 2 ? 0.25 : players.speed * 2;
        if (players.playing) players.play();
      },
      swap: () => this.onSwap(),
      keys: VRThinker.showKeys,
    };
    actions[action]();
    this.draw();
  }

  nudge(frames) {
    if (this.players.showStills) return this.step(frames); // the next frame is the next one seen
    this.chosen = null;
    this.players.nudge(frames);
  }

  /** Go to the next frame that the judge saw; by a fortieth of the clips while there is none. */
  step(direction) {
    const { marks, players } = this;
    const ahead = ({ place }) => (place - players.place) * direction;
    const next = VRThinker.nearest(marks.filter((mark) => ahead(mark) > 1e-4), ahead);
    if (next) return this.show(next.tile);
    if (marks.length) return;
    players.stand(players.place + direction / 40);
  }

  show(tile) {
    this.players.show(tile);
    this.chosen = tile;
    this.draw();
    document.dispatchEvent(new CustomEvent("vrt:chosen", { detail: tile }));
  }

  /** Take a video that has just come to where the other one is; a pair that is new plays once. */
  again() {
    const { chosen, players } = this;
    const key = players.isPair ? players.videos().map(({ src }) => src).join(" ") : "";
    const isNew = key && key !== this.pair;
    this.pair = key || this.pair;
    if (isNew) this.onPair();
    if (chosen) this.show(chosen);
    else if (!(isNew && players.playOnce()) && !players.playing) players.seek(players.place);
  }

  mark({ run = "", over, verdict, recorded, turns = [], coming, fps = [0, 0], grid = null }) {
    const { players } = this;
    players.frameRates = fps;
    this.grid = grid;
    const goesOn = this.live && this.run === run && !this.chosen && !VRThinker.closer.isOpen;
    const isFree = goesOn && (players.once || !players.playing);
    const [asked] = (isFree && turns.length > this.turns && turns.at(-1).tiles) || [];
    Object.assign(this, { live: Boolean(run && !over), turns: turns.length });
    if (goesOn && over && verdict) players.playOnce();
    else if (asked) players.show(asked); // unless the person plays or looks
    if (this.run !== run) {
      this.chosen = null; // a tile of another run
      if (recorded || (run && over)) players.place = 0; // its videos come after it
    }
    this.run = run;
    const marks = [...turns, ...(coming ? [coming] : [])].flatMap(({ tiles }, position) =>
      tiles.map((tile) => ({ tile, position, place: VRThinker.place(tile) })),
    );
    const hasCome = ({ position }) => position < turns.length;
    this.marks = marks.filter(hasCome);
    const draw = (mark) => this.drawMark(mark, hasCome(mark));
    fill(this.strip, [marks, turns.length], () => marks.map(draw));
    this.draw();
  }

  drawMark({ tile, position, place }, hasCome) {
    const gone = hasCome && tile.halves.every((half) => !half || half.gone);
    const came = hasCome ? `turn ${position + 1}` : "asked for";
    const title = `${tile.label}, ${came}${gone ? ", no longer in the judge's view" : ""}`;
    const look = { class: gone ? "vrt-mark gone" : "vrt-mark", title, "aria-label": title };
    const frames = { tabindex: -1, "data-frames": VRThinker.frames(tile) };
    const mark = hasCome
      ? button({ ...look, ...frames }, null, () => this.show(tile))
      : element("span", { class: "vrt-mark asked", title });
    VRThinker.colour(mark, position);
    mark.style.setProperty("--lane", position % 6);
    mark.style.left = `${place * 100}%`;
    return mark;
  }

  light(frames) {
    for (const { classList, dataset } of this.strip.children) {
      classList.toggle("lit", frames.includes(dataset.frames));
    }
  }

  /** This moment in the judge's numbers: "60", or "5 · 53" where the videos are counted apart. */
  numbers() {
    const { chosen, grid, marks, players } = this;
    if (!grid || !players.shown.length) return "";
    const { slots, rule, first } = grid;
    const away = ({ place }) => Math.abs(place - players.place);
    const tile = chosen ?? (players.showStills && VRThinker.nearest(marks, away)?.tile);
    if (tile) return VRThinker.frames(tile);
    const even = Math.round(players.place * (slots - 1));
    const slot = rule === "even" ? even : Math.min(slots - 1, Math.floor(players.place * slots));
    return [...new Set(first.map((number) => number + slot))].join(" · ");
  }

  /** When the frame appears that a player shows, as on its tile; if unknown, the moment itself. */
  timeOf(video, side) {
    const { stills, frameRates } = this.players;
    const half = this.chosen?.halves[side];
    if (Math.abs(video.currentTime - half?.at) < 0.01) return half.time; // another may be shorter
    if (video === stills[side]) return video.frame.time;
    const rate = frameRates[side];
    return rate ? this.players.frameNumber(video, rate) / rate : video.currentTime;
  }

  draw() {
    const { buttons, players, time, track } = this;
    const { place, playing, speed } = players;
    if (this.chosen && (playing || place !== VRThinker.place(this.chosen))) this.chosen = null;
    const numbers = this.numbers();
    const told = (video, side) => video && `Video ${side + 1} ${seconds(this.timeOf(video, side))}`;
    const index = numbers && `#${numbers} (of 0–${this.grid.last})`;
    const where = [...players.videos().map(told), index].filter(Boolean).join(" · ");
    this.fill.style.width = `${place * 100}%`;
    this.root.style.setProperty("--place", place);
    time.ariaLive = playing ? "off" : "polite"; // else each frame would be told
    say(time, where || "The players move together.");
    if (!playing) track.ariaValueNow = Math.round(place * 100);
    if (!playing) track.ariaValueText = where || "no videos yet";
    say(buttons.play, playing ? "❚❚" : "▶");
    this.name("play", playing ? "Pause both" : "Play both");
    say(buttons.speed, `${speed}×`);
    buttons.speed.ariaLabel = `Speed ${speed}×`;
    buttons.loop.ariaPressed = players.loop;
    buttons.swap.disabled = this.live || players.showStills;
    buttons.closer.disabled = !players.isPair;
  }
};

/* How much each frame differs from the one before, and what is certain of that: without a judge. */
VRThinker.Measured = class {
  constructor(players, words) {
    Object.assign(this, { players, words });
    this.chart = element("div", "vrt-curves");
    const curve = (side) => `<svg viewBox="0 0 1 1" preserveAspectRatio="none"
      class="vrt-side${side}"><polyline/></svg>`;
    this.chart.innerHTML = curve(1) + curve(2);
    this.chart.addEventListener("click", ({ clientX }) => {
      const { left, width } = this.chart.getBoundingClientRect();
      players.stand((clientX - left) / width);
    });
    this.facts = element("ul", "vrt-facts-measured");
    this.node = element("section", { class: "vrt-measured", "aria-label": words.name },
      element("p", "", element("b", "", words.name), words.help),
      this.chart, element("div", { role: "status" }, this.facts));
  }

  /** `found`: what the server measured, null while it measures; {} if it cannot. */
  update(found) {
    const { players, words } = this;
    const { curves, facts = [] } = found ?? {};
    this.node.hidden = Boolean(found && !curves);
    const most = Math.max(1, ...(curves ?? []).flat().map(([, difference]) => difference));
    [...this.chart.children].forEach((svg, side) => {
      const { duration = 1 } = players.videos()[side] ?? {};
      // A root, so that a small movement is seen beside a cut.
      const point = ([time, change]) => [time / duration, 0.98 - 0.96 * Math.sqrt(change / most)];
      svg.firstChild.setAttribute("points", (curves?.[side] ?? []).slice(1).map(point).join(" "));
    });
    const told = facts.length ? facts : [{ text: curves ? words.nothing : words.waits }];
    this.facts.replaceChildren(...told.map(({ text, side, at }) => {
      const show = () => players.stand(at / (players.videos()[side - 1]?.duration ?? 1));
      return element("li", "", side ? button("vrt-ref", text, show) : text);
    }));
  }
};
