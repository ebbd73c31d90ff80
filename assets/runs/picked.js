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

  /** The list shows these rows now. */
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

  /** Rows of the page with the prompt of the one that was picked last. */
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
