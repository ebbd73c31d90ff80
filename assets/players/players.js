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

  /** No video is at hand, but frames of both or of one. */
  get showStills() {
    const shown = this.videos().filter(Boolean);
    return shown.length > 0 && shown.every((video) => this.stills.includes(video));
  }

  /** Move one to so many seconds, never quite to its end, where it would count as ended. */
  move(video, seconds) {
    video.currentTime = Math.min(Math.max(0, seconds), Math.max(0, video.duration - 0.001));
  }

  /** Move both to a fraction of their length, 0 to 1. */
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
