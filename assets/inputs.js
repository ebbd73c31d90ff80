/* What a person sets: keys that start a comparison, the focus, and whether the run that is shown still belongs to it. */
VRThinker.Inputs = class {
  constructor() {
    this.run = {};
    this.notice = VRThinker.element("p", "vrt vrt-changed");
    this.notice.setAttribute("role", "status");
    this.notice.hidden = true;
    document.addEventListener("vrt:trace", (event) => this.show(event.detail || {}));
    document.addEventListener("input", (event) => event.target.closest("#prompt") && this.draw());
    document.addEventListener("keydown", (event) => this.onKey(event));
    new MutationObserver(() => this.keepFocus()).observe(document.documentElement, {
      attributeFilter: ["class", "style"],
      childList: true,
      subtree: true,
    });
    document.addEventListener("focusin", (event) => {
      this.hadFocus = event.target.id;
    });
  }

  show(trace) {
    this.run = trace;
    this.draw();
    // Gradio writes the prompt of a run that was opened at about the same time.
    setTimeout(() => this.draw(), 300);
  }

  /** The prompt was edited, or a video replaced, after the run had begun: the run says what it judged. */
  draw() {
    const prompt = document.querySelector("#prompt textarea");
    const place = document.getElementById("trace");
    if (!prompt || !place) return;
    if (!this.notice.parentNode) place.before(this.notice);
    const { run, prompt: judged, changed: videos } = this.run;
    const edited = Boolean(run) && typeof judged === "string" && prompt.value.trim() !== judged.trim();
    const sentences = [edited && `This run judged the prompt “${judged}”.`, run && videos].filter(Boolean);
    this.notice.hidden = sentences.length === 0;
    if (sentences.length) VRThinker.say(this.notice, ["These inputs have changed.", ...sentences].join(" "));
  }

  /** Ctrl+Enter (or Cmd+Enter) in the prompt compares. */
  onKey(event) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !event.target.closest("#prompt")) return;
    event.preventDefault();
    const go = document.querySelector("#go");
    // Gradio takes the prompt over when the field is left.
    event.target.dispatchEvent(new Event("change", { bubbles: true }));
    if (go) setTimeout(() => go.click(), 50);
  }

  /** Compare and Stop take each other's place: the focus goes along. */
  keepFocus() {
    if (document.activeElement !== document.body || !["go", "stop"].includes(this.hadFocus)) return;
    const other = document.getElementById(this.hadFocus === "go" ? "stop" : "go");
    if (other && other.offsetParent) other.focus({ preventScroll: true });
  }
};
