VRThinker.Save = class {
  constructor(root) {
    const { element } = VRThinker;
    root.classList.add("vrt", "vrt-save");
    this.trace = this.download("Trace (.json)", "trace.json");
    this.report = this.download("Report (.html)", "report.html");
    this.copy = VRThinker.button("", "Copy link", () => this.share());
    this.link = element("input", "vrt-link");
    this.link.readOnly = true;
    this.link.hidden = true;
    this.link.setAttribute("aria-label", "Link to this run");
    this.said = element("p", "vrt-said");
    this.said.setAttribute("role", "status");
    const row = element("div", "vrt-takes");
    row.append(this.trace, this.report, this.copy, this.link);
    root.replaceChildren(row, this.said);
    this.update(VRThinker.trace);
    document.addEventListener("vrt:trace", (event) => this.update(event.detail));
  }

  download(text, file) {
    const anchor = VRThinker.element("a", "", text);
    anchor.setAttribute("role", "link"); // also without an address
    anchor.setAttribute("download", `vr-thinker-${file}`);
    anchor.dataset.file = file;
    return anchor;
  }

  update(trace) {
    const hidden = Boolean(trace && trace.ballot && trace.ballot.hidden); // what is saved holds the verdict
    const run = trace && trace.over && trace.run && !hidden ? trace.run : null;
    const wait = hidden ? "Vote first: a saved run tells its verdict." : "A run can be saved once it has ended.";
    if (this.run === run && this.wait === wait && this.link.isConnected) return;
    this.run = run;
    this.wait = wait;
    for (const anchor of [this.trace, this.report]) {
      if (run) anchor.href = `runs/${run}/${anchor.dataset.file}`;
      else anchor.removeAttribute("href");
      anchor.setAttribute("aria-disabled", String(!run));
    }
    this.copy.disabled = !run;
    this.link.hidden = true;
    VRThinker.say(this.said, run ? "" : wait);
  }

  async share() {
    const run = this.run;
    const answer = await fetch(`runs/${run}/link`, { method: "POST" }).catch(() => null);
    if (this.run !== run) return;
    if (!answer || !answer.ok) {
      VRThinker.say(this.said, answer ? await answer.text() : "The server did not answer. Try again.");
      return;
    }
    const { trace } = await answer.json();
    this.link.value = `${location.origin}${location.pathname}?trace=${encodeURIComponent(trace)}`;
    this.link.hidden = false;
    VRThinker.address.name(trace);
    VRThinker.say(this.said, (await this.toClipboard()) ? "Copied. The link shows this run as long as the server keeps it." : "Copy the link from the field.");
  }

  /** Browsers allow it only on safe origins; elsewhere the link stands ready to be copied by hand. */
  async toClipboard() {
    this.link.select();
    try {
      await navigator.clipboard.writeText(this.link.value);
      return true;
    } catch {
      return false;
    }
  }
};

/* What has the focus because a pointer pressed it, and not because keys led there: Space is not meant for it. The browser's own
`:focus-visible` does not tell, for it holds from the moment when any key is pressed. */
VRThinker.PointerFocus = class {
  constructor() {
    this.pressed = null;
    document.addEventListener("pointerdown", ({ target }) => { this.pressed = target.closest(VRThinker.PRESSED_BY_SPACE); }, true);
    document.addEventListener("focusin", ({ target }) => { if (target !== this.pressed) this.pressed = null; }, true);
  }

  /** One button takes the place of another. The focus goes along where keys had brought it. */
  pass(from, to) {
    if (from === this.pressed) from.blur();
    else to.focus({ preventScroll: true });
  }
};

VRThinker.MOST_ASKED = 10_000; // milliseconds for which the server may owe an answer to Compare before it can be pressed again
VRThinker.DOUBLE_CLICK = 300; // milliseconds within which a second tap belongs to the first

/** Each run has a number, and what is said of an earlier one comes too late. */
VRThinker.Buttons = class {
  /** `sayUploading()`: Compare was pressed while videos are on their way. */
  constructor(root, sayUploading) {
    this.place = root.closest("#ask");
    this.sayUploading = sayUploading;
    this.number = 0;
    this.running = false;
    this.asked = -Infinity; // when Compare was pressed, until the server has answered
    this.clicked = { time: -Infinity }; // the button that a pointer pressed last, and when
  }

  /** For the server: which run's Stop is pressed. A late answer has left another value in Gradio's hands. */
  shown() {
    return { number: this.number, running: this.running };
  }

  show({ number, running }) {
    this.asked = -Infinity;
    const late = number < this.number || (number === this.number && !this.running);
    if (late) return;
    const focused = document.activeElement;
    this.number = number;
    this.running = running;
    this.place.classList.toggle("vrt-running", running);
    document.dispatchEvent(new CustomEvent("vrt:running"));
    // They take each other's place.
    const left = focused && focused.id === (running ? "go" : "stop");
    if (left) VRThinker.pointerFocus.pass(focused, document.getElementById(running ? "stop" : "go"));
  }

  onClick(event) {
    const button = event.target.closest("#go, #stop");
    if (!button) return;
    const counts = !this.isSecond(button, event) && (button.id === "stop" || this.mayCompare(event.timeStamp));
    if (!counts) event.stopImmediatePropagation();
  }

  /**
   * The second click of a double click, by which the other button may have come under the pointer. Browsers count the clicks of a
   * mouse, whatever lies there, but not always the taps of a finger; keys and scripts make none.
   */
  isSecond(button, { detail, pointerType, timeStamp }) {
    if (!detail) return false;
    const { clicked } = this;
    const soon = pointerType !== "mouse" && button !== clicked.button && timeStamp - clicked.time < VRThinker.DOUBLE_CLICK;
    if (detail > 1 || soon) return true;
    this.clicked = { button, time: timeStamp };
    return false;
  }

  /** Gradio would take each press of Compare for one more run, and put off all of them until the videos have arrived. */
  mayCompare(now) {
    if (VRThinker.uploads.going) {
      this.sayUploading();
      return false;
    }
    if (now - this.asked < VRThinker.MOST_ASKED) return false;
    this.asked = now;
    return true;
  }
};

/* What ties the page together: where each part lives, and the keys. */
VRThinker.PLAYERS = ["#first video", "#second video"];

VRThinker.KEYS = {
  " ": "play",
  ArrowLeft: "earlier",
  ArrowRight: "later",
  ",": "back",
  ".": "forth",
  Home: "start",
  End: "end",
};

VRThinker.PRESSED_BY_SPACE = "button, [role=button], a, summary, label";

/** The rail under the players. `trigger` tells the server. */
VRThinker.mountRail = (root, trigger) => {
  let rail = null;
  const stills = new VRThinker.Stills(VRThinker.PLAYER_PARTS, () => players.pause());
  const players = new VRThinker.Players(VRThinker.PLAYERS, () => rail && rail.draw(), stills.sides);
  rail = new VRThinker.Rail(root, players, () => trigger("click", { act: "swap" }));
  VRThinker.rail = rail;
  root.prepend(stills.sentence);
  document.addEventListener("vrt:trace", ({ detail }) => {
    rail.mark(detail);
    if (stills.update(detail || {})) players.seek(0);
  });
  document.addEventListener("vrt:light", (event) => rail.light(event.detail));
  document.addEventListener("vrt:tile", (event) => rail.show(event.detail));
  document.addEventListener("loadedmetadata", () => rail.again(), true);
  document.addEventListener("seeked", () => rail.draw(), true);
  document.addEventListener("keydown", (event) => VRThinker.onKey(event, rail));
};

/** Keys move the players unless they are meant for what has the focus. */
VRThinker.onKey = (event, rail) => {
  const action = VRThinker.KEYS[event.key];
  const target = event.target;
  if (!action || event.ctrlKey || event.metaKey || event.altKey || !rail.players.ready) return;
  const busy = target.closest("input, textarea, select, [contenteditable=true], [role=listbox], [role=option]");
  const space = event.key === " ";
  const button = target.closest(space ? VRThinker.PRESSED_BY_SPACE : "[role=tab]");
  // What a pointer pressed, or shows a frame, has done what it does.
  const done = space && button && (button === VRThinker.pointerFocus.pressed || button.matches(".vrt-mark, .vrt-ref, [aria-current=true]"));
  if (busy || (button && !done)) return;
  event.preventDefault();
  rail.act(action);
};

/** The turns. `props` and `watch` are what Gradio gives to the component. */
VRThinker.mountTrace = (root, props, watch, introduction, [check, dimensions], trigger) => {
  let follow = null;
  let banner = {};
  const view = new VRThinker.Trace(root, {
    empty: VRThinker.intro(introduction),
    onTile: VRThinker.showTile,
    check: [...check, () => trigger("click", { act: "check" })],
    vote: [dimensions, (act, vote) => trigger("submit", { act, vote, run: view.data.run })],
    following: () => follow.on && !VRThinker.closer.isOpen, // what a person looks at closely stays
    onShow: () => draw(),
  });
  follow = new VRThinker.Follow(root);
  const anchor = new VRThinker.ScrollAnchor(root);
  const draw = () => {
    let value = props.value || {};
    if (value.introduction) {
      banner = value;
      // Who comes is told who judges; that may arrive after a run that they opened at once, and must not take its place.
      if ((VRThinker.trace || {}).run) return;
    } else if (!value.run && !value.ending) value = banner;
    if (!follow.on && value.run === (VRThinker.trace || {}).run) anchor.hold();
    view.update(value);
    VRThinker.trace = value;
    VRThinker.shown = view.shown;
    document.dispatchEvent(new CustomEvent("vrt:trace", { detail: view.shown }));
    follow.update(view.shown);
  };
  watch("value", draw);
  draw();
};

VRThinker.mountFrames = (root, empty) => {
  const frames = new VRThinker.Frames(root, empty, VRThinker.showTile);
  const draw = () => root.checkVisibility() && frames.update(VRThinker.shown); // a tab that is not open costs nothing
  document.addEventListener("vrt:trace", draw);
  new IntersectionObserver(draw).observe(root);
  draw();
};

VRThinker.mountTranscript = (root, props, watch) => {
  const view = new VRThinker.Transcript(root);
  const draw = () => view.update(props.value);
  watch("value", draw);
  draw();
};

/** Who judges: of a run that is shown its own judge, else the one that was chosen, known once that has been loaded. */
VRThinker.mountHead = (root, props, watch) => {
  VRThinker.announcer = new VRThinker.Announcer();
  const line = root.querySelector(".vrt-judge");
  const draw = () => VRThinker.say(line, (VRThinker.trace || {}).judge || props.value || "");
  watch("value", draw);
  document.addEventListener("vrt:trace", draw);
  draw();
};

VRThinker.mountButtons = (root, props, watch, trigger) => {
  VRThinker.buttons = new VRThinker.Buttons(root, () => trigger("click"));
  watch("value", () => VRThinker.buttons.show(props.value));
};

VRThinker.mountSave = (root) => new VRThinker.Save(root);

/** Saved runs that lie ready, and all other ways to a run that the server has. */
VRThinker.mountExamples = (root, props, trigger) => {
  const examples = new VRThinker.Examples(root, (name) => VRThinker.address.choose(`trace=${name}`));
  VRThinker.openRun = (name) => {
    const { kept, over } = VRThinker.trace || {};
    const followed = kept === name && !over && VRThinker.address.asked === null;
    VRThinker.selectTraceTab(); // of a run that goes on, too, with which Compare leaves the tab as it is
    if (!followed) VRThinker.address.choose(`run=${name}`); // else it is shown as it goes already
  };
  VRThinker.address.ask = (kind, name, lost) => trigger("click", kind === "run" ? { run: name } : { example: name, lost });
  examples.draw(props.value || []);
};

VRThinker.pointerFocus = new VRThinker.PointerFocus();
VRThinker.address = new VRThinker.Address();
VRThinker.inputs = new VRThinker.Inputs();
VRThinker.stopBar = new VRThinker.StopBar();
VRThinker.closer = new VRThinker.Closer();
VRThinker.uploads = new VRThinker.Uploads();
document.addEventListener("click", (event) => VRThinker.buttons && VRThinker.buttons.onClick(event), true);
