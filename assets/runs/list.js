/* The runs of a folder: filters, a search, one page of rows. Each row opens its run; what is new is read when this is asked for. */
VRThinker.MILLISECONDS_WHILE_READING = 1500; // between two lists while the server still reads the folder
VRThinker.MILLISECONDS_OF_TYPING = 250;

VRThinker.RunsList = class {
  constructor(root, texts) {
    const { element } = VRThinker;
    this.root = root;
    this.texts = texts;
    this.choice = VRThinker.runChoice;
    root.classList.add("vrt", "vrt-evaluation");
    this.summary = element("p", "vrt-row-summary");
    this.summary.setAttribute("role", "status");
    this.read = element("span", "vrt-row-read");
    const line = element("div", "vrt-row-line");
    line.append(this.summary, this.read);
    this.said = element("p", "vrt-row-said");
    this.list = element("ol", "vrt-rows");
    this.list.setAttribute("aria-label", "Rows");
    this.pager = element("nav", "vrt-row-pages");
    this.pager.setAttribute("aria-label", "Pages");
    this.picked = new VRThinker.PickedRows(this.list, texts);
    root.replaceChildren(this.chips(), this.controls(), line, this.said, this.list, this.picked.node, this.pager);
    this.buildPager();
    document.addEventListener("vrt:choice", () => this.load());
    document.addEventListener("vrt:trace", ({ detail }) => this.mark((detail || {}).address));
    document.addEventListener("vrt:votefirst", () => this.load());
    new IntersectionObserver(() => this.load()).observe(root);
  }

  chips() {
    const group = VRThinker.element("div", "vrt-row-filters");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", this.texts.filters);
    this.filters = this.texts.kinds.map(([kind, name, help]) => {
      const chip = VRThinker.button("vrt-row-filter", null, () => chip.getAttribute("aria-disabled") !== "true" && this.choice.toggle(kind));
      const count = VRThinker.element("span", "vrt-row-count");
      chip.append(VRThinker.element("span", "", name), count);
      chip.title = help;
      group.append(chip);
      return { kind, chip, count };
    });
    return group;
  }

  controls() {
    const { element } = VRThinker;
    const row = element("div", "vrt-row-controls");
    const search = element("input");
    search.type = "search";
    search.maxLength = 200;
    search.placeholder = this.texts.search;
    search.setAttribute("aria-label", this.texts.search);
    search.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.choice.change({ search: search.value }), VRThinker.MILLISECONDS_OF_TYPING);
    });
    const sort = element("select");
    sort.setAttribute("aria-label", this.texts.sort);
    sort.append(...this.texts.sorts.map(([kind, name]) => new Option(name, kind)));
    sort.addEventListener("change", () => this.choice.change({ sort: sort.value }));
    const field = (part) => {
      const around = element("div", "vrt-field");
      around.append(part);
      return around;
    };
    row.append(field(search), field(sort), VRThinker.button("", this.texts.refresh, () => this.load()));
    return row;
  }

  buildPager() {
    const step = (name, page) => VRThinker.button("", name, () => this.turn(page()));
    const { choice, texts } = this;
    this.steps = [step(texts.first, () => 1), step(texts.previous, () => choice.page - 1)];
    this.steps.push(step(texts.next, () => choice.page + 1), step(texts.last, () => this.pages));
    this.place = VRThinker.element("span");
    this.pager.append(...this.steps.slice(0, 2), this.place, ...this.steps.slice(2));
    this.pager.hidden = true;
  }

  async turn(page) {
    if (page < 1 || page > this.pages || page === this.choice.page) return;
    this.choice.change({ page });
    this.root.scrollIntoView({ block: "start" });
  }

  /** Of two answers that cross, the one asked for last counts. */
  async load() {
    clearTimeout(this.timer);
    if (!this.root.checkVisibility()) return;
    const number = (this.number = (this.number || 0) + 1);
    let answer = null;
    let trouble = "";
    try {
      answer = await this.choice.ask("", this.texts);
    } catch (sentence) {
      trouble = String(sentence);
    }
    if (number !== this.number) return;
    if (answer) this.draw(answer);
    else VRThinker.say(this.said, trouble);
    if (answer && answer.reading) this.timer = setTimeout(() => this.load(), VRThinker.MILLISECONDS_WHILE_READING);
  }

  draw(answer) {
    const { runs, total, matching, page, pages, unchecked, counts, said, reading } = answer;
    const number = (value) => value.toLocaleString("en");
    this.choice.page = page;
    this.pages = pages;
    // Nothing is `disabled` here, which would take the focus away from the keys.
    for (const { kind, chip, count } of this.filters) {
      const on = this.choice.only.has(kind);
      chip.setAttribute("aria-pressed", String(on));
      chip.setAttribute("aria-disabled", String(!on && counts[kind] === 0));
      VRThinker.say(count, number(counts[kind]));
    }
    const rows = total === 1 ? "row" : "rows";
    VRThinker.say(this.summary, matching === total ? `${number(total)} ${rows}` : `${number(matching)} of ${number(total)} ${rows}`);
    VRThinker.say(this.said, [reading && this.texts.reading, said].filter(Boolean).join(" "));
    const read = this.texts.read.replace("{}", new Date().toLocaleTimeString());
    VRThinker.say(this.read, [unchecked && this.texts.unchecked, read].filter(Boolean).join(" · "));
    this.drawRows(runs, total);
    this.pager.hidden = pages === 1;
    VRThinker.say(this.place, `Page ${number(page)} of ${number(pages)}`);
    this.steps.forEach((step, place) => step.setAttribute("aria-disabled", String(place < 2 ? page === 1 : page === pages)));
  }

  drawRows(runs, total) {
    const key = JSON.stringify([runs, total > 0]);
    if (this.drawn === key) return;
    this.drawn = key;
    const { activeElement } = document;
    const focused = this.list.contains(activeElement) && activeElement.closest("li").dataset.run;
    const none = total ? [VRThinker.element("li", "vrt-none", this.texts.none)] : [];
    this.list.replaceChildren(...(runs.length ? runs.map((run) => this.row(run)) : none));
    this.picked.update(runs);
    this.mark((VRThinker.trace || {}).address);
    const again = focused && this.list.querySelector(`[data-run="${CSS.escape(focused)}"] ${activeElement.tagName}`);
    if (again) again.focus({ preventScroll: true });
  }

  row(run) {
    const { element, RunRow } = VRThinker;
    const item = element("li");
    item.dataset.run = run.name;
    const text = element("div", "vrt-row-text");
    const prompt = run.prompt || this.texts.noPrompt;
    const title = run.opens ? VRThinker.button("vrt-open-row", null, () => VRThinker.openRow(run.name)) : element("span", "vrt-row-title");
    const said = element("span", "", prompt);
    said.dir = "auto";
    title.append(element("span", "vrt-row-number", String(run.row)), said);
    text.append(title);
    for (const [kind, line] of [["source", run.source], ["facts", RunRow.facts(run)], ["error", run.error]]) {
      if (line) text.append(element("span", `vrt-row-${kind}`, line));
    }
    const labels = RunRow.labels(run, this.texts);
    item.append(this.picked.box(run), text, ...(labels ? [labels] : []));
    return item;
  }

  /** Which row is shown in the viewer. */
  mark(address) {
    for (const button of this.list.querySelectorAll(".vrt-open-row")) {
      const shown = button.closest("li").dataset.run === address;
      if (shown) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
  }
};

/** Gradio makes it when its tab is opened for the first time. */
VRThinker.mountRuns = (root) => {
  VRThinker.runsList = new VRThinker.RunsList(root, VRThinker.runTexts);
};
