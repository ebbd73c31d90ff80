/* The form of a vote: a label for each dimension, agree or disagree, the deciding pairs, a note. */
VRThinker.Ballot = class {
  constructor(dimensions, send) {
    const { element, button } = VRThinker;
    this.dimensions = dimensions;
    this.send = send;
    this.slots = [];
    this.refusal = "";
    const show = button("vrt-pill", "Show the verdict without voting", () => send("show"));
    const why = element("p", "", "What the judge says is hidden until you have voted.");
    this.notice = element("div", { class: "vrt-hidden", hidden: "" }, why, show);
    this.form = this.build();
    const summary = element("summary", "", "Vote yourself");
    this.node = element("details", "vrt-ballot", summary, this.form);
    this.node.addEventListener("toggle", () => {
      if (this.node.open || !this.editing) return;
      this.editing = false;
      document.dispatchEvent(new CustomEvent("vrt:ballot"));
    });
    document.addEventListener("vrt:votefirst", ({ detail: on }) => {
      if (!on && this.hidden) send("show");
    });
    document.addEventListener("vrt:tile", (event) => this.offer(event.detail));
  }

  build() {
    const { element, button } = VRThinker;
    const none = [null, "Not said"];
    const labels = [[1, "Video 1"], [0, "Tie"], [2, "Video 2"], none];
    const groups = this.dimensions.map(([key, name, help]) => this.group(key, name, labels, help));
    const views = [[true, "Agree"], [false, "Disagree"], none];
    this.agrees = this.group("agrees", "The judge’s verdict", views);
    this.choice = element("select");
    this.choice.addEventListener("change", () => {
      if (this.choice.value) this.mark(Number(this.choice.value));
    });
    const pill = { class: "vrt-pill", hidden: "" };
    this.offered = button(pill, "", () => this.mark(this.offered.slot));
    this.marked = element("span", "vrt-marked");
    this.note = element("textarea", { rows: 2, maxlength: 2000 });
    this.said = element("span", { class: "vrt-vote-said", role: "status" });
    const pair = element("label", "vrt-field", "Deciding pair", this.choice);
    const save = element("button", "vrt-save-vote", "Save vote");
    const form = element("form", "", groups, this.agrees, [
      element("p", "vrt-pairs", pair, this.offered, this.marked),
      element("label", "vrt-field", "Note", this.note),
      element("p", "vrt-vote-foot", save, this.said),
    ]);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.sent = true;
      this.refusal = "";
      this.send("vote", this.value());
    });
    return form;
  }

  /** Radio buttons, so that arrow keys choose one and Tab leaves them. Their values are JSON. */
  group(key, name, choices, help = "") {
    const { element } = VRThinker;
    const labels = choices.map(([value, text]) => {
      const input = element("input", { type: "radio", name: `vrt-vote-${key}`, value });
      return element("label", `vrt-side${value ?? ""}`, input, element("span", "", text));
    });
    const look = { class: "vrt-choices", title: help };
    return element("fieldset", look, element("legend", "", name), labels);
  }

  get open() {
    return !this.node.hidden;
  }

  /** The person sees what was chosen once the server has kept it: then the form closes. */
  update(trace, asked) {
    const { run, vote, ballot = {} } = trace;
    const fresh = this.run !== run;
    const kept = !fresh && vote && ballot.own && !ballot.refusal;
    const saved = kept && (vote.key !== this.key || this.sent);
    const hidden = Boolean(ballot.hidden) && asked;
    const turned = fresh || saved || this.hidden !== hidden;
    Object.assign(this, { trace, run, hidden, key: vote?.key });
    if (fresh) this.fill(null);
    if (fresh || saved) Object.assign(this, { editing: false, sent: false, refusal: "" });
    this.refusal = ballot.refusal || this.refusal; // stands until the next try
    this.notice.hidden = !hidden;
    this.agrees.hidden = !VRThinker.hasVerdict(trace);
    this.node.hidden = !asked || Boolean(vote && !this.editing);
    if (turned) this.node.open = hidden || this.editing;
    VRThinker.say(this.said, this.refusal);
    this.drawPairs();
  }

  /** Change a vote; somebody else's is not the beginning of one's own. */
  edit(vote, own) {
    this.fill(own ? vote : null);
    this.editing = true;
    this.node.open = true;
    this.node.hidden = false;
    this.node.querySelector("input:checked").focus();
  }

  radios(key) {
    return this.form.elements[`vrt-vote-${key}`];
  }

  fill(vote) {
    for (const [key] of this.dimensions) {
      const row = vote?.rows.find(({ dimension }) => dimension === key);
      this.radios(key).value = String(row?.value ?? null);
    }
    this.radios("agrees").value = String(vote?.agrees ?? null);
    this.slots = [...(vote?.slots ?? [])];
    this.note.value = vote?.note ?? "";
    this.offered.hidden = true;
  }

  value() {
    const chosen = (key) => JSON.parse(this.radios(key).value);
    const labels = Object.fromEntries(this.dimensions.map(([key]) => [key, chosen(key)]));
    const agrees = this.agrees.hidden ? null : chosen("agrees");
    return { labels, agrees, slots: this.slots, note: this.note.value };
  }

  /** The pair that the players show can be marked without looking for it in the list. */
  offer({ slot, label }) {
    if (!this.open || this.slots.includes(slot)) return;
    this.offered.slot = slot;
    this.offered.textContent = `Mark ${label}`;
    this.offered.hidden = false;
  }

  mark(slot) {
    if (this.slots.length < 16) this.slots.push(slot);
    this.offered.hidden = true;
    this.drawPairs();
  }

  drawPairs() {
    const { fill } = VRThinker;
    const pairs = VRThinker.pairs(this.trace);
    const left = [...pairs].filter(([slot]) => !this.slots.includes(slot));
    const marked = this.slots.map((slot) => [slot, pairs.get(slot)]);
    const option = ([slot, label]) => new Option(label, slot);
    fill(this.choice, [["", "Mark a pair"], ...left], (choices) => choices.map(option));
    fill(this.marked, marked, () => this.slots.map((slot) => this.chip(slot)));
  }

  chip(slot) {
    const link = VRThinker.pairLink(this.trace, slot);
    const look = { class: "vrt-pill", "aria-label": `Unmark ${link.textContent}` };
    const remove = VRThinker.button(look, "×", () => {
      this.slots = this.slots.filter((other) => other !== slot);
      this.drawPairs();
      this.choice.focus();
    });
    return [link, remove];
  }
};

/* The switch "Vote first". A cookie tells the server before it sends the first word of a judge. */
VRThinker.mountVoteFirst = (root) => {
  const { element } = VRThinker;
  const box = element("input", { type: "checkbox" });
  const help = element("span", "", "Hide each run’s verdict until I have voted.");
  box.checked = /(^|; )vote_first=on(;|$)/.test(document.cookie);
  root.classList.add("vrt", "vrt-vote-first");
  root.replaceChildren(element("label", "", box, element("b", "", "Vote first"), help));
  box.addEventListener("change", () => {
    // A page inside another site's frame, as on Hugging Face, keeps only cookies of this kind.
    const framed = "SameSite=None; Secure; Partitioned";
    const scope = location.protocol === "https:" ? framed : "SameSite=Lax";
    const value = box.checked ? "on" : "off";
    document.cookie = `vote_first=${value}; path=/; max-age=31536000; ${scope}`;
    document.dispatchEvent(new CustomEvent("vrt:votefirst", { detail: box.checked }));
  });
};
