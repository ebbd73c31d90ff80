/* Which judge compares the next videos: the chip beside Compare, and the dialog behind it. */
VRThinker.LOOK_AGAIN = 1000; // ms between two looks at what is being downloaded or loaded

/* One judge of the dialog: what it is, and one button. */
VRThinker.JudgeRow = class {
  /** `send` tells the server what was pressed. */
  constructor(id, words, send) {
    this.words = words;
    this.title = element("h4");
    this.facts = element("ul", "vrt-judge-facts");
    this.note = element("p", "vrt-judge-note");
    this.said = element("p", { class: "vrt-judge-refused", role: "alert", tabindex: "-1" });
    this.bar = element("progress", { max: 1 });
    this.button = button("vrt-judge-use", null, () => send({ act: this.row.act, id }));
    const parts = [this.title, this.facts, this.note, this.said, this.bar];
    this.node = element("li", "", element("div", "vrt-judge-about", parts), this.button);
  }

  update(row) {
    const { bar, button: use, words } = this;
    this.row = row;
    say(this.title, row.title);
    fill(this.facts, row.facts, (facts) => facts.map((fact) => element("li", "", fact)));
    say(this.note, row.note);
    bar.hidden = row.share === null;
    Object.assign(bar, { value: row.share ?? 0, ariaLabel: row.title });
    say(use, row.chosen ? words.chosen : row.label);
    use.ariaLabel = `${use.textContent}: ${row.title}`;
    use.hidden = !row.act;
    this.node.classList.toggle("chosen", row.chosen);
  }
};

/* The form for a host: its models and the visitor's key. What is typed stays until it worked. */
VRThinker.HostForm = class {
  constructor(words, send) {
    Object.assign(this, { words, send });
    const field = (name, node) => element("label", "vrt-field", element("span", "", name), node);
    const typed = { autocomplete: "off", spellcheck: "false" };
    this.host = element("select");
    this.models = element("select");
    this.model = element("input", { type: "text", placeholder: words.modelHelp, ...typed });
    this.key = element("input", { type: "password", ...typed });
    this.modelField = field(words.model, [this.models, this.model]);
    this.keyField = field(words.key, this.key);
    this.try = button("", words.try, () => this.ask({ act: "list" }));
    this.forget = button("vrt-pill", words.forget, () => this.ask({ act: "forget" }));
    this.use = button("vrt-judge-use", words.use, () => this.ask({ act: "key" }));
    this.cost = element("span", "vrt-judge-cost");
    this.help = element("p", "vrt-judge-note");
    this.said = element("p", { class: "vrt-judge-refused", role: "alert", tabindex: "-1" });
    const fields = [field(words.host, this.host), this.modelField, this.keyField];
    const foot = element("p", "vrt-judge-foot", this.try, this.cost, this.forget, this.use);
    this.node = element("div", "vrt-judge-key", fields, foot, this.said, this.help);
    this.host.addEventListener("change", () => {
      this.key.value = "";
      this.wanted = this.host.value;
      this.send({ act: "list", id: this.wanted });
    });
    this.models.addEventListener("change", () => this.draw());
    this.key.addEventListener("input", () => this.draw());
    this.key.addEventListener("keydown", ({ key }) => key === "Enter" && this.ask({ act: "list" }));
  }

  ask(act) {
    const { model, models, key, told } = this;
    const chosen = models.hidden ? model.value : models.value;
    this.send({ id: told.kind, model: chosen, key: key.value, ...act });
  }

  update(told) {
    const isLate = this.wanted && this.wanted !== told.kind; // an answer to what was asked before
    if (isLate) return this.send({ act: "list", id: this.wanted });
    this.wanted = "";
    const fresh = this.told?.kind !== told.kind || this.told.models.length !== told.models.length;
    this.told = told;
    fill(this.host, told.list, (list) => list.map(([id, name]) => new Option(name, id)));
    fill(this.models, told.models, (models) => models.map(([id]) => new Option(id)));
    this.host.value = told.kind;
    if (fresh && told.model) this.models.value = told.model;
    fill(this.help, [told.held, told.kind], () => this.helped(told));
    this.draw();
  }

  /** What a person must know of the key. */
  helped({ held, tried, keys, seen }) {
    const { words } = this;
    const [href] = keys.split(",");
    const look = { href, target: "_blank", rel: "noopener noreferrer" };
    const at = ` ${words.keysAt} `;
    if (held) return [element("b", "vrt-works", tried ? words.held : words.untried), " ", seen];
    if (!isSecureContext) return [seen, " ", words.unsafe];
    const where = href && [at, element("a", look, href), `${keys.slice(href.length)}.`];
    return [seen, " ", words.keyHelp, where];
  }

  draw() {
    const { told, models, model, key } = this;
    const isListed = told.models.length > 0;
    models.hidden = !isListed;
    model.hidden = isListed;
    this.modelField.hidden = !isListed && !told.listed;
    this.keyField.hidden = !isSecureContext;
    this.try.hidden = !isSecureContext || (told.held && !key.value);
    this.try.disabled = !key.value;
    this.forget.hidden = !told.held;
    this.use.hidden = !(told.held || (key.value && told.listed));
    say(this.cost, told.models.find(([id]) => id === models.value)?.[1] ?? "");
  }
};

VRThinker.JudgeChooser = class {
  rows = new Map();
  at = -Infinity; // when the newest answer was made

  /** `trigger` asks the server what is offered ("click"), or tells it what was pressed. */
  constructor(root, words, trigger) {
    Object.assign(this, { words, trigger });
    const opens = { class: "vrt-judge-chip", "aria-haspopup": "dialog" };
    opens["aria-describedby"] = "vrt-judge-limits"; // below Compare
    this.name = element("span");
    const arrow = element("span", { "aria-hidden": "true" }, "▾");
    root.classList.add("vrt");
    root.append(button(opens, [this.name, arrow], () => this.open()));
    this.said = element("p", { class: "vrt-judge-said", role: "status" });
    const close = button({ "aria-label": words.close }, "✕", () => this.node.close());
    const title = element("h2", { id: "vrt-judges" }, words.title);
    const head = element("header", "", title, close, this.said);
    const dialog = { class: "vrt vrt-judges", "aria-labelledby": "vrt-judges" };
    this.form = new VRThinker.HostForm(words, (act) => this.send(act));
    this.ready = element("ul");
    this.none = element("p", "vrt-judge-note", words.noneReady);
    this.gpu = element("ul");
    this.demo = element("ul");
    const fold = (name, ...parts) => element("details", "", element("summary", "", name), parts);
    const code = (text) => (text.includes("\n") ? element("code", "", text) : text);
    const way = ([name, text]) => [element("dt", "", name), element("dd", "", code(text))];
    this.hosts = section("h3", words.hosts, this.form.node);
    const ways = element("dl", "vrt-judge-ways", words.ways.flatMap(way));
    this.needs = fold(words.gpu, element("p", "vrt-judge-note", words.gpuHelp), this.gpu);
    this.node = element("dialog", dialog, head,
      section("h3", words.ready, this.ready, this.none), this.hosts,
      (this.ways = fold(words.none, element("p", "vrt-judge-note", words.waysHelp), ways)),
      this.needs, section("h3", words.demo, this.demo));
    this.node.addEventListener("click", ({ target }) => target === this.node && this.node.close());
    this.node.addEventListener("close", () => clearTimeout(this.timer));
  }

  /** `isTaken`: the page chooses by itself, so nothing is compared yet and an open list stays. */
  send(act, isTaken = false) {
    this.isTaken = isTaken;
    say(this.said, this.words.asking);
    for (const { said } of [this.form, ...this.rows.values()]) say(said, "");
    this.trigger("submit", act);
  }

  /** Look for what can judge, without the dialog. */
  look() {
    this.trigger("click", { again: false });
  }

  /** `then(name)`: what happens with the judge that was chosen. */
  open(then = VRThinker.compareSoon) {
    Object.assign(this, { then, asked: false });
    say(this.said, this.words.asking);
    VRThinker.showDialog(this.node);
    this.look();
  }

  /** The server says what the chip shows, or with `ready` what the dialog does, too. */
  update({ title, state, speaks, ready, hosts, gpu, demo, near, busy, answer, done, at }) {
    const { node, words } = this;
    const name = words.judge.replace("{}", () => title);
    say(this.name, state ? `${name}, ${state}` : name);
    this.name.title = this.name.textContent;
    Object.assign(this, { title, speaks });
    VRThinker.inputs.draw();
    if (!ready) return;
    if (at > this.at) this.draw(ready, hosts, gpu, demo, near); // else it comes late
    this.at = Math.max(at, this.at);
    if (answer) this.answered(answer, hosts);
    if (hosts && !hosts.listed && node.open && !this.asked) {
      this.asked = true;
      this.trigger("submit", { act: "list", id: hosts.kind });
    }
    clearTimeout(this.timer);
    if (done) {
      if (!hosts?.chosen) VRThinker.remember("judge", done); // one with a key is this page's alone
      VRThinker.outside = null; // until the server says so of this judge, too
      if (!this.isTaken) {
        node.close();
        (this.then ?? VRThinker.compareSoon)(done);
        this.then = null;
      }
    }
    const look = () => this.trigger("click", { again: true });
    if (busy && node.open) this.timer = setTimeout(look, VRThinker.LOOK_AGAIN);
  }

  /** A refusal stands where it was caused, with the focus, until something else is pressed. */
  answered({ id, said }, hosts) {
    const place = id === hosts?.kind ? this.form : this.rows.get(id);
    if (said && place) {
      say(place.said, said);
      place.said.focus();
    } else if (place === this.form && hosts.held) {
      place.key.value = ""; // from here on it is nowhere on the page
      place.draw();
    }
  }

  draw(ready, hosts, gpu, demo, near) {
    const { words, form } = this;
    this.near = ready.find(({ id }) => id === near);
    say(this.said, VRThinker.outside || "");
    const row = (told) => {
      const { id } = told;
      const kept = this.rows.get(id) ?? new VRThinker.JudgeRow(id, words, (act) => this.send(act));
      this.rows.set(id, kept);
      kept.update(told);
      return kept.node;
    };
    for (const [list, told] of [[this.ready, ready], [this.gpu, gpu], [this.demo, demo]]) {
      const nodes = told.map(row); // each keeps its focus as long as the list is the same
      fill(list, told.map(({ id }) => id), () => nodes);
    }
    this.none.hidden = ready.length > 0;
    this.ways.open ||= !ready.length;
    this.needs.hidden = !gpu.length;
    this.hosts.hidden = !hosts;
    if (hosts) form.update(hosts);
    document.dispatchEvent(new Event("vrt:judges"));
  }
};

VRThinker.chooseJudge = (then) => VRThinker.chooser.open(then);

/** A judge that was chosen compares at once, if both videos are there and no run goes on. */
VRThinker.compareSoon = () => {
  const go = document.getElementById("go");
  const arePair = document.querySelectorAll("#players video").length === 2;
  if (!arePair || !go.checkVisibility()) return;
  go.focus();
  setTimeout(() => go.click()); // Gradio has the judge's name by then
};

VRThinker.mountChooser = (root, props, watch, words, trigger) => {
  const chooser = new VRThinker.JudgeChooser(root, words, trigger);
  const draw = () => chooser.update(props.value);
  VRThinker.chooser = chooser;
  watch("value", draw);
  draw();
};

/** The name of the judge that Compare sends; a run that is opened may bring another one. */
VRThinker.mountJudge = (watch, trigger) => watch("value", () => trigger("select"));
