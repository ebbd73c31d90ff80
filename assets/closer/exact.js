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
