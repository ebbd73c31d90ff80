/* What a person sets: keys that start a comparison, the focus, and whether the run that is shown still belongs to it. */
VRThinker.MOST_QUOTED = 120; // characters of the prompt that a run judged

VRThinker.Inputs = class {
  constructor() {
    this.run = {};
    this.notice = VRThinker.element("p", "vrt vrt-changed");
    this.notice.setAttribute("role", "status");
    this.notice.hidden = true;
    document.addEventListener("vrt:trace", (event) => this.show(event.detail || {}));
    document.addEventListener("input", (event) => event.target.closest("#prompt") && this.draw());
    document.addEventListener("keydown", (event) => this.onKey(event));
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
    const sentences = [...(edited ? this.judged(judged) : []), ...(run && videos ? [` ${videos}`] : [])];
    this.notice.hidden = sentences.length === 0;
    if (sentences.length) this.say(["These inputs have changed.", ...sentences]);
  }

  /** The prompt stands in the direction of its own words, whichever that is, and the sentence in its own. */
  judged(prompt) {
    const letters = [...prompt];
    const { MOST_QUOTED } = VRThinker;
    const quoted = letters.length > MOST_QUOTED ? `${letters.slice(0, MOST_QUOTED - 1).join("")}…` : prompt;
    const end = /[.!?]\s*$/.test(quoted) ? "”" : "”."; // the prompt's own full stop ends the sentence
    return [" This run judged the prompt “", VRThinker.element("bdi", "", quoted), end];
  }

  say(parts) {
    const said = VRThinker.element("p");
    said.append(...parts);
    if (said.textContent !== this.notice.textContent) this.notice.replaceChildren(...said.childNodes);
  }

  /** Ctrl+Enter (or Cmd+Enter) in the prompt compares. */
  onKey(event) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !event.target.closest("#prompt")) return;
    event.preventDefault();
    const go = document.querySelector("#go");
    // Gradio takes the prompt over when the field is left.
    event.target.dispatchEvent(new Event("change", { bubbles: true }));
    setTimeout(() => go.checkVisibility() && go.click(), 50);
  }
};
