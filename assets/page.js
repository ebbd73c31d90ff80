/* What ties the page together: what is saved and pressed, where each part lives, and the keys. */
VRThinker.trace = {}; // what the server says of the run
VRThinker.shown = {}; // the same, in the order of the sides that is shown

/* What one may take along of a run that has ended: a menu beside its headline. */
VRThinker.Share = class {
  constructor() {
    const download = ([text, file]) =>
      element("a", { download: `vr-thinker-${file}`, "data-file": file }, text);
    this.downloads = [["Save picture", "picture.png"], ["Report, one file", "report.html"],
      ["Trace (JSON)", "trace.json"]].map(download);
    for (const each of this.downloads) each.addEventListener("click", () => this.close());
    const [save, report, trace] = this.downloads;
    this.picture = button("", "Copy picture", () => this.copyPicture());
    // Only of safe origins, and not in each browser
    this.picture.hidden = !(navigator.clipboard?.write && window.ClipboardItem);
    this.save = save;
    const copy = button("", "Copy link", () => this.share());
    const field = (ariaLabel) => {
      const node = make("input", { className: "vrt-link", readOnly: true, ariaLabel });
      node.addEventListener("focus", () => node.select());
      return node;
    };
    this.link = field("Link to this run");
    this.frame = field(null); // The label around it names it
    this.embed = element("label", "", "Report in a page of yours", this.frame);
    this.found = element("div", { class: "vrt-found", hidden: "" }, this.link, this.embed);
    this.said = element("p", { class: "vrt-said", role: "status" });
    const ways = [this.picture, save, report, copy, this.found, this.said, trace];
    this.node = element("details", "vrt-send", element("summary", "", "Share"),
      element("div", "", ways));
    this.node.addEventListener("keydown", ({ key }) => key === "Escape" && this.close(true));
    document.addEventListener("click", ({ target }) => this.node.contains(target) || this.close());
    document.addEventListener("vrt:trace", ({ detail }) => this.update(detail));
    this.update({});
  }

  close(focus = false) {
    this.node.open = false;
    if (focus) this.node.firstChild.focus();
  }

  /** What is saved holds the verdict, so there is no menu before a vote that hides it. */
  update({ run: shown, over, ballot }) {
    const run = over && !ballot?.hidden ? shown : undefined;
    this.node.hidden = !run;
    if (this.run === run) return;
    this.run = run;
    for (const link of this.downloads) link.href = `runs/${run}/${link.dataset.file}`;
    if (document.body.classList.contains("dark")) this.save.href += "?theme=dark";
    this.found.hidden = true;
    say(this.said, "");
    this.close();
  }

  async copyPicture() {
    const asked = fetch(this.save.href, { cache: "no-cache" });
    const picture = asked.then((answer) => (answer.ok ? answer.blob() : Promise.reject(answer)));
    say(this.said, "One moment.");
    const item = new ClipboardItem({ "image/png": picture }); // at once: a browser asks for a press
    const isCopied = await navigator.clipboard.write([item]).then(() => true, () => false);
    say(this.said, isCopied ? "Picture copied." : "It could not be copied: save it.");
  }

  async share() {
    const { run } = this;
    const tell = (text) => say(this.said, text);
    const [answer, trouble] = await VRThinker.askServer(`runs/${run}/link`, "POST");
    if (this.run !== run) return;
    if (!answer) return tell(trouble);
    const name = encodeURIComponent(answer.trace);
    const here = `${location.origin}${location.pathname}`;
    this.link.value = `${here}?trace=${name}`;
    const src = `${here}reports/${name}.html`;
    this.frame.value = `<iframe src="${src}" title="Report" width="100%" height="800"></iframe>`;
    this.found.hidden = false;
    this.link.focus();
    VRThinker.address.name(`trace=${answer.trace}`);
    const isCopied = await VRThinker.copy(this.link.value);
    const isLocal = /^(localhost|.*\.localhost|127\..*|\[::1\])$/.test(location.hostname);
    this.embed.hidden = isLocal;
    tell([
      isCopied ? "Link copied." : "Copy the link from the field.",
      isLocal ? "It opens on this computer only." : "",
      "Whoever has it sees videos, prompt and all turns, as long as the server keeps the run.",
    ].filter(Boolean).join(" "));
  }
};

VRThinker.PRESSED_BY_SPACE = "button, [role=button], a, summary, label";

/* What has the focus because a pointer pressed it: Space is not meant for it. `:focus-visible` does
not tell, as it holds from the moment when any key is pressed. */
VRThinker.PointerFocus = class {
  constructor() {
    const on = (name, listener) => document.addEventListener(name, listener, true);
    on("pointerdown", ({ target }) => (this.pressed = target.closest(VRThinker.PRESSED_BY_SPACE)));
    on("focusin", ({ target }) => (this.pressed = target === this.pressed ? target : null));
  }

  /** Compare or Stop takes a button's place; the focus goes along where keys had brought it. */
  pass(from) {
    if (from === this.pressed) return from.blur();
    const { running } = VRThinker.buttons;
    document.getElementById(running ? "stop" : "go").focus({ preventScroll: true });
  }
};

VRThinker.MOST_ASKED = 10_000; // ms until Compare can be pressed again if the server is silent
VRThinker.DOUBLE_CLICK = 300; // ms within which a second tap belongs to the first

/** Compare and Stop. Each run has a number, and what is said of an earlier one comes too late. */
VRThinker.Buttons = class {
  number = 0;
  running = false;
  asked = -Infinity; // when Compare was pressed, until the server has answered
  clicked = { time: -Infinity }; // the button that a pointer pressed last, and when

  /** `sayUploading()`: Compare was pressed while videos come; `follow()`: a run has been begun. */
  constructor(sayUploading, follow) {
    Object.assign(this, { sayUploading, follow });
  }

  /** Which run's Stop is pressed: after a late answer Gradio holds another number. */
  shown() {
    return { number: this.number, running: this.running };
  }

  show({ number, running, faults, again }) {
    const wasPressed = this.asked > -Infinity;
    this.asked = -Infinity;
    if (faults || number > this.number) VRThinker.faults.show(faults, wasPressed);
    if (number < this.number || (number === this.number && !this.running)) return;
    const focused = document.activeElement;
    const begun = running && number > this.number;
    Object.assign(this, { number, running });
    if (begun) this.follow();
    const goesOn = () => this.running && this.number === number && this.follow();
    if (again) setTimeout(goesOn, 1000 * again);
    document.getElementById("ask").classList.toggle("vrt-running", running);
    document.dispatchEvent(new CustomEvent("vrt:running"));
    if (focused?.id === (running ? "go" : "stop")) VRThinker.pointerFocus.pass(focused);
  }

  onClick(event) {
    const button = event.target.closest("#go, #stop");
    if (!button) return;
    const mayPress = () => button.id === "stop" || this.mayCompare(event.timeStamp);
    if (this.isSecond(button, event) || !mayPress()) event.stopImmediatePropagation();
  }

  /** The second click of a double click: the other button may have come under the pointer. Browsers
   * count the clicks of a mouse, but not always the taps of a finger; keys make none. */
  isSecond(button, { detail, pointerType, timeStamp }) {
    if (!detail) return false;
    const { clicked } = this;
    const soon = timeStamp - clicked.time < VRThinker.DOUBLE_CLICK;
    if (detail > 1 || (soon && pointerType !== "mouse" && button !== clicked.button)) return true;
    this.clicked = { button, time: timeStamp };
    return false;
  }

  /** Gradio would begin a run for each press, once the videos have arrived. */
  mayCompare(now) {
    if (VRThinker.uploads.sending.size) {
      this.sayUploading();
      return false;
    }
    if (now - this.asked < VRThinker.MOST_ASKED || VRThinker.askForJudge()) return false;
    this.asked = now;
    return true;
  }
};

VRThinker.KEYS = {
  " ": "play", ",": "back", ".": "forth",
  ArrowLeft: "earlier", ArrowRight: "later", Home: "start", End: "end", f: "closer", "?": "keys",
};

VRThinker.showKeys = () => {
  const told = {
    Space: "Play or pause both videos", "← →": "The judge’s earlier or later frame",
    ", .": "One frame back or on", "Home End": "Start or end", F: "Both videos, large",
    "Ctrl Enter": "Compare, from the prompt", "A = B X": "Vote, while blind",
    "+ − 0": "Zoom, in the closer look",
  };
  const rows = Object.entries(told).map(([keys, does]) => [
    element("dt", "", keys.split(" ").map((key) => element("kbd", "", key))),
    element("dd", "", does),
  ]);
  const node = element("dialog", { class: "vrt vrt-keys", "aria-label": "Keys" },
    element("h2", "", "Keys"), element("dl", "", rows.flat()),
    button("vrt-pill", "Close", () => node.close()));
  node.addEventListener("close", () => node.remove());
  VRThinker.showDialog(node);
};

/** Tell lengths that differ: pairs of frames lie at the same share of both videos. */
VRThinker.tellUnlike = (node, videos) => {
  const [first, second] = videos.map((video) => video?.duration);
  const isUnlike = Math.max(first, second) > 2 * Math.min(first, second);
  const last = (time) => (time < 120 ? seconds(time) : `${Math.round(time / 60)} min`);
  fill(node, isUnlike ? [first, second] : [], () => [
    `Video 1 lasts ${last(first)}, video 2 ${last(second)}. ` +
      "Each pair of frames is the same share of both, not the same second.",
  ]);
};

/** Keys move the players unless they are meant for what has the focus. */
VRThinker.onKey = (event, rail) => {
  const { key, target, ctrlKey, metaKey, altKey } = event;
  const action = VRThinker.KEYS[key];
  if (!action || ctrlKey || metaKey || altKey || !rail.players.shown.length) return;
  const fields = "input, textarea, select, [contenteditable=true], [role=listbox], [role=option]";
  const space = key === " ";
  const button = target.closest(space ? VRThinker.PRESSED_BY_SPACE : "[role=tab]");
  // What a pointer pressed, or what shows a frame, has done what it does.
  const isDone = () =>
    button === VRThinker.pointerFocus.pressed ||
    button.matches(".vrt-mark, .vrt-ref, [aria-current=true]");
  if (target.closest(fields) || (button && !(space && isDone()))) return;
  event.preventDefault();
  rail.act(action);
};

/** The rail under the players. `trigger` tells the server. */
VRThinker.mountRail = (root, props, watch, words, trigger) => {
  const stills = new VRThinker.Stills(["#first", "#second"], () => players.pause());
  const videos = ["#first video", "#second video"];
  const players = new VRThinker.Players(videos, () => rail.draw(), stills.sides);
  const measured = new VRThinker.Measured(players, words);
  const onPair = () => {
    measured.update(null);
    trigger("submit");
  };
  const rail = new VRThinker.Rail(root, players, () => trigger("click", { act: "swap" }), onPair);
  root.append(measured.node);
  watch("value", () => measured.update(props.value));
  VRThinker.rail = rail;
  const lengths = element("p", { class: "vrt-lengths", role: "status", hidden: "" });
  root.prepend(stills.sentence, lengths);
  document.addEventListener("vrt:trace", ({ detail }) => {
    rail.mark(detail);
    measured.node.classList.toggle("vrt-waits", Boolean(detail.recorded && !detail.over));
    if (stills.update(detail)) players.seek(0);
  });
  document.addEventListener("vrt:light", ({ detail }) => rail.light(detail));
  document.addEventListener("vrt:tile", ({ detail }) => rail.show(detail));
  const onVideo = () => {
    rail.again();
    VRThinker.tellUnlike(lengths, players.videos());
  };
  for (const name of ["loadedmetadata", "emptied"]) document.addEventListener(name, onVideo, true);
  document.addEventListener("seeked", () => rail.draw(), true);
  document.addEventListener("keydown", (event) => VRThinker.onKey(event, rail));
};

/** The turns. `props` and `watch` are what Gradio gives to the component. */
VRThinker.mountTrace = (root, props, watch, introduction, [check, dimensions], trigger) => {
  let banner = {};
  const view = new VRThinker.Trace(root, {
    empty: VRThinker.intro(introduction),
    onTile: VRThinker.showTile,
    check: [...check, () => trigger("click", { act: "check" })],
    vote: [dimensions, (act, vote) => trigger("submit", { act, vote, run: view.data.run })],
    following: () => follow.on && !VRThinker.closer.isOpen, // what is looked at closely stays
    onShow: () => draw(),
    messages: async (turn, order) => {
      const address = `runs/${view.data.run}/turns/${turn + 1}/messages?order=${order}`;
      const [turns, trouble] = await VRThinker.askServer(address);
      return [turns?.[0], trouble];
    },
  });
  root.prepend(VRThinker.blind.node, new VRThinker.Share().node);
  const hold = new VRThinker.Hold();
  const replay = new VRThinker.Replay(root, () => draw());
  const follow = new VRThinker.Follow(root);
  Object.assign(VRThinker, { replay, follow });
  root.addEventListener("click", (event) => {
    const link = event.target.closest(".vrt-walk a");
    if (!link) return;
    event.preventDefault(); // which would be a step of the browser's history
    VRThinker.address.mark(link.hash);
    view.goTo(link.hash);
  });
  const draw = () => {
    let { value } = props;
    if (value.introduction) {
      banner = value;
      if (VRThinker.trace.run) return; // it came after a run that was opened at once
    } else if (!value.run && !value.ending) value = banner;
    const { hero } = VRThinker.examples?.find(({ name }) => name === value.address) ?? {};
    if (hero && value.verdict) value.verdict.headline = hero.answer;
    value = replay.take(hold.take(value, draw));
    if (!follow.on && value.run === VRThinker.trace.run) VRThinker.keepInPlace(root);
    VRThinker.blind?.update(value);
    view.update(value);
    VRThinker.trace = value;
    VRThinker.shown = view.shown;
    document.dispatchEvent(new CustomEvent("vrt:trace", { detail: view.shown }));
    follow.update(view.shown);
    if (value.over && value.run && VRThinker.address.moment) {
      const moment = VRThinker.address.moment;
      VRThinker.address.moment = "";
      // The players come, and move it.
      for (const ms of [50, 800]) setTimeout(() => view.goTo(moment, "instant"), ms);
    }
  };
  watch("value", draw);
  draw();
};

VRThinker.mountFrames = (root, empty) => {
  const gallery = new VRThinker.Gallery(root, empty, VRThinker.showTile);
  const draw = () => root.checkVisibility() && gallery.update(VRThinker.shown); // in an open tab
  document.addEventListener("vrt:trace", draw);
  new IntersectionObserver(draw).observe(root);
};

VRThinker.mountHead = () => (VRThinker.announcer = new VRThinker.Announcer());

VRThinker.mountButtons = (_root, props, watch, trigger) => {
  VRThinker.buttons = new VRThinker.Buttons(() => trigger("click"), () => trigger("submit"));
  watch("value", () => VRThinker.buttons.show(props.value));
};

/** Bring the form of a vote into sight. */
VRThinker.openVote = () => {
  document.querySelector("#trace .vrt-ask-vote").click();
  document.querySelector("#trace .vrt-ballot").scrollIntoView({ block: "center" });
};

/** Below Compare: what the chosen judge can, or that it cannot judge the videos that are there. */
VRThinker.mountScope = (root, props, watch, { about, told, choose, go }, trigger) => {
  const limits = element("p", { id: "vrt-judge-limits" }); // the chip's description
  const notice = element("p", { class: "vrt-cannot", role: "status" });
  let taken = null; // the judge that took the place of one who cannot judge these videos
  VRThinker.askForJudge = () => {
    const isAsked = VRThinker.outside && document.querySelector("#prompt textarea").value.trim();
    if (isAsked) VRThinker.chooseJudge();
    return Boolean(isAsked);
  };
  const offer = () => {
    const { chooser, outside, trace } = VRThinker;
    const isNeeded = outside && (!trace.recorded || trace.changed); // who reads needs no judge
    notice.hidden = !isNeeded || chooser.at < 0; // until it is known who is ready
    if (isNeeded && chooser.near && taken !== chooser.near.id) {
      taken = chooser.near.id;
      chooser.send(chooser.near, true);
    }
    const texts = document.getElementById("go")?.childNodes ?? []; // none yet when this is mounted
    const text = [...texts].find(({ nodeName, data }) => nodeName === "#text" && data.trim());
    if (text) text.data = outside ? choose : go;
  };
  root.classList.add("vrt", "vrt-scope");
  root.replaceChildren(limits, notice);
  const draw = () => {
    const { outside, demo } = props.value;
    if (outside && !VRThinker.outside) VRThinker.chooser.look();
    if (Boolean(VRThinker.outside) !== outside) setTimeout(() => trigger("select")); // the status
    VRThinker.outside = outside && told;
    root.hidden = !demo;
    const limit = ([name, can]) => [element("b", "", name), ` ${can}`];
    fill(limits, outside || !demo ? [] : about, limit);
    say(notice, outside ? told : "");
    offer();
  };
  for (const name of ["vrt:judges", "vrt:trace"]) document.addEventListener(name, offer);
  watch("value", draw);
  draw();
};

/** Saved runs that lie ready, and all other ways to a run that the server has. */
VRThinker.mountExamples = (root, props, trigger) => {
  const { address } = VRThinker;
  VRThinker.examples = props.value;
  root.classList.add("vrt", "vrt-examples");
  for (const [row, cards] of Object.entries(Object.groupBy(props.value, (card) => card.row))) {
    const look = { class: "vrt-cards", "aria-label": row };
    const list = element("ul", look, cards.map(VRThinker.exampleCard));
    if (cards[0].folded) root.append(element("details", "", element("summary", "", row), list));
    else root.append(element("h2", cards[0].hero ? "vrt-first" : "", row), list);
  }
  const fold = (isWanted) => {
    const isFolded = isWanted === true || VRThinker.trace.run || VRThinker.rail?.players.isPair;
    root.classList.toggle("vrt-compact", Boolean(isFolded));
  };
  document.addEventListener("vrt:trace", fold);
  document.addEventListener("loadedmetadata", fold, true);
  root.addEventListener("click", ({ target }) => {
    if (!target.closest("li") || target.closest(".vrt-hold")) return;
    const cover = element("p", { class: "vrt vrt-cover", role: "status" }, "Opening a run…");
    fold(true);
    document.getElementById("stage").before(cover);
    const { offsetTop: top, offsetHeight: height, offsetLeft: left } = root.closest("#examples");
    Object.assign(cover.style, { top: `${top + height + 14}px`, left: `${left}px` });
    VRThinker.uncover(cover);
  });
  address.ask = (kind, name, lost) =>
    trigger("click", kind === "run" ? { run: name } : { example: name, lost });
  VRThinker.openRun = (name) => {
    const { kept, over } = VRThinker.trace;
    const followed = kept === name && !over && address.asked === null;
    VRThinker.selectTraceTab(); // of a run that goes on, too, as Compare leaves the tab as it is
    if (!followed) address.choose(`run=${name}`); // else it is shown as it goes already
  };
};

/** Show what a cover hides once all parts and the run are there: nothing moves in sight. */
VRThinker.PARTS = ["#first button", "#second button", "#go", "#prompt textarea", "#status textarea",
  "#settings button", "#examples .vrt-examples", "#trace .vrt"];
VRThinker.uncover = (cover) => {
  const isThere = VRThinker.PARTS.every((part) => document.querySelector(part));
  if (!isThere || VRThinker.address.asked) {
    requestAnimationFrame(() => VRThinker.uncover(cover));
  } else {
    cover.hidden = true;
    setTimeout(() => cover.remove(), 200); // else Gradio's transitions would show parts later
  }
};

VRThinker.pointerFocus = new VRThinker.PointerFocus();
VRThinker.address = new VRThinker.Address();
VRThinker.inputs = new VRThinker.Inputs();
VRThinker.faults = new VRThinker.Faults();
VRThinker.stopBar = new VRThinker.StopBar();
VRThinker.closer = new VRThinker.Closer();
VRThinker.uploads = new VRThinker.Uploads();
document.querySelectorAll("#first-paint").forEach(VRThinker.uncover);
document.addEventListener("click", (event) => VRThinker.buttons?.onClick(event), true);
