/* Both players as one: the same moment is the same fraction of each clip, not the same second. */
VRThinker.Players = class {
  /** `selectors` find the two players whenever they are needed: they come and go with the uploads. */
  constructor(selectors, onChange) {
    this.selectors = selectors;
    this.onChange = onChange;
    this.playing = false;
    this.loop = true;
    this.speed = 1;
    this.place = 0;
    this.frameRates = [0, 0];
    document.addEventListener("loadedmetadata", () => this.onChange(), true);
    document.addEventListener("timeupdate", (event) => this.notice(event.target), true);
  }

  /** Both video elements, null where there is none that can be played. */
  videos() {
    return this.selectors.map((selector) => {
      const video = document.querySelector(selector);
      return video && video.readyState > 0 && video.duration > 0 ? video : null;
    });
  }

  get ready() {
    return this.videos().some(Boolean);
  }

  /** Move both to a fraction of their length, 0 to 1. */
  seek(place) {
    this.place = Math.min(1, Math.max(0, place));
    for (const video of this.videos()) {
      if (video) video.currentTime = Math.min(this.place * video.duration, Math.max(0, video.duration - 0.001));
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
      video.currentTime = half && Number.isFinite(half.at) ? half.at : this.place * video.duration;
    });
    this.onChange();
  }

  /** Move by single frames. */
  nudge(frames) {
    this.pause();
    this.videos().forEach((video, side) => {
      if (!video) return;
      const step = frames / (this.frameRates[side] || 30);
      video.currentTime = Math.min(Math.max(0, video.currentTime + step), Math.max(0, video.duration - 0.001));
    });
    const leader = this.leader();
    if (leader) this.place = leader.currentTime / leader.duration;
    this.onChange();
  }

  /** A player that is driven by its own buttons takes the rail with it. */
  notice(video) {
    if (this.playing || video.paused || !this.videos().includes(video)) return;
    this.place = Math.min(1, video.currentTime / video.duration);
    this.onChange();
  }

  leader() {
    const [first, second] = this.videos();
    return first || second;
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
      video.playbackRate = Math.min(16, Math.max(0.0625, (this.speed * video.duration) / leader.duration));
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

  /** Bring the other player back when the two have drifted apart. */
  follow(leader) {
    for (const video of this.videos()) {
      if (!video || video === leader || video.seeking) continue;
      const wanted = this.place * video.duration;
      if (Math.abs(video.currentTime - wanted) > 0.12) video.currentTime = wanted;
    }
  }
};
