/* Which judge compares the next videos: the chip beside Compare, and the dialog behind it. */
VRThinker.LOOK_AGAIN = 1000; // ms between two looks at what is being downloaded or loaded

/* One judge of the dialog, or one host with fields for model and key. */
VRThinker.JudgeRow = class {
  /** `send` tells the server what was pressed, and what was typed. */
  constructor(id, words, send) {
    Object.assign(this, { id, words, send });
    this.title = element("h4");
    this.facts = element("ul", "vrt-judge-facts");
    this.note = element("p", "vrt-judge-note");
    this.bar = element("progress", { max: 1 });
    this.button = button("vrt-judge-use", null, () => this.press());
    this.fields = element("div", { class: "vrt-judge-key", hidden: "" });
    const enter = ({ key, target }) => key === "Enter" && target.matches("input") && this.press();
    this.fields.addEventListener("keydown", enter);
    const about = element("div", "vrt-judge-about", this.title, this.facts, this.note, this.bar);
    this.node = element("li", "", about, this.button, this.fields);
  }

  update(row) {
    const { bar, button, words } = this;
    const isHost = row.act === "key";
    this.row = row;
    say(this.title, row.title);
    fill(this.facts, row.facts, (facts) => facts.map((fact) => element("li", "", fact)));
    fill(this.note, row.note ? [row.note] : [], (note) => note);
    bar.hidden = row.share === null;
    Object.assign(bar, { value: row.share ?? 0, ariaLabel: row.title });
    say(button, row.chosen && !isHost ? words.chosen : row.label);
    button.ariaLabel = `${button.textContent}: ${row.title}`;
    button.hidden = !row.act || (isHost && !row.model && !isSecureContext);
    this.node.classList.toggle("chosen", row.chosen);
    if (isHost) fill(this.fields, [row.model], () => this.buildFields(row));
  }

  /** The fields of a host. What is typed in them stays as long as its key is the same. */
  buildFields({ title, keys_at: keysAt, model: held }) {
    const { words, send, id } = this;
    const field = (name, type, placeholder = "") => {
      const named = { "aria-label": `${name}, ${title}`, autocomplete: "off", spellcheck: "false" };
      const input = element("input", { type, placeholder, ...named });
      return [input, element("label", "vrt-field", element("span", "", name), input)];
    };
    const [model, modelField] = field(words.model, "text", words.modelHelp);
    const [key, keyField] = field(words.key, "password");
    const look = { "aria-label": `${words.forget}, ${title}` };
    const forget = button(look, words.forget, () => send({ act: "forget", id }));
    const [href] = keysAt.split(",");
    const link = element("a", { href, target: "_blank", rel: "noopener noreferrer" }, href);
    const where = [words.keyHelp, " ", words.keysAt, " ", link, keysAt.slice(href.length), "."];
    const note = (...told) => element("p", "vrt-judge-note", told);
    model.value = held || this.model?.value || "";
    Object.assign(this, { model, key });
    if (held) return [modelField, forget, note(words.held)];
    return isSecureContext ? [modelField, keyField, note(...where)] : [note(words.unsafe)];
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

  /** `trigger` asks the server what is offered ("click"), or tells it what was pressed. */
  constructor(root, words, trigger) {
    Object.assign(this, { words, trigger });
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
    const dialog = { class: "vrt vrt-judges", "aria-labelledby": "vrt-judges" };
    this.node = element("dialog", dialog, head, this.said, this.groups);
    this.node.addEventListener("keydown", (event) => event.stopPropagation()); // moves no player
    this.node.addEventListener("click", ({ target }) => target === this.node && this.node.close());
    this.node.addEventListener("close", () => clearTimeout(this.timer));
  }

  /** `told`: why a judge is to be chosen; `then()`: it was. */
  open(told = "", then = null) {
    Object.assign(this, { told, then, offered: true });
    // Gradio narrows the media queries of a page's style sheet to what stands here.
    document.querySelector(".gradio-container .contain").append(this.node);
    this.say(this.words.asking);
    this.node.showModal(); // on closing, what had the focus has it again
    this.trigger("click", { again: false });
  }

  say(sentence) {
    say(this.said, sentence);
  }

  /** The server says what the chip shows, or with `groups` what the dialog does, too. */
  update({ title, state, groups, busy, said, done }) {
    const { node, words } = this;
    const name = words.judge.replace("{}", () => title);
    say(this.name, state ? `${name}, ${state}` : name);
    this.name.title = this.name.textContent;
    if (!groups) return;
    const waits = this.said.textContent === words.asking; // else what stands there was not read yet
    if (said || waits) this.say(said || this.told);
    this.draw(groups);
    clearTimeout(this.timer);
    if (done && node.open) {
      node.close();
      this.then?.();
    }
    const look = () => this.trigger("click", { again: true });
    if (busy && node.open) this.timer = setTimeout(look, VRThinker.LOOK_AGAIN);
  }

  /** A row that was there is kept: the focus, and what is being typed in it, stay. */
  draw(groups) {
    const rows = new Map();
    const send = (act) => {
      this.say(this.words.asking);
      this.trigger("submit", act);
    };
    const list = ({ title, rows: offered }) =>
      offered.map((row) => {
        const key = `${title} ${row.id}`;
        rows.set(key, this.rows.get(key) ?? new VRThinker.JudgeRow(row.id, this.words, send));
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

/** Let another judge be chosen: then Compare has the focus, and is pressed at once if asked to. */
VRThinker.chooseJudge = (compares = false, told = "") =>
  VRThinker.chooser.open(told, () => {
    const go = document.getElementById("go");
    go.focus();
    if (compares) setTimeout(() => go.click()); // Gradio has the judge's name by then
  });

VRThinker.mountChooser = (root, props, watch, words, trigger) => {
  const chooser = new VRThinker.JudgeChooser(root, words, trigger);
  const draw = () => chooser.update(props.value);
  VRThinker.chooser = chooser;
  watch("value", draw);
  draw();
};

/** The name of the judge that Compare sends; a run that is opened may bring another one. */
VRThinker.mountJudge = (watch, trigger) => watch("value", () => trigger("select"));
