/* The form of a vote: a label a dimension, agree or disagree, the deciding pairs, a note. */
VRThinker.Ballot = class {
  constructor(dimensions, send) {
    const { element } = VRThinker;
    this.dimensions = dimensions;
    this.send = send;
    this.asked = false;
    this.slots = [];
    this.refusal = "";
    this.notice = element("div", "vrt-hidden");
    this.node = element("details", "vrt-ballot");
    this.node.addEventListener("toggle", () => this.onToggle());
    this.buildNotice();
    this.build();
    document.addEventListener("vrt:votefirst", (event) => !event.detail && this.hidden && this.send("show"));
    document.addEventListener("vrt:tile", (event) => this.offer(event.detail));
  }

  buildNotice() {
    const { element } = VRThinker;
    const show = VRThinker.button("vrt-pill", "Show the verdict without voting", () => this.send("show"));
    this.notice.append(element("p", "", "What the judge says is hidden until you have voted."), show);
    this.notice.hidden = true;
  }

  build() {
    const { element } = VRThinker;
    const form = element("form");
    const labels = [["1", "Video 1"], ["0", "Tie"], ["2", "Video 2"], ["", "Not said"]];
    this.groups = Object.fromEntries(this.dimensions.map(([key, name, help]) => [key, this.group(key, name, labels, help)]));
    this.agrees = this.group("agrees", "The judge’s verdict", [["true", "Agree"], ["false", "Disagree"], ["", "Not said"]]);
    this.note = element("textarea");
    this.note.rows = 2;
    this.note.maxLength = 2000;
    const note = element("label", "vrt-field", "Note");
    note.append(this.note);
    const save = element("button", "vrt-save-vote", "Save vote");
    this.said = element("span", "vrt-vote-said");
    this.said.setAttribute("role", "status");
    const foot = element("p", "vrt-vote-foot");
    foot.append(save, this.said);
    form.append(...Object.values(this.groups), this.agrees, this.buildPairs(), note, foot);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.sent = true;
      this.refusal = "";
      this.send("vote", this.value());
    });
    this.node.append(element("summary", "", "Vote yourself"), form);
  }

  /** Buttons of which one is pressed: radio buttons, so that arrow keys choose and Tab leaves them. */
  group(key, name, choices, help = "") {
    const { element } = VRThinker;
    const group = element("fieldset", "vrt-choices");
    group.title = help;
    group.append(element("legend", "", name));
    for (const [value, text] of choices) {
      const label = element("label", `vrt-side${value}`);
      const input = element("input");
      input.type = "radio";
      input.name = `vrt-vote-${key}`;
      input.value = value;
      label.append(input, element("span", "", text));
      group.append(label);
    }
    return group;
  }

  buildPairs() {
    const { element } = VRThinker;
    const line = element("p", "vrt-pairs");
    const label = element("label", "vrt-field", "Deciding pair");
    this.choice = element("select");
    this.choice.addEventListener("change", () => this.choice.value && this.mark(Number(this.choice.value)));
    label.append(this.choice);
    this.offered = VRThinker.button("vrt-pill", "", () => this.mark(this.offered.slot));
    this.offered.hidden = true;
    this.marked = element("span", "vrt-marked");
    line.append(label, this.offered, this.marked);
    return line;
  }

  /** The person sees what was chosen once the server has kept it: then the form closes. */
  update(trace, asked) {
    const { vote = null, ballot = {} } = trace;
    const fresh = this.run !== trace.run;
    const key = vote ? vote.key : "";
    const saved = !fresh && vote !== null && ballot.own && !ballot.refusal && (key !== this.saved || this.sent);
    this.trace = trace;
    this.asked = asked;
    this.hidden = Boolean(ballot.hidden) && asked;
    if (fresh) this.fill(null);
    if (fresh || saved) this.editing = this.sent = false;
    if (fresh || saved) this.refusal = "";
    this.refusal = ballot.refusal || this.refusal; // it stands until the next try, whatever the run goes on to show
    this.run = trace.run;
    this.saved = key;
    this.notice.hidden = !this.hidden;
    this.agrees.hidden = !VRThinker.hasVerdict(trace);
    this.node.hidden = !asked || (vote !== null && !this.editing);
    this.open = asked && !this.node.hidden;
    if (fresh || saved || this.hidden !== this.wasHidden) this.node.open = this.hidden || this.editing;
    this.wasHidden = this.hidden;
    VRThinker.say(this.said, this.refusal);
    this.drawPairs();
  }

  /** Change a vote; somebody else's is not the beginning of one's own. */
  edit(vote, own) {
    this.fill(own ? vote : null);
    this.editing = true;
    this.node.open = true;
    this.open = true;
    this.node.hidden = false;
  }

  onToggle() {
    if (this.node.open || !this.editing) return;
    this.editing = false;
    document.dispatchEvent(new CustomEvent("vrt:ballot"));
  }

  focus() {
    this.node.querySelector("input:checked").focus();
  }

  fill(vote) {
    const values = Object.fromEntries((vote ? vote.rows : []).map((row) => [row.dimension, row.value]));
    for (const [key, group] of Object.entries(this.groups)) this.choose(group, values[key]);
    this.choose(this.agrees, vote ? vote.agrees : null);
    this.slots = vote ? [...vote.slots] : [];
    this.note.value = vote ? vote.note : "";
    this.offered.hidden = true;
    this.pairsKey = null;
  }

  choose(group, value) {
    const wanted = value === null || value === undefined ? "" : String(value);
    for (const input of group.querySelectorAll("input")) input.checked = input.value === wanted;
  }

  value() {
    const chosen = (group) => group.querySelector("input:checked").value;
    const labels = {};
    for (const [key, group] of Object.entries(this.groups)) labels[key] = chosen(group) === "" ? null : Number(chosen(group));
    const agrees = this.agrees.hidden || chosen(this.agrees) === "" ? null : chosen(this.agrees) === "true";
    return { labels, agrees, slots: this.slots, note: this.note.value };
  }

  /** The pair that the players show can be marked without looking for it in the list. */
  offer(tile) {
    if (!this.open || this.slots.includes(tile.slot)) return;
    this.offered.slot = tile.slot;
    this.offered.textContent = `Mark ${tile.label}`;
    this.offered.hidden = false;
  }

  mark(slot) {
    if (!this.slots.includes(slot) && this.slots.length < 16) this.slots.push(slot);
    this.offered.hidden = true;
    this.drawPairs();
  }

  drawPairs() {
    const pairs = VRThinker.pairs(this.trace);
    const key = JSON.stringify([pairs, this.slots]);
    if (this.pairsKey === key) return;
    this.pairsKey = key;
    const { element } = VRThinker;
    const option = (value, text) => {
      const node = element("option", "", text);
      node.value = value;
      return node;
    };
    const left = pairs.filter(([slot]) => !this.slots.includes(slot));
    this.choice.replaceChildren(option("", "Mark a pair"), ...left.map(([slot, label]) => option(slot, label)));
    this.marked.replaceChildren(...this.slots.flatMap((slot) => this.chip(slot)));
  }

  chip(slot) {
    const link = VRThinker.pairLink(this.trace, slot);
    const remove = VRThinker.button("vrt-pill", "×", () => {
      this.slots = this.slots.filter((other) => other !== slot);
      this.drawPairs();
      this.choice.focus();
    });
    remove.setAttribute("aria-label", `Unmark ${link.textContent}`);
    return [link, remove];
  }
};

/* The switch "Vote first". A cookie holds it: the server must know it before it sends the first word of a judge. */
VRThinker.mountVoteFirst = (root) => {
  const { element } = VRThinker;
  root.classList.add("vrt", "vrt-vote-first");
  const label = element("label");
  const box = element("input");
  box.type = "checkbox";
  box.checked = /(^|; )vote_first=on(;|$)/.test(document.cookie);
  label.append(box, element("b", "", "Vote first"), element("span", "", "Hide each run’s verdict until I have voted."));
  root.replaceChildren(label);
  box.addEventListener("change", () => {
    // A page inside another site's frame, as on Hugging Face, keeps only cookies of this kind.
    const scope = location.protocol === "https:" ? "SameSite=None; Secure; Partitioned" : "SameSite=Lax";
    document.cookie = `vote_first=${box.checked ? "on" : "off"}; path=/; max-age=31536000; ${scope}`;
    document.dispatchEvent(new CustomEvent("vrt:votefirst", { detail: box.checked }));
  });
};
