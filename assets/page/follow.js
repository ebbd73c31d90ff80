/* Keeps the newest words of a run in sight, until the person scrolls elsewhere. */
VRThinker.Follow = class {
  constructor(root) {
    this.root = root;
    this.on = true;
    this.run = null;
    this.shown = 0;
    this.scrolledTo = window.scrollY;
    this.button = VRThinker.button("vrt-follow", "Follow the newest words", () => this.turn(!this.on));
    root.append(this.button);
    window.addEventListener("scroll", () => this.onScroll(), { passive: true });
    root.addEventListener("pointerdown", () => (this.pressed = true), true);
    for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, () => setTimeout(() => this.release()), true);
    this.update({});
  }

  /** Whatever was put off comes now, after the click. */
  release() {
    const { late } = this;
    this.pressed = false;
    this.late = null;
    if (late && this.on) late();
  }

  /** What is under a pressed button stays there: else it would be released over something else, and the click be lost. */
  whenFree(scroll) {
    if (this.pressed) this.late = scroll;
    else scroll();
  }

  turn(on) {
    this.wanted = on;
    this.on = on;
    this.button.setAttribute("aria-pressed", String(on));
    if (on) this.showNewest();
  }

  /** The page has drawn `trace`. */
  update(trace) {
    const turns = (trace.turns || []).length;
    const live = Boolean(trace.run) && !trace.over;
    const fresh = this.run !== trace.run;
    const ended = this.live && !live && !fresh;
    if (fresh || (live && !this.live)) this.begin(trace.run);
    this.live = live;
    this.button.hidden = !live || turns === 0;
    if (!trace.run) return;
    const first = turns > 0 && this.shown === 0;
    this.shown = turns;
    if (live && this.on) this.whenFree(() => this.follow(first));
    else if (trace.over && fresh) this.showOpened();
    else if (trace.over && ended && this.on) this.whenFree(() => this.showOutcome());
  }

  follow(first) {
    if (first) this.bringToTop(this.newest());
    this.showNewest();
  }

  begin(run) {
    this.run = run;
    this.shown = 0;
    this.scrolledTo = window.scrollY;
    this.turn(true);
  }

  newest() {
    return this.root.querySelector(".vrt-turn:last-child");
  }

  bringToTop(node) {
    const covered = VRThinker.coveredHeight();
    const top = node.getBoundingClientRect().top - covered;
    if (top > 0 && (node.getBoundingClientRect().bottom > window.innerHeight || covered > 8)) this.scroll(top);
  }

  /** Height of what stays below the turns. */
  coveredBelow() {
    return Math.max(VRThinker.stopBar.height, parseFloat(getComputedStyle(this.button).bottom) + this.button.offsetHeight) + 8;
  }

  /** Scroll down just as far as the end of the newest turn needs. */
  showNewest() {
    const node = this.newest();
    if (!node || !this.live) return;
    const below = node.getBoundingClientRect().bottom + this.coveredBelow() - window.innerHeight;
    if (below > 0) this.scroll(below);
  }

  /** A run that was opened is shown, whatever was shown before. */
  showOpened() {
    VRThinker.selectTraceTab();
    requestAnimationFrame(() => this.showOutcome());
  }

  /** A run that has ended, or that was opened, begins with its verdict. */
  showOutcome() {
    const head = (document.getElementById("run") || this.root).getBoundingClientRect().top;
    const top = head - VRThinker.coveredHeight();
    if (top < -8 || head > window.innerHeight * 0.5) this.scroll(top);
  }

  scroll(distance) {
    window.scrollBy({ top: distance, behavior: "instant" });
    this.scrolledTo = window.scrollY;
  }

  /** Whoever scrolls up reads on undisturbed; at the newest words the page follows again. */
  onScroll() {
    const moved = window.scrollY - this.scrolledTo;
    if (Math.abs(moved) < 3) return;
    this.scrolledTo = window.scrollY;
    if (!this.live) return;
    const node = this.newest();
    const near = !node || node.getBoundingClientRect().bottom < window.innerHeight + 40;
    this.on = this.wanted && near && moved > 0;
    this.button.setAttribute("aria-pressed", String(this.on));
  }
};

/** Height of what stays above the turns on a narrow page. */
VRThinker.coveredHeight = () => {
  const line = document.querySelector("#rail .vrt-line");
  if (!line || getComputedStyle(line).position !== "sticky") return 8;
  return parseFloat(getComputedStyle(line).top) + line.offsetHeight + 8;
};

/** Open the tab in which a run is shown and followed. */
VRThinker.selectTraceTab = () => {
  const tab = document.querySelector("#run [role=tab]");
  if (tab && tab.getAttribute("aria-selected") !== "true") tab.click();
};
