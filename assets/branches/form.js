/* "What if": a small form on a turn's card, which asks for a branch of the run that is shown. */
VRThinker.BranchForm = class {
  /** `data` as `ui/branches/branch_form.py` gives it; `start` sends the form's values. */
  constructor(data, start) {
    const { element } = VRThinker;
    this.words = data.words;
    this.start = start;
    this.node = element("form", "vrt-whatif");
    this.node.setAttribute("aria-label", this.words.open.replace("…", ""));
    this.turn = this.input("turn", "number");
    this.frames = this.input("frames", "text");
    this.frames.maxLength = 8 * data.maxFrames;
    this.take = VRThinker.button("", this.words.take, () => this.toggleTaking());
    this.noTool = this.input("noTool", "checkbox");
    this.window = this.select("window", [[this.words.same, ""], ...data.windows]);
    this.judge = this.select("judge", [[this.words.same, ""], ...data.judges.map((name) => [name, name])]);
    this.prompt = element("textarea");
    this.prompt.rows = 2;
    this.prompt.maxLength = data.maxPrompt;
    this.build();
    this.node.addEventListener("submit", (event) => this.submit(event));
    this.node.addEventListener("input", () => this.fit());
    this.node.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
      event.stopPropagation(); // what is typed here moves no player
    });
    document.addEventListener("pointerup", (event) => event.target.closest("#rail .vrt-track") && this.addMoment());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target.closest("#rail .vrt-track")) this.addMoment();
    });
    document.addEventListener("click", (event) => {
      const mark = event.target.closest("#rail .vrt-mark");
      if (mark) this.add(mark.dataset.frames);
    });
  }

  build() {
    const { element } = VRThinker;
    const { words } = this;
    this.framesHelp = element("small", "", words.framesHelp);
    this.promptHelp = element("small", "", words.promptLater);
    this.said = element("p", "vrt-whatif-said");
    this.said.setAttribute("role", "alert");
    const send = element("button", "vrt-start", words.start);
    send.type = "submit";
    const foot = element("div", "vrt-whatif-foot");
    foot.append(send, VRThinker.button("", words.close, () => this.close()));
    const taken = element("span", "vrt-take");
    taken.append(this.frames, this.take);
    this.node.append(
      this.label(words.turn, this.turn, element("small", "", words.turnHelp)),
      this.label(words.frames, taken, this.framesHelp),
      this.label(words.noTool, this.noTool),
      this.label(words.window, this.window),
      this.label(words.judge, this.judge),
      this.label(words.prompt, this.prompt, this.promptHelp),
      this.said,
      foot,
    );
  }

  input(name, type) {
    const input = VRThinker.element("input");
    input.type = type;
    input.name = name;
    input.autocomplete = "off";
    return input;
  }

  select(name, choices) {
    const select = VRThinker.element("select");
    select.name = name;
    select.append(...choices.map(([text, value]) => new Option(text, value)));
    return select;
  }

  /** A field with its name and help. A field within others, like that of the frames, is named by itself. */
  label(text, field, help = null) {
    const { element } = VRThinker;
    const box = field.type === "checkbox";
    const label = element(field === this.frames.parentNode ? "div" : "label", box ? "vrt-field vrt-tick" : "vrt-field");
    if (label.tagName === "DIV") this.frames.setAttribute("aria-label", text);
    const name = element("span", "", text);
    label.append(...(box ? [field, name] : [name, field]), ...(help ? [help] : []));
    return label;
  }

  /** Open on a card, for its turn. */
  open(card, turn, trace, judge = null) {
    this.opener = document.activeElement;
    this.count = trace.turns.length;
    this.turn.min = 1;
    this.turn.max = this.count + 1;
    this.turn.value = turn;
    this.frames.value = "";
    this.noTool.checked = false;
    this.window.value = "";
    this.judge.value = judge || "";
    this.prompt.value = trace.prompt || "";
    this.judged = this.prompt.value;
    this.setTaking(false);
    this.say("");
    card.append(this.node);
    this.fit();
    (judge === null ? this.turn : this.judge).focus();
  }

  close() {
    this.setTaking(false);
    this.node.remove();
    if (this.opener && this.opener.isConnected) this.opener.focus();
  }

  say(sentence) {
    this.said.hidden = !sentence;
    VRThinker.say(this.said, sentence);
  }

  /** What the first turn cannot have, or only it: said before anything is sent. */
  fit() {
    const first = Number(this.turn.value) <= 1;
    const { words } = this;
    this.frames.disabled = this.take.disabled = first;
    if (first) this.setTaking(false);
    VRThinker.say(this.framesHelp, first ? words.framesFirst : this.taking ? words.taking : words.framesHelp);
    this.prompt.disabled = !first;
    this.promptHelp.hidden = first;
  }

  submit(event) {
    event.preventDefault();
    const first = Number(this.turn.value) <= 1;
    this.setTaking(false);
    this.say("");
    const prompt = first && this.prompt.value !== this.judged ? this.prompt.value : null;
    this.start({
      turn: Number(this.turn.value),
      frames: first ? "" : this.frames.value,
      no_tool: this.noTool.checked,
      window: this.window.value,
      judge: this.judge.value,
      prompt,
    });
  }

  toggleTaking() {
    this.setTaking(!this.taking);
    this.fit();
  }

  setTaking(on) {
    this.taking = on;
    this.take.setAttribute("aria-pressed", String(on));
  }

  /** The frames of the moment that both players show. */
  addMoment() {
    if (VRThinker.rail) this.add(VRThinker.rail.numbers());
  }

  add(numbers) {
    if (!this.taking || !this.node.isConnected) return;
    const chosen = this.frames.value.match(/\d+/g) || [];
    this.frames.value = [...new Set([...chosen, ...(numbers.match(/\d+/g) || [])])].join(", ");
  }
};
