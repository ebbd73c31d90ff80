/* Status and Stop at the foot of the window, while a run goes on whose own Stop is out of sight: on a narrow page it stands above the turns. */
VRThinker.StopBar = class {
  constructor() {
    const { element } = VRThinker;
    this.node = element("div", "vrt vrt-stop-bar");
    this.node.setAttribute("role", "group");
    this.node.setAttribute("aria-label", "The run that goes on");
    this.node.hidden = true;
    this.line = element("span"); // no live region: the announcer tells of the status
    const stop = VRThinker.button("", "Stop", () => document.getElementById("stop").click());
    this.node.append(stop, this.line);
    document.addEventListener("vrt:status", (event) => VRThinker.say(this.line, event.detail));
    document.addEventListener("vrt:running", () => this.draw());
    for (const moved of ["scroll", "resize"]) window.addEventListener(moved, () => this.draw(), { passive: true });
  }

  /** How much of the window it covers. */
  get height() {
    return this.node.offsetHeight;
  }

  draw() {
    const running = Boolean(VRThinker.buttons && VRThinker.buttons.running);
    const hidden = !running || this.stopIsInSight();
    if (hidden === this.node.hidden) return;
    if (!this.node.isConnected) document.getElementById("run").prepend(this.node);
    const focused = this.node.contains(document.activeElement) && document.activeElement;
    this.node.hidden = hidden;
    document.documentElement.style.setProperty("--stop-bar", `${this.height}px`);
    if (focused) VRThinker.pointerFocus.pass(focused, document.getElementById(running ? "stop" : "go"));
  }

  stopIsInSight() {
    const { top, bottom } = document.getElementById("stop").getBoundingClientRect();
    return bottom - VRThinker.coveredHeight() > 24 && window.innerHeight - top > 24;
  }
};
