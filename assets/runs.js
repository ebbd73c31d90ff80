/* What is chosen of the runs of a folder, which the list shows and the bar steps through. */
VRThinker.runChoice = {
  only: new Set(), // kinds of which a row must be
  search: "",
  sort: "row",
  page: 1,

  /** Any other choice begins at its first page. */
  change(values) {
    Object.assign(this, { page: 1, ...values });
    document.dispatchEvent(new CustomEvent("vrt:choice"));
  },

  toggle(kind) {
    if (!this.only.delete(kind)) this.only.add(kind);
    this.change({});
  },

  /** The list, or one row with its neighbours. */
  ask(row = "") {
    const { search, sort, page } = this;
    const query = new URLSearchParams({ only: [...this.only].join(","), search, sort, page });
    return VRThinker.askServer(`evaluation${row && `/${encodeURIComponent(row)}`}?${query}`);
  },
};

/** Show a row's run. Its bar is asked for at once: coming later, it would push the run down. */
VRThinker.openRow = (name) => {
  VRThinker.runChoice.coming = { name, answer: VRThinker.runChoice.ask(name) };
  VRThinker.address.choose(`trace=${name}`);
};

/* One row of the runs of a folder, in the list and above the viewer. */
VRThinker.RunRow = {
  /** The table of the judge's labels beside the data set's and people's; nothing without any. */
  labels(run, texts) {
    const known = ["data_set", "people"].filter((who) => run[who].some((label) => label !== null));
    if (!known.length && !run.judge.length) return [];
    if (!known.length) known.push("people"); // who said nothing
    const abbr = ([key, title]) => element("abbr", { title }, key);
    const heads = texts.dimensions.map((each) => element("th", { scope: "col" }, abbr(each)));
    const rows = ["judge", ...known].map((who) => {
      const others = who === "judge" ? known : ["judge"];
      const cells = texts.dimensions.map(([key]) => this.cell(run, key, who, others, texts));
      return element("tr", "", element("th", { scope: "row" }, texts[who]), cells);
    });
    return [element("table", "vrt-row-labels", element("tr", "", element("td"), heads), rows)];
  },

  cell(run, key, who, others, texts) {
    const place = ["TA", "MQ", "VQ", "OA"].indexOf(key); // as the server sends the labels
    const labelOf = (other) => run[other][place] ?? null;
    const label = labelOf(who);
    const differsFrom = (other) => label !== null && ![null, label].includes(labelOf(other));
    const unknown = who === "judge" && run.flips.includes(key) ? texts.flips : "–";
    const cell = element("td", label ? `vrt-v${label}` : "", ["tie", "1", "2"][label] ?? unknown);
    cell.classList.toggle("vrt-label-differs", others.some(differsFrom));
    if (who === "judge" && label !== null && labelOf("data_set") !== null) {
      const [name, mark] = differsFrom("data_set") ? [texts.wrong, "✗"] : [texts.right, "✓"];
      const look = { class: "vrt-label-mark", role: "img", "aria-label": name };
      cell.append(" ", element("span", look, mark));
    }
    return cell;
  },

  facts({ judge, data_set, confidence, probability, turns, ending, order }) {
    const known = judge.length && data_set.filter((label) => label !== null).length;
    const right = judge.filter((label, place) => label !== null && label === data_set[place]);
    return [
      known && `${right.length} of ${known} labels right`,
      confidence !== null && `confidence ${confidence} of 5 (concat)`,
      probability !== null && `probability ${probability.toFixed(2)}`,
      turns && `${turns} ${turns === 1 ? "turn" : "turns"}`,
      ending,
      order,
    ].filter(Boolean).join(" · ");
  },
};

VRThinker.MOST_PICKED = 4;

/* Two rows or more side by side: a column each, the same turn of all of them at the same height. */
VRThinker.SideBySide = class {
  constructor(texts) {
    const close = () => this.node.close();
    const column = () => new VRThinker.RunColumn(texts, close);
    this.columns = Array.from({ length: VRThinker.MOST_PICKED }, column); // they listen to the page
    const named = { "aria-labelledby": "vrt-side-title" };
    const title = { class: "vrt-side-title", id: "vrt-side-title" };
    this.prompt = element("p", { class: "vrt-side-prompt", dir: "auto" });
    const away = button({ "aria-label": texts.close }, "✕", close);
    const head = element("header", "", element("p", title, texts.sideBySide), this.prompt, away);
    this.scroll = element("div", { class: "vrt-columns", role: "group", tabindex: 0, ...named });
    this.node = element("dialog", { class: "vrt vrt-side-by-side", ...named }, head, this.scroll);
    window.addEventListener("popstate", close);
  }

  /** Show these rows. On closing, what had the focus has it again. */
  async open(runs) {
    const prompts = new Set(runs.map((run) => run.prompt));
    say(this.prompt, prompts.size === 1 ? runs[0].prompt : "");
    const columns = this.columns.slice(0, runs.length);
    this.scroll.replaceChildren(...columns.map((column) => column.node));
    this.scroll.style.setProperty("--turns", "1");
    VRThinker.showDialog(this.node);
    this.scroll.scrollTo(0, 0);
    this.scroll.focus({ preventScroll: true });
    const shown = columns.map((column, place) => column.show(runs[place], prompts.size > 1));
    this.scroll.style.setProperty("--turns", Math.max(1, ...(await Promise.all(shown))));
  }
};

/** One row: what it is, its labels, and its turns. */
VRThinker.RunColumn = class {
  constructor(texts, close) {
    this.texts = texts;
    this.name = element("h2");
    this.alone = button("", texts.alone, () => {
      close();
      VRThinker.openRow(this.run.name);
    });
    this.source = element("p");
    this.labels = element("div");
    this.lines = element("div");
    this.said = element("p", { class: "vrt-column-said", role: "status" });
    const open = (tile, node, turn) => {
      this.tiles.ring(node);
      const detail = { tile, node, turn, other: this.view };
      document.dispatchEvent(new CustomEvent("vrt:look", { detail }));
    };
    this.turns = new VRThinker.TurnList({ open }, "vrt-turns", "");
    const head = element("header", "", this.name, this.alone, this.source, this.labels);
    const about = element("div", "vrt-column-about", this.lines, this.said);
    this.node = element("section", "vrt-column", head, about, this.turns.node);
    const find = (tile) => this.tiles.find(tile).scrollIntoView({ block: "nearest" });
    this.tiles = new VRThinker.Tiles(this.node, find);
  }

  /** Read the row and draw it, unless it is to show another by then; gives the number of turns. */
  async show(run, ownPrompt) {
    const name = `Row ${run.row}`;
    const address = `evaluation/${encodeURIComponent(run.name)}/view.json`;
    this.run = run;
    this.view = { turns: [], noLarger: this.texts.noLarger };
    for (const part of [this.labels, this.lines]) part.replaceChildren();
    this.turns.update({}, []); // "Vote first" may hide some of it by now
    say(this.name, name);
    this.node.ariaLabel = name;
    this.alone.ariaLabel = `${this.texts.alone}: ${name}`;
    this.turns.node.ariaLabel = `Turns of ${name}`;
    say(this.source, run.source);
    say(this.said, this.texts.loading);
    const [answer, trouble] = await VRThinker.askServer(address);
    if (this.run === run && answer) this.draw(answer, ownPrompt);
    else if (this.run === run) say(this.said, trouble);
    return this.view.turns.length;
  }

  draw({ run, view, said }, ownPrompt) {
    const { RunRow } = VRThinker;
    this.labels.replaceChildren(...RunRow.labels(run, this.texts));
    const lines = [ownPrompt && run.prompt, view.judge, RunRow.facts(run)].filter(Boolean);
    this.lines.replaceChildren(...lines.map((line) => element("p", "", line)));
    say(this.said, [said, view.ending].filter(Boolean).join(" "));
    // How sure the judge was stands in the state: help would have one name in all columns.
    const state = (turn) => [turn.state, turn.confidence[0]].filter(Boolean).join(" · ");
    this.view.turns = view.turns.map((turn) => ({ ...turn, state: state(turn), confidence: [] }));
    this.turns.update({ run: run.name }, this.view.turns);
    this.tiles.markLinks();
  }
};

/* The rows that a person picks in the list, to see them side by side. */
VRThinker.PickedRows = class {
  /** `list` holds the rows of one page; those picked on other pages stay picked. */
  constructor(list, texts) {
    Object.assign(this, { list, texts });
    this.shown = []; // rows of the page
    this.rows = new Map(); // by name, in the order in which they were picked
    this.dialog = new VRThinker.SideBySide(texts);
    this.said = element("span", { role: "status" });
    this.go = button("vrt-start", texts.sideBySide, () => this.open());
    this.alike = button("", null, () => this.pickAlike());
    const none = button("", texts.clear, () => this.clear());
    this.node = group("vrt-picked", texts.sideBySide, this.said, this.go, this.alike, none);
    this.draw();
  }

  /** The check box of a row; a place of the same size for one that has no trace. */
  box(run) {
    const box = element("input", { type: "checkbox", "aria-keyshortcuts": "Enter" });
    box.ariaLabel = this.texts.pick.replace("{}", run.row);
    box.addEventListener("change", () => this.pick(run, box.checked));
    box.addEventListener("keydown", ({ key }) => key === "Enter" && this.open());
    return element("label", "vrt-pick", run.opens && box);
  }

  update(runs) {
    this.shown = runs.filter((run) => run.opens);
    for (const run of this.shown) if (this.rows.has(run.name)) this.rows.set(run.name, run);
    this.draw();
  }

  pick(run, on) {
    const full = on && this.rows.size === VRThinker.MOST_PICKED;
    if (!on) this.rows.delete(run.name);
    else if (!full) this.rows.set(run.name, run);
    this.draw(full);
  }

  get ofPrompt() {
    const last = [...this.rows.values()].at(-1);
    return this.shown.filter((run) => run.prompt === last?.prompt);
  }

  /** All of them, or as many as can be picked, evenly from the first to the last. */
  pickAlike() {
    const all = this.ofPrompt;
    const count = Math.min(all.length, VRThinker.MOST_PICKED);
    const evenly = (_, place) => all[Math.round((place * (all.length - 1)) / (count - 1))];
    this.rows = new Map(Array.from({ length: count }, evenly).map((run) => [run.name, run]));
    this.draw();
  }

  clear() {
    const box = this.list.querySelector("input:checked") ?? this.list.querySelector("input");
    this.rows.clear();
    this.draw();
    box?.focus();
  }

  draw(full = false) {
    const { rows, texts } = this;
    const most = VRThinker.MOST_PICKED;
    const count = this.ofPrompt.length;
    const some = texts.someOfPrompt.replace("{}", most).replace("{}", count);
    const picked = full ? texts.mostPicked : texts.picked;
    this.node.hidden = rows.size === 0;
    say(this.said, rows.size ? picked.replace("{}", rows.size).replace("{}", most) : "");
    this.go.ariaDisabled = rows.size < 2;
    this.alike.hidden = count < 2;
    say(this.alike, count > most ? some : texts.allOfPrompt.replace("{}", count));
    for (const item of this.list.querySelectorAll("li:has(input)")) {
      item.querySelector("input").checked = rows.has(item.dataset.run);
    }
  }

  open() {
    const runs = [...this.rows.values()].sort((one, other) => one.row - other.row);
    if (runs.length > 1) this.dialog.open(runs);
  }
};

/* The runs of a folder: filters, a search, one page of rows, each of which opens its run. */
VRThinker.FolderList = class extends VRThinker.RunList {
  constructor(root, texts) {
    const { runChoice } = VRThinker;
    const list = element("ol", { class: "vrt-rows", "aria-label": "Rows" });
    const said = element("p", "vrt-row-said");
    super(root, list, said, texts, () => runChoice.ask());
    this.choice = runChoice;
    this.summary = element("p", { role: "status" });
    this.when = element("span", "vrt-row-read");
    this.picked = new VRThinker.PickedRows(list, texts);
    const line = element("div", "vrt-row-line", this.summary, this.when);
    const step = (name, page) => button("", name, () => this.turn(page()));
    const back = [step(texts.first, () => 1), step(texts.previous, () => runChoice.page - 1)];
    const on = [step(texts.next, () => runChoice.page + 1), step(texts.last, () => this.pages)];
    const pages = { class: "vrt-row-pages", "aria-label": "Pages", hidden: "" };
    this.steps = { back, on };
    this.place = element("span");
    this.pager = element("nav", pages, back, this.place, on);
    root.classList.add("vrt", "vrt-evaluation");
    root.replaceChildren(this.buildFilters(), this.buildControls(), line, said);
    root.append(list, this.picked.node, this.pager);
    document.addEventListener("vrt:choice", () => this.load());
    document.addEventListener("vrt:trace", () => this.mark());
  }

  buildFilters() {
    this.filters = this.texts.kinds.map(([kind, name, title]) => {
      const toggle = () => (this.isOld || chip.ariaDisabled !== "true") && this.choice.toggle(kind);
      const count = element("span", "vrt-row-count");
      const look = { class: "vrt-row-filter", title };
      const chip = button(look, [element("span", "", name), count], toggle);
      return { kind, chip, count };
    });
    return group("vrt-row-filters", this.texts.filters, this.filters.map(({ chip }) => chip));
  }

  buildControls() {
    const { choice, texts } = this;
    const search = element("input", { type: "search", maxlength: 200, placeholder: texts.search });
    const sorts = texts.sorts.map(([kind, name]) => new Option(name, kind));
    const sort = element("select", "", sorts);
    search.oninput = () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => choice.change({ search: search.value }), 250);
    };
    sort.onchange = () => choice.change({ sort: sort.value });
    [search.ariaLabel, sort.ariaLabel] = [texts.search, texts.sort];
    const fields = [search, sort].map((field) => element("div", "vrt-field", field));
    const refresh = button("", texts.refresh, () => this.load());
    return element("div", "vrt-row-controls", fields, refresh);
  }

  turn(page) {
    if (page < 1 || page > this.pages || page === this.choice.page) return;
    this.choice.change({ page });
    this.root.scrollIntoView({ block: "start" });
  }

  /** The list is read again while the server still reads the folder. */
  pause(answer) {
    return answer?.reading && 1500;
  }

  draw({ runs, total, matching, page, pages, unchecked, counts, said, reading }) {
    const { steps, texts } = this;
    const number = (value) => value.toLocaleString("en");
    this.choice.page = page;
    Object.assign(this, { pages, isOld: false });
    // Nothing is `disabled` here, which would take the focus away from the keys.
    for (const { kind, chip, count } of this.filters) {
      chip.ariaPressed = this.choice.only.has(kind);
      chip.ariaDisabled = !this.choice.only.has(kind) && counts[kind] === 0;
      say(count, number(counts[kind]));
    }
    const all = `${number(total)} ${total === 1 ? "row" : "rows"}`;
    say(this.summary, matching === total ? all : `${number(matching)} of ${all}`);
    say(this.said, [reading && texts.reading, said].filter(Boolean).join(" "));
    const read = texts.read.replace("{}", new Date().toLocaleTimeString());
    say(this.when, [unchecked && texts.unchecked, read].filter(Boolean).join(" · "));
    if (this.drawRows(runs, total > 0, total && texts.none)) this.picked.update(runs);
    this.mark();
    this.pager.hidden = pages === 1;
    say(this.place, `Page ${number(page)} of ${number(pages)}`);
    for (const step of steps.back) step.ariaDisabled = page === 1;
    for (const step of steps.on) step.ariaDisabled = page === pages;
  }

  row(run) {
    const { name, opens, prompt, row, source, error } = run;
    const named = [
      element("span", "vrt-row-number", String(row)),
      element("span", { dir: "auto" }, prompt || this.texts.noPrompt),
    ];
    const title = opens
      ? button("vrt-open-row", named, () => VRThinker.openRow(name))
      : element("span", "vrt-row-title", named);
    const lines = Object.entries({ source, facts: VRThinker.RunRow.facts(run), error });
    const line = ([kind, told]) => told && element("span", `vrt-row-${kind}`, told);
    const text = element("div", "vrt-row-text", title, lines.map(line));
    const picture = (side) => {
      const src = `previews/${encodeURIComponent(name)}/${side}.jpg`;
      const image = element("img", { alt: "", loading: "lazy", src });
      image.onerror = () => image.removeAttribute("src");
      return image;
    };
    const media = element("span", "vrt-row-media", opens && [1, 2].map(picture));
    const labels = VRThinker.RunRow.labels(run, this.texts);
    return element("li", { "data-run": name }, this.picked.box(run), media, text, labels);
  }

  mark() {
    for (const open of this.list.querySelectorAll(".vrt-open-row")) {
      open.ariaCurrent = open.closest("li").dataset.run === VRThinker.trace.address ? "true" : null;
    }
  }

  /** Who comes back sees the row that is shown. Every filter can be pressed until counts come. */
  load() {
    this.isOld = true;
    const isBack = !this.seen && this.find(VRThinker.trace.address);
    this.seen = this.root.checkVisibility();
    if (isBack && this.seen) isBack.scrollIntoView({ block: "nearest" });
    super.load();
  }
};

/** Gradio makes it when its tab is opened for the first time. */
VRThinker.mountRuns = (root) => new VRThinker.FolderList(root, VRThinker.runTexts);

/* Above the viewer, while it shows a row of the list: its labels, and the rows before and after. */
VRThinker.mountRunBar = (root, texts) => {
  const line = element("p", "vrt-row-place");
  const labels = element("div");
  let key = "";
  let shown = null; // the name of the row, and the run of this page that shows it
  let answer = null; // what the server said of that row
  const step = (where, ...words) => {
    const open = () => answer?.[where] && VRThinker.openRow(answer[where]);
    return button({ "aria-label": texts[`${where}Row`] }, words, open);
  };
  const previous = step("previous", "‹", element("span", "", ` ${texts.previous}`));
  const next = step("next", element("span", "", `${texts.next} `), "›");
  const load = async () => {
    const asked = shown;
    const { runChoice } = VRThinker;
    if (!asked) return;
    const { name, answer: early } = runChoice.coming ?? {};
    runChoice.coming = null;
    const [told] = await (name === asked.name ? early : runChoice.ask(asked.name));
    if (shown !== asked) return;
    root.hidden = !told;
    if (!told) return;
    answer = told;
    const places = `${told.place.toLocaleString("en")} of ${told.matching.toLocaleString("en")}`;
    const parts = [`Row ${told.run.row}`, places, told.run.source];
    say(line, parts.filter(Boolean).join(" · "));
    labels.replaceChildren(...VRThinker.RunRow.labels(told.run, texts));
    previous.ariaDisabled = !told.previous;
    next.ariaDisabled = !told.next;
  };
  /** A row that was voted on, or checked, is the visitor's own run by then, and still that row. */
  const show = ({ run, address = "", ballot }) => {
    const now = `${run} ${address} ${Boolean(ballot?.hidden)}`;
    if (key === now) return;
    key = now;
    if (address.startsWith("row-")) shown = { run, name: address };
    else if (shown?.run !== run) shown = null;
    labels.hidden = Boolean(ballot?.hidden);
    if (!shown) root.hidden = true;
    load();
  };
  VRThinker.runTexts = texts;
  root.classList.add("vrt", "vrt-run-bar");
  root.replaceChildren(line, labels, element("div", "vrt-row-steps", previous, next));
  root.hidden = true;
  document.addEventListener("vrt:trace", ({ detail }) => show(detail));
  document.addEventListener("vrt:choice", load);
};
