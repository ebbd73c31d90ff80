/* Above the viewer, while it shows a row of the list: people's labels beside the judge's, and the rows before and after it. */
VRThinker.RunBar = class {
  constructor(root, texts) {
    const { element } = VRThinker;
    this.root = root;
    this.texts = texts;
    this.choice = VRThinker.runChoice;
    root.classList.add("vrt", "vrt-run-bar");
    this.line = element("p", "vrt-row-place");
    this.labels = element("div");
    this.previous = VRThinker.button("", "‹", () => this.step("previous"));
    this.next = VRThinker.button("", "›", () => this.step("next"));
    this.previous.setAttribute("aria-label", texts.previousRow);
    this.next.setAttribute("aria-label", texts.nextRow);
    this.previous.append(element("span", "", ` ${texts.previous}`));
    this.next.prepend(element("span", "", `${texts.next} `));
    const steps = element("div", "vrt-row-steps");
    steps.append(this.previous, this.next);
    root.replaceChildren(this.line, this.labels, steps);
    root.hidden = true;
    document.addEventListener("vrt:trace", ({ detail }) => this.show(detail || {}));
    document.addEventListener("vrt:choice", () => this.load());
  }

  /** A row that was voted on, or checked, is the visitor's own run by then, and still that row. */
  show({ run, address = "", ballot = {} }) {
    const isRow = address.startsWith("row-");
    const key = `${run} ${address} ${ballot.hidden}`;
    if (this.key === key) return;
    this.key = key;
    if (isRow) this.shown = { run, name: address };
    else if (!this.shown || this.shown.run !== run) this.shown = null;
    this.labels.hidden = Boolean(ballot.hidden);
    if (!this.shown) this.root.hidden = true;
    this.load();
  }

  async load() {
    const shown = this.shown;
    if (!shown) return;
    const answer = await this.choice.ask(shown.name, this.texts).catch(() => null);
    if (this.shown !== shown) return;
    this.root.hidden = !answer;
    if (!answer) return;
    this.answer = answer;
    const { run, place, matching } = answer;
    const source = run.source ? ` · ${run.source}` : "";
    VRThinker.say(this.line, `Row ${run.row} · ${place.toLocaleString("en")} of ${matching.toLocaleString("en")}${source}`);
    const labels = VRThinker.RunRow.labels(run, this.texts);
    this.labels.replaceChildren(...(labels ? [labels] : []));
    // Not `disabled`, which would take the focus away from the keys.
    this.previous.setAttribute("aria-disabled", String(!answer.previous));
    this.next.setAttribute("aria-disabled", String(!answer.next));
  }

  step(where) {
    if (this.answer && this.answer[where]) VRThinker.openRow(this.answer[where]);
  }
};

VRThinker.mountRunBar = (root, texts) => {
  VRThinker.runTexts = texts;
  VRThinker.runBar = new VRThinker.RunBar(root, texts);
};
