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

/** All frames of the run. */
VRThinker.mountFrames = (root, empty) => {
  const frames = new VRThinker.Frames(root, empty, VRThinker.showTile);
  const draw = () => root.checkVisibility() && frames.update(VRThinker.shown); // a tab that is not open costs nothing
  document.addEventListener("vrt:trace", draw);
  new IntersectionObserver(draw).observe(root);
  draw();
};

/** The raw text behind the turns. */
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

/** Which of Compare and Stop is shown. */
VRThinker.mountButtons = (root, props, watch, trigger) => {
  VRThinker.buttons = new VRThinker.Buttons(root, () => trigger("click"));
  watch("value", () => VRThinker.buttons.show(props.value));
};

/** What can be taken home. */
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
