/* What is chosen of the runs of a folder: filters, a search, an order, a page. The list shows it, and the bar steps through it. */
VRThinker.RunChoice = class {
  constructor() {
    this.only = new Set();
    this.search = "";
    this.sort = "row";
    this.page = 1;
  }

  /** Any other choice begins at its first page. */
  change(values) {
    Object.assign(this, { page: 1, ...values });
    document.dispatchEvent(new CustomEvent("vrt:choice"));
  }

  toggle(kind) {
    const only = new Set(this.only);
    if (!only.delete(kind)) only.add(kind);
    this.change({ only });
  }

  get query() {
    return new URLSearchParams({ only: [...this.only].join(","), search: this.search, sort: this.sort, page: this.page });
  }

  /** The list, or one row with its neighbours. Raises a sentence. */
  ask(name, texts) {
    return VRThinker.askRuns(`${name && `/${encodeURIComponent(name)}`}?${this.query}`, texts);
  }
};

/** What the server says to that path below `evaluation`. Raises a sentence. */
VRThinker.askRuns = async (path, texts) => {
  const answer = await fetch(`evaluation${path}`).catch(() => null);
  if (!answer) throw texts.unreachable;
  if (!answer.ok) throw answer.status === 400 || answer.status === 404 ? await answer.text() : texts.unreachable;
  return answer.json();
};

VRThinker.runChoice = new VRThinker.RunChoice();

VRThinker.openRow = (name) => VRThinker.address.choose(`trace=${name}`);

/* One row of the runs of a folder, in the list and above the viewer. */
VRThinker.RunRow = {
  LABELS: ["tie", "1", "2"],
  KNOWN: ["data_set", "people"],

  /** The judge's labels beside the data set's and people's; null where there are none. */
  labels(run, texts) {
    const { element } = VRThinker;
    const known = this.KNOWN.filter((who) => run[who].some((label) => label !== null));
    if (!known.length && !run.judge.length) return null;
    if (!known.length) known.push("people"); // who said nothing
    const table = element("table", "vrt-row-labels");
    const head = element("tr");
    const columns = texts.dimensions.map(([key]) => key);
    head.append(element("td"), ...texts.dimensions.map(([key, name]) => this.column(key, name)));
    table.append(head);
    const judge = this.by(run.judge);
    const others = known.map((who) => [who, this.by(run[who])]);
    const truth = this.by(run.data_set);
    for (const [who, said] of [["judge", judge], ...others]) {
      const row = element("tr");
      const name = element("th", "", texts[who]);
      const compared = who === "judge" ? others.map(([, other]) => other) : [judge];
      name.scope = "row";
      const unknown = (key) => (who === "judge" && run.flips.includes(key) ? texts.flips : "–");
      const differs = (key) => compared.some((other) => this.differ(said[key], other[key]));
      row.append(name, ...columns.map((key) => this.cell(said[key], differs(key), unknown(key))));
      if (who === "judge") columns.forEach((key, place) => this.mark(row.children[place + 1], judge[key], truth[key], texts));
      table.append(row);
    }
    return table;
  },

  column(key, name) {
    const cell = VRThinker.element("th");
    const short = VRThinker.element("abbr", "", key);
    short.title = name;
    cell.scope = "col";
    cell.append(short);
    return cell;
  },

  by(labels) {
    return Object.fromEntries(["TA", "MQ", "VQ", "OA"].map((key, place) => [key, labels[place]]));
  },

  differ(one, other) {
    return Number.isInteger(one) && Number.isInteger(other) && one !== other;
  },

  cell(label, differs, unknown) {
    const text = this.LABELS[label] || unknown;
    return VRThinker.element("td", `${label ? `vrt-v${label}` : ""} ${differs ? "vrt-label-differs" : ""}`.trim(), text);
  },

  mark(cell, label, truth, texts) {
    if (!Number.isInteger(label) || !Number.isInteger(truth)) return;
    const right = label === truth;
    const mark = VRThinker.element("span", "vrt-label-mark", right ? "✓" : "✗");
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", right ? texts.right : texts.wrong);
    cell.append(" ", mark);
  },

  facts(run) {
    const parts = [];
    const known = run.judge.length ? run.data_set.filter((label) => label !== null).length : 0;
    const right = run.judge.filter((label, place) => label !== null && label === run.data_set[place]).length;
    if (known) parts.push(`${right} of ${known} labels right`);
    if (run.confidence !== null) parts.push(`confidence ${run.confidence} of 5 (concat)`);
    if (run.probability !== null) parts.push(`probability ${run.probability.toFixed(2)}`);
    if (run.turns) parts.push(`${run.turns} ${run.turns === 1 ? "turn" : "turns"}`);
    if (run.ending) parts.push(run.ending);
    if (run.order) parts.push(run.order);
    return parts.join(" · ");
  },
};

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

/* The rows that a person picks in the list, to see them side by side. */
VRThinker.MOST_PICKED = 4;

VRThinker.PickedRows = class {
  /** `list` holds the rows of one page; those picked on other pages stay picked. */
  constructor(list, texts) {
    const { element, button } = VRThinker;
    this.list = list;
    this.texts = texts;
    this.shown = []; // rows of the page
    this.rows = new Map(); // by name, in the order in which they were picked
    this.dialog = new VRThinker.SideBySide(texts);
    this.said = element("span");
    this.said.setAttribute("role", "status");
    this.go = button("vrt-start", texts.sideBySide, () => this.open());
    this.alike = button("", null, () => this.pickAlike());
    this.none = button("", texts.clear, () => this.clear());
    this.node = element("div", "vrt-picked");
    this.node.setAttribute("role", "group");
    this.node.setAttribute("aria-label", texts.sideBySide);
    this.node.append(this.said, this.go, this.alike, this.none);
    this.draw();
  }

  /** The check box of a row; a place of the same size for one that has no trace. */
  box(run) {
    const { element } = VRThinker;
    const around = element("label", "vrt-pick");
    if (!run.opens) return around;
    const box = element("input");
    box.type = "checkbox";
    box.setAttribute("aria-label", this.texts.pick.replace("{}", run.row));
    box.setAttribute("aria-keyshortcuts", "Enter");
    box.addEventListener("change", () => this.pick(run, box));
    box.addEventListener("keydown", (event) => event.key === "Enter" && this.open());
    around.append(box);
    return around;
  }

  update(runs) {
    this.shown = runs.filter((run) => run.opens);
    for (const run of this.shown) if (this.rows.has(run.name)) this.rows.set(run.name, run);
    this.draw();
  }

  pick(run, box) {
    const full = box.checked && this.rows.size === VRThinker.MOST_PICKED;
    if (!box.checked) this.rows.delete(run.name);
    else if (!full) this.rows.set(run.name, run);
    this.draw(full);
  }

  get ofPrompt() {
    const last = [...this.rows.values()].at(-1);
    return last ? this.shown.filter((run) => run.prompt === last.prompt) : [];
  }

  /** All of them, or as many as can be picked, evenly from the first to the last. */
  pickAlike() {
    const { MOST_PICKED } = VRThinker;
    const all = this.ofPrompt;
    const few = (_, place) => all[Math.round((place * (all.length - 1)) / (MOST_PICKED - 1))];
    const runs = all.length > MOST_PICKED ? Array.from({ length: MOST_PICKED }, few) : all;
    this.rows = new Map(runs.map((run) => [run.name, run]));
    this.draw();
  }

  clear() {
    const box = this.list.querySelector("input:checked") || this.list.querySelector("input");
    this.rows.clear();
    this.draw();
    if (box) box.focus();
  }

  draw(full = false) {
    const { MOST_PICKED } = VRThinker;
    const { size } = this.rows;
    const alike = this.ofPrompt.length;
    const words = full ? this.texts.mostPicked.replace("{}", size) : this.texts.picked.replace("{}", size).replace("{}", MOST_PICKED);
    this.node.hidden = size === 0;
    VRThinker.say(this.said, size ? words : "");
    this.go.setAttribute("aria-disabled", String(size < 2));
    this.alike.hidden = alike < 2;
    const some = this.texts.someOfPrompt.replace("{}", MOST_PICKED).replace("{}", alike);
    VRThinker.say(this.alike, alike > MOST_PICKED ? some : this.texts.allOfPrompt.replace("{}", alike));
    for (const box of this.list.querySelectorAll("input")) box.checked = this.rows.has(box.closest("li").dataset.run);
  }

  open() {
    const runs = [...this.rows.values()].sort((one, other) => one.row - other.row);
    if (runs.length > 1) this.dialog.open(runs);
  }
};

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
