/* Two to four rows side by side: a column each, with the same turn of all of them at the same height. */
VRThinker.SideBySide = class {
  constructor(texts) {
    this.texts = texts;
    this.columns = [];
  }

  /** Show these rows. On closing, what had the focus has it again. */
  async open(runs) {
    if (!this.node) this.build();
    const prompts = new Set(runs.map((run) => run.prompt));
    VRThinker.say(this.prompt, prompts.size === 1 ? runs[0].prompt : "");
    while (this.columns.length < runs.length) this.columns.push(new VRThinker.RunColumn(this.texts, () => this.node.close()));
    const columns = this.columns.slice(0, runs.length);
    this.scroll.replaceChildren(...columns.map((column) => column.node));
    this.scroll.style.setProperty("--turns", "1");
    this.opener = document.activeElement;
    this.node.showModal();
    this.scroll.scrollTo(0, 0);
    this.scroll.focus({ preventScroll: true });
    const turns = await Promise.all(columns.map((column, place) => column.show(runs[place], prompts.size > 1)));
    this.scroll.style.setProperty("--turns", String(Math.max(1, ...turns)));
  }

  build() {
    const { element } = VRThinker;
    this.node = element("dialog", "vrt vrt-side-by-side");
    const title = element("p", "vrt-side-title", this.texts.sideBySide);
    title.id = "vrt-side-title";
    this.node.setAttribute("aria-labelledby", title.id);
    this.prompt = element("p", "vrt-side-prompt");
    this.prompt.dir = "auto";
    const close = VRThinker.button("", "✕", () => this.node.close());
    close.setAttribute("aria-label", this.texts.close);
    const head = element("header");
    head.append(title, this.prompt, close);
    this.scroll = element("div", "vrt-columns");
    this.scroll.tabIndex = 0;
    this.scroll.setAttribute("role", "group");
    this.scroll.setAttribute("aria-labelledby", title.id);
    this.node.append(head, this.scroll);
    this.node.addEventListener("keydown", (event) => event.stopPropagation()); // the players' keys rest
    this.node.addEventListener("close", () => this.leave());
    window.addEventListener("popstate", () => this.node.close());
    // Gradio narrows the media queries of a page's style sheet to what stands here.
    (document.querySelector(".gradio-container .contain") || document.body).append(this.node);
  }

  /** The columns are kept, for each listens to the page, and their pictures are not. */
  leave() {
    this.scroll.replaceChildren();
    for (const column of this.columns) column.empty();
    if (this.opener.isConnected) this.opener.focus({ preventScroll: true });
  }
};

/** One row: what it is, its labels, and its turns. */
VRThinker.RunColumn = class {
  constructor(texts, close) {
    const { element } = VRThinker;
    this.texts = texts;
    this.node = element("section", "vrt-column");
    this.name = element("h2");
    this.alone = VRThinker.button("", texts.alone, () => {
      close();
      VRThinker.openRow(this.run.name);
    });
    this.source = element("p");
    this.labels = element("div");
    this.lines = element("div");
    this.said = element("p", "vrt-column-said");
    this.said.setAttribute("role", "status");
    const about = element("div", "vrt-column-about");
    about.append(this.lines, this.said);
    const head = element("header");
    head.append(this.name, this.alone, this.source, this.labels);
    this.tiles = new VRThinker.Tiles(this.node, (tile) => this.tiles.find(tile).scrollIntoView({ block: "nearest" }));
    this.turns = new VRThinker.TurnList({ open: (tile, node, turn) => this.look(tile, node, turn) }, "vrt-turns", "");
    this.node.append(head, about, this.turns.node);
  }

  /** Read the row and draw it; gives the number of its turns. Of two rows that it is to show, the later one counts. */
  async show(run, ownPrompt) {
    this.begin(run);
    try {
      const answer = await VRThinker.askRuns(`/${encodeURIComponent(run.name)}/view.json`, this.texts);
      if (this.run === run) this.draw(answer, ownPrompt);
    } catch (sentence) {
      if (this.run === run) VRThinker.say(this.said, String(sentence));
    }
    return this.view.turns.length;
  }

  /** Nothing is shown yet that "Vote first" may hide by now. */
  begin(run) {
    const name = `Row ${run.row}`;
    this.empty();
    this.run = run;
    VRThinker.say(this.name, name);
    this.node.setAttribute("aria-label", name);
    this.alone.setAttribute("aria-label", `${this.texts.alone}: ${name}`);
    this.turns.node.setAttribute("aria-label", `Turns of ${name}`);
    VRThinker.say(this.source, run.source);
    VRThinker.say(this.said, this.texts.loading);
  }

  empty() {
    this.run = null;
    this.view = { turns: [], noLarger: this.texts.noLarger };
    this.labels.replaceChildren();
    this.lines.replaceChildren();
    this.turns.update({}, []);
  }

  draw({ run, view, said }, ownPrompt) {
    const { element, RunRow } = VRThinker;
    const labels = RunRow.labels(run, this.texts);
    this.labels.replaceChildren(...(labels ? [labels] : []));
    const lines = [ownPrompt && run.prompt, view.judge, RunRow.facts(run)].filter(Boolean);
    this.lines.replaceChildren(...lines.map((line) => element("p", "", line)));
    VRThinker.say(this.said, [said, view.ending].filter(Boolean).join(" "));
    // How sure the judge was stands in the turn's line: its help would have the same name in every column.
    const state = (turn) => [turn.state, turn.confidence[0]].filter(Boolean).join(" · ");
    this.view.turns = view.turns.map((turn) => ({ ...turn, state: state(turn), confidence: [] }));
    this.turns.update({ run: run.name }, this.view.turns);
    this.tiles.markLinks();
  }

  look(tile, node, turn) {
    this.tiles.ring(node);
    document.dispatchEvent(new CustomEvent("vrt:look", { detail: { tile, node, turn, other: this.view } }));
  }
};
