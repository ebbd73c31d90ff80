/* The players of a saved run whose videos are not at hand: they show the frames that the judge saw. */
VRThinker.LOST = {
  1: "Video 1 of this run is not kept here: its player shows the frames that the judge saw.",
  2: "Video 2 of this run is not kept here: its player shows the frames that the judge saw.",
  12: "The videos of this run are not kept here: the players show the frames that the judge saw.",
};

/** The frames of one side that a run saw, each with its tile's label, in the order of their times. */
VRThinker.seenFrames = (trace, side) => {
  const tiles = (trace.turns || []).flatMap((turn) => turn.tiles).filter((tile) => tile.halves[side]);
  return tiles.map((tile) => ({ label: tile.label, ...tile.halves[side] })).sort((a, b) => a.at - b.at);
};

/** What stands in one empty player. It has the parts of a video element that `Players` uses; a moment shows the nearest frame. */
VRThinker.Still = class {
  constructor(part, number) {
    const { element } = VRThinker;
    this.part = part;
    this.number = number;
    this.frames = [];
    this.frame = null; // the one that is seen
    this.time = 0;
    this.paused = true;
    this.playbackRate = 1;
    this.node = element("div", "vrt vrt-still");
    this.node.hidden = true;
    this.image = element("img");
    const upload = VRThinker.button("", "Upload", () => this.uploadArea().click());
    upload.setAttribute("aria-label", `Upload video ${number}`);
    this.node.append(this.image, upload);
    this.node.addEventListener("dragover", (event) => event.preventDefault());
    this.node.addEventListener("drop", (event) => this.onDrop(event));
  }

  /** Gradio's own, which a picture covers; null while it holds a video or one is being uploaded. */
  uploadArea() {
    return document.querySelector(`${this.part} button.upload-container`);
  }

  onDrop(event) {
    event.preventDefault();
    event.stopPropagation();
    const { dataTransfer } = event;
    this.uploadArea().dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer }));
  }

  get shown() {
    return !this.node.hidden;
  }

  /** Stand in the player when it is empty, and there are frames. Returns whether that has changed. */
  stand() {
    const hidden = this.frames.length === 0 || !this.uploadArea();
    if (hidden === this.node.hidden) return false;
    this.node.hidden = hidden;
    this.pause();
    if (!hidden) document.querySelector(this.part).append(this.node);
    return true;
  }

  /** The length of the clip in seconds, from where its frames stand in it. */
  get duration() {
    return Math.max(0, ...this.frames.map(({ at, place }) => at / place).filter(Number.isFinite)) || 1;
  }

  get currentTime() {
    return this.time;
  }

  set currentTime(seconds) {
    this.time = Math.min(this.duration, Math.max(0, seconds));
    const far = ({ at }) => Math.abs(at - this.time);
    this.frame = this.frames.reduce((nearest, frame) => (far(frame) < far(nearest) ? frame : nearest), this.frames[0]) || null;
    if (!this.frame || this.image.getAttribute("src") === this.frame.src) return;
    this.image.src = this.frame.src;
    this.image.alt = `Video ${this.number}, ${this.frame.label}, ${VRThinker.seconds(this.frame.time)}`;
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
      if (this.ended) this.paused = true;
      else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  pause() {
    this.paused = true;
  }
};

/** Both sides, and the sentence that says what is seen. `onChange` is told when a player shows something else. */
VRThinker.Stills = class {
  constructor(parts, onChange) {
    this.sides = parts.map((part, side) => new VRThinker.Still(part, side + 1));
    this.onChange = onChange;
    this.run = null;
    this.sentence = VRThinker.element("p", "vrt-lost");
    this.sentence.setAttribute("role", "status");
    this.sentence.hidden = true;
    this.observer = new MutationObserver(() => this.draw());
  }

  /** The frames of the run that is shown; a run that has just come is shown from its beginning. */
  update(trace) {
    const lost = trace.stills || [];
    this.sides.forEach((still, side) => {
      still.frames = lost.includes(side + 1) ? VRThinker.seenFrames(trace, side) : [];
      still.currentTime = this.run === trace.run ? still.currentTime : 0;
    });
    const players = document.getElementById("players");
    if (lost.length && players) this.observer.observe(players, { childList: true, subtree: true });
    else this.observer.disconnect();
    const fresh = this.run !== trace.run && lost.length > 0;
    this.run = trace.run;
    this.draw();
    return fresh;
  }

  draw() {
    const changed = this.sides.map((still) => still.stand()).includes(true);
    if (!changed) return;
    const text = VRThinker.LOST[this.sides.filter((still) => still.shown).map((still) => still.number).join("")] || "";
    this.sentence.hidden = !text;
    VRThinker.say(this.sentence, text);
    this.onChange();
  }
};
