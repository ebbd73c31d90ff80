/* Blind: pair after pair with their names hidden and their sides shuffled. A vote shows the verdict
and counts in a tally. A cookie tells the server before it sends a word of a judge. */
VRThinker.Blind = class {
  on = /(^|; )vote_first=on(;|$)/.test(document.cookie);
  shuffled = false; // video 2 stands on the left
  isLast = false; // no pair comes after this one
  queue = []; // names of the next pairs
  page = 0; // of an evaluation's list
  tally = { judged: 0, agreed: 0, left: 0, voted: 0 };
  constructor(words) {
    this.words = words;
    this.start = button("vrt-pill", "", () => this.turn(!this.on));
    this.entry = element("p", "vrt-entry", this.start, element("span", "", words.help));
    this.said = element("p", { role: "status" });
    this.nextButton = button("vrt-watch", words.next, () => this.next());
    this.node = element("div", { class: "vrt-next", hidden: "" }, this.nextButton, this.said);
    document.addEventListener("keydown", (event) => this.onKey(event), true);
    this.draw();
  }

  turn(on) {
    Object.assign(this, { on, isLast: false, queue: [], page: 0 });
    VRThinker.remember("vote_first", on ? "on" : "off");
    document.dispatchEvent(new CustomEvent("vrt:votefirst", { detail: on }));
    this.draw();
    if (on) this.next();
  }

  async next() {
    if (!this.queue.length) this.queue = await this.more();
    const name = this.queue.shift();
    if (name) return VRThinker.address.choose(`trace=${name}`);
    this.isLast = true;
    this.draw();
  }

  /** Names of further pairs: an evaluation's by its rows, else those of the test scenes. */
  async more() {
    this.page += 1;
    if (!document.getElementById("evaluation")) {
      const scenes = VRThinker.examples.filter(({ hero, folded }) => !hero && !folded);
      const names = scenes.map(({ name }) => [Math.random(), name]).sort().map(([, name]) => name);
      return this.page > 1 ? [] : names;
    }
    const [list] = await VRThinker.askServer(`evaluation?page=${this.page}`);
    if (!list || this.page > list.pages) return [];
    return list.runs.filter(({ opens }) => opens).map(({ name }) => name);
  }

  /** Take what the server says of a run, before it is drawn. */
  update({ run, over, ballot = {}, vote, verdict }) {
    this.hidden = Boolean(run && ballot.hidden);
    if (run !== this.run) {
      this.isStored = Boolean(this.hidden && over); // not what the visitor compares now
      Object.assign(this, { run, counted: false, shuffled: this.isStored && Math.random() < 0.5 });
    }
    document.body.classList.toggle("vrt-blinded", this.hidden && this.isStored);
    document.body.classList.toggle("vrt-shuffled", this.shuffled);
    if (this.isStored && vote && ballot.own && !this.counted) {
      this.count(vote, verdict);
      requestAnimationFrame(() => this.nextButton.focus({ preventScroll: true }));
    }
    this.draw();
  }

  count({ rows, note }, verdict) {
    const { tally, shuffled } = this;
    const { value } = rows.find(({ dimension }) => dimension === "OA");
    const isJudged = verdict?.says && note !== VRThinker.BOTH_BAD;
    const judged = isJudged ? verdict.chips[0]?.value ?? null : null;
    this.counted = true;
    tally.voted += 1;
    tally.left += value === (shuffled ? 2 : 1);
    tally.judged += judged !== null;
    tally.agreed += judged === value;
  }

  draw() {
    const { on, words, isLast } = this;
    const { judged, agreed, left, voted } = this.tally;
    const told = `You and the judge agree on ${agreed} of ${judged}; left won ${left} of ${voted}.`;
    this.start.ariaPressed = on;
    say(this.start, on ? words.leave : words.begin);
    this.node.hidden = !on || this.hidden;
    this.nextButton.hidden = this.hidden || isLast;
    const said = [this.run ? "" : words.on, isLast && words.last, voted && told];
    say(this.said, said.filter(Boolean).join(" "));
  }

  onKey(event) {
    const { key, target, ctrlKey, metaKey, altKey } = event;
    if (!this.on || ctrlKey || metaKey || altKey || VRThinker.closer.isOpen) return;
    if (target.closest("input, textarea, select, dialog")) return;
    const place = this.hidden ? ["a", "=", "b", "x"].indexOf(key.toLowerCase()) : -1;
    const isEnter = key === "Enter" && !target.closest("button, a, summary");
    const node = isEnter ? this.nextButton : document.querySelectorAll(".vrt-sides button")[place];
    if (!node || node.hidden) return;
    event.preventDefault();
    event.stopPropagation();
    node.click();
  }
};

VRThinker.mountBlind = (root, words) => {
  VRThinker.blind = new VRThinker.Blind(words);
  root.classList.add("vrt");
  root.replaceChildren(VRThinker.blind.entry);
};
