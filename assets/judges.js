/* Which judge compares the next videos: the chip beside Compare, and the dialog behind it. */
VRThinker.LOOK_AGAIN = 1000; // ms between two looks at what is being downloaded or loaded

/* One judge of the dialog, or one host with fields for model and key. */
VRThinker.JudgeRow = class {
  /** `send` tells the server what was pressed, and what was typed. */
  constructor(id, words, send) {
    const { button, element } = VRThinker;
    Object.assign(this, { id, words, send });
    this.title = element("h4");
    this.facts = element("ul", "vrt-judge-facts");
    this.note = element("p", "vrt-judge-note");
    this.bar = element("progress", { max: 1 });
    this.button = button("vrt-judge-use", null, () => this.press());
    this.fields = element("div", "vrt-judge-key");
    const about = element("div", "vrt-judge-about", this.title, this.facts, this.note, this.bar);
    this.node = element("li", "", about, this.button, this.fields);
  }

  /** The fields of a host: made once, as what is being typed stays. */
  build({ title, keys_at: keysAt }) {
    const { button, element } = VRThinker;
    const { words, send, id } = this;
    const field = (name, type) => {
      const input = element("input", { type, autocomplete: "off", spellcheck: "false" });
      input.ariaLabel = `${name}, ${title}`;
      return [input, element("label", "vrt-field", element("span", "", name), input)];
    };
    const [model, modelField] = field(words.model, "text");
    const [key, keyField] = field(words.key, "password");
    model.placeholder = words.modelHelp;
    const [href] = keysAt.split(",");
    const link = element("a", { href, target: "_blank", rel: "noopener noreferrer" }, href);
    const where = element("span", "", " ", words.keysAt, " ", link, keysAt.slice(href.length), ".");
    const help = element("span");
    const forget = button("", words.forget, () => send({ act: "forget", id }));
    forget.ariaLabel = `${words.forget}, ${title}`;
    Object.assign(this, { model, modelField, key, keyField, where, help, forget });
    const enter = (event) => event.key === "Enter" && event.target.matches("input") && this.press();
    this.fields.addEventListener("keydown", enter);
    const note = element("p", "vrt-judge-note", help, where);
    this.fields.append(modelField, keyField, forget, note);
  }

  update(row) {
    const { element, fill, say } = VRThinker;
    const { bar, button, fields, words } = this;
    const isHost = row.act === "key";
    this.row = row;
    say(this.title, row.title);
    fill(this.facts, row.facts, (facts) => facts.map((fact) => element("li", "", fact)));
    say(this.note, row.note);
    this.note.hidden = !row.note;
    bar.hidden = row.share === null;
    Object.assign(bar, { value: row.share ?? 0, ariaLabel: row.title });
    say(button, row.chosen && !isHost ? words.chosen : row.label);
    button.ariaLabel = `${button.textContent}: ${row.title}`;
    button.hidden = !row.act || (isHost && !row.model && !isSecureContext);
    this.node.classList.toggle("chosen", row.chosen);
    fields.hidden = !isHost;
    if (isHost) this.updateFields(row);
  }

  updateFields(row) {
    if (!this.model) this.build(row);
    const { forget, help, keyField, model, modelField, where, words } = this;
    const held = Boolean(row.model);
    if (held && model !== document.activeElement) model.value = row.model;
    keyField.hidden = where.hidden = held || !isSecureContext;
    modelField.hidden = !held && !isSecureContext;
    forget.hidden = !held;
    const typed = isSecureContext ? words.keyHelp : words.unsafe;
    VRThinker.say(help, held ? words.held : typed);
  }

  press() {
    const { id, row } = this;
    if (row.act !== "key") return this.send({ act: row.act, id });
    const typed = { model: this.model.value, key: this.key.value };
    this.key.value = ""; // from here on it is nowhere on the page
    return this.send({ act: "key", id, ...typed });
  }
};

VRThinker.JudgeChooser = class {
  rows = new Map();
  done = 0; // how often a judge was chosen

  /** `look(again)` asks the server what is offered; `send` tells it what was pressed. */
  constructor(root, words, look, send) {
    const { button, element } = VRThinker;
    Object.assign(this, { words, look, send });
    const opens = { class: "vrt-judge-chip", "aria-haspopup": "dialog" };
    opens["aria-describedby"] = "vrt-judge-limits"; // below Compare
    this.name = element("span");
    const arrow = element("span", { "aria-hidden": "true" }, "▾");
    root.classList.add("vrt");
    root.append(button(opens, [this.name, arrow], () => this.open()));
    this.groups = element("div", "vrt-judge-groups");
    this.said = element("p", { class: "vrt-judge-said", role: "alert" });
    const close = button({ "aria-label": words.close }, "✕", () => this.node.close());
    const head = element("header", "", element("h2", { id: "vrt-judges" }, words.title), close);
    const look_ = { class: "vrt vrt-judges", "aria-labelledby": "vrt-judges" };
    this.node = element("dialog", look_, head, this.said, this.groups);
    this.node.addEventListener("keydown", (event) => event.stopPropagation()); // moves no player
    this.node.addEventListener("click", ({ target }) => target === this.node && this.node.close());
    this.node.addEventListener("close", () => clearTimeout(this.timer));
    document.addEventListener("vrt:choosejudge", () => this.open());
  }

  open() {
    if (this.node.open) return;
    // Gradio narrows the media queries of a page's style sheet to what stands here.
    document.querySelector(".gradio-container .contain").append(this.node);
    this.say(this.words.asking);
    this.node.showModal(); // on closing, what had the focus has it again
    this.look(false);
  }

  press(act) {
    this.say(this.words.asking);
    this.send(act);
  }

  say(sentence) {
    VRThinker.say(this.said, sentence);
  }

  /** The server says what the chip shows, or with `groups` what the dialog does, too. */
  update({ title, state, groups, busy, said, done = 0 }) {
    const { node, words } = this;
    const name = words.judge.replace("{}", () => title);
    VRThinker.say(this.name, state ? `${name}, ${state}` : name);
    this.name.title = this.name.textContent;
    if (!groups) return;
    this.say(said);
    this.draw(groups);
    clearTimeout(this.timer);
    if (done > this.done) node.close();
    this.done = Math.max(done, this.done);
    if (busy && node.open) this.timer = setTimeout(() => this.look(true), VRThinker.LOOK_AGAIN);
  }

  /** A row that was there is kept: the focus, and what is being typed in it, stay. */
  draw(groups) {
    const { element, fill } = VRThinker;
    const rows = new Map();
    const list = ({ title, rows: offered }) =>
      offered.map((row) => {
        const key = `${title} ${row.id}`;
        const press = (act) => this.press(act);
        rows.set(key, this.rows.get(key) ?? new VRThinker.JudgeRow(row.id, this.words, press));
        rows.get(key).update(row);
        return rows.get(key).node;
      });
    const lists = groups.map(list);
    const section = ({ title, note }, place) => element("section", "",
      element("h3", "", title), element("ul", "", lists[place]),
      note && element("p", "vrt-judge-note", note));
    this.rows = rows;
    const { activeElement } = document;
    const shape = groups.map(({ title, note }) => [title, note]);
    if (!fill(this.groups, [shape, [...rows.keys()]], () => groups.map(section))) return;
    if (this.node.open && activeElement.isConnected) activeElement.focus({ preventScroll: true });
    else if (this.node.open) this.node.querySelector("header button").focus();
  }
};

VRThinker.mountChooser = (root, props, watch, words, trigger) => {
  const look = (again) => trigger("click", { again });
  const chooser = new VRThinker.JudgeChooser(root, words, look, (act) => trigger("submit", act));
  const draw = () => chooser.update(props.value);
  VRThinker.chooser = chooser;
  watch("value", draw);
  draw();
};

/** The name of the judge that Compare sends; a run that is opened may bring another one. */
VRThinker.mountJudge = (watch, trigger) => watch("value", () => trigger("select"));
