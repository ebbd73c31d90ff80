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

  onKey(event) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !event.target.closest("#prompt")) return;
    event.preventDefault();
    const go = document.querySelector("#go");
    // Gradio takes the prompt over when the field is left.
    event.target.dispatchEvent(new Event("change", { bubbles: true }));
    setTimeout(() => go.checkVisibility() && go.click(), 50);
  }
};

/* What Gradio's players do otherwise than this page: which files they take, what they say of those that browsers cannot play. */
VRThinker.PLAYER_PARTS = ["#first", "#second"];
VRThinker.FILES = "video/*, image/gif, image/apng, image/avif";

VRThinker.Uploads = class {
  constructor() {
    this.sending = new Set(); // what breaks off each upload that goes on
    const fetched = window.fetch;
    window.fetch = (address, options) => (this.sendsVideos(options) ? this.send(fetched, address, options) : fetched(address, options));
    document.addEventListener("change", (event) => this.onChange(event), true);
    document.addEventListener("drop", (event) => this.onDrop(event), true);
    // The server makes a copy that browsers play, or says what is wrong with the file: both better than "not playable".
    document.addEventListener("error", (event) => this.isPlayer(event.target) && event.stopImmediatePropagation(), true);
    new MutationObserver((records) => {
      for (const { target, removedNodes } of records) if (target instanceof Element && target.closest("#players")) this.release(removedNodes);
      this.draw();
    }).observe(document.documentElement, {
      attributeFilter: ["accept", "aria-label"],
      childList: true,
      subtree: true,
    });
  }

  /** Gradio uploads the file of a player, which by `asVideos` always is a video. */
  sendsVideos({ body } = {}) {
    return body instanceof FormData && body.getAll("files").some(({ type = "" }) => type.startsWith("video/"));
  }

  async send(fetched, address, options) {
    const sending = new AbortController();
    this.sending.add(sending);
    try {
      return await fetched(address, { ...options, signal: sending.signal });
    } catch (error) {
      if (!sending.signal.aborted) throw error;
      return new Response("[]"); // Gradio leaves the player as it is
    } finally {
      this.sending.delete(sending);
    }
  }

  get going() {
    return this.sending.size > 0;
  }

  /** What is still on its way is no longer wanted: something else is to be shown. */
  drop() {
    for (const sending of this.sending) sending.abort();
  }

  isPlayer(node) {
    return node instanceof Element && Boolean(node.closest("#first video, #second video"));
  }

  /** Chromium keeps the text track of a player that was removed, and with it the player and its video, until the track is taken away. */
  release(nodes) {
    for (const node of nodes) {
      if (!(node instanceof Element)) continue;
      for (const video of node.matches("video") ? [node] : node.querySelectorAll("video")) {
        if (video.isConnected) continue;
        for (const track of video.querySelectorAll("track")) track.remove();
        video.removeAttribute("src");
        video.load();
      }
    }
  }

  /** Both upload buttons have a name of their own, which begins with what tells them apart. */
  draw() {
    VRThinker.PLAYER_PARTS.forEach((part, side) => {
      for (const input of document.querySelectorAll(`${part} input[type=file]`)) {
        if (input.accept !== VRThinker.FILES) input.accept = VRThinker.FILES;
      }
      for (const button of document.querySelectorAll(`${part} button.upload-container`)) {
        const name = `Video ${side + 1}: ${button.textContent.replace(/\s+/g, " ").trim()}`;
        if (button.getAttribute("aria-label") !== name) button.setAttribute("aria-label", name);
      }
    });
  }

  /** Gradio refuses what the browser does not call a video, such as a GIF. Here the server decides. */
  onChange({ target }) {
    if (target.type === "file" && target.closest("#first, #second")) target.files = this.asVideos(target.files).files;
  }

  onDrop(event) {
    const { target, dataTransfer } = event;
    const odd = [...(dataTransfer ? dataTransfer.files : [])].some((file) => !file.type.startsWith("video/"));
    if (!odd || !target.closest("#first, #second")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const { bubbles, cancelable } = event;
    target.dispatchEvent(new DragEvent("drop", { bubbles, cancelable, dataTransfer: this.asVideos(dataTransfer.files) }));
  }

  asVideos(files) {
    const transfer = new DataTransfer();
    for (const file of files) {
      const isVideo = file.type.startsWith("video/");
      transfer.items.add(isVideo ? file : new File([file], file.name, { type: "video/x-unknown", lastModified: file.lastModified }));
    }
    return transfer;
  }
};

/* The page's address names the run that is shown, and back and forward show the runs that were shown before. */
VRThinker.Address = class {
  constructor() {
    this.run = null;
    this.awaited = null; // what the browser went to, until that run is shown
    this.asked = this.shown() || null; // what the server is asked for; a page that opens asks for the run in its address
    this.next = null; // what to ask for once that is answered
    this.ending = this.asked === null ? 1 : 0; // events that are over for us, and whose end the server has not told yet
    this.ask = () => {};
    document.addEventListener("vrt:trace", (event) => this.show(event.detail || {}));
    window.addEventListener("popstate", (event) => {
      this.awaited = this.shown();
      this.open(this.awaited, Boolean(event.state && event.state.run));
    });
  }

  /** What the address names: "trace=NAME" is a run behind a link, "run=NAME" one of the visitor's own, "" none. */
  shown() {
    const found = new URLSearchParams(location.search);
    return ["trace", "run"].filter((kind) => found.get(kind)).map((kind) => `${kind}=${found.get(kind)}`)[0] || "";
  }

  /** A person chose a saved run: no step back or forward is awaited any more. */
  choose(query) {
    this.awaited = null;
    this.open(query, false);
  }

  /**
   * Have that run shown. Answers may come in another order than what they answer, so that the server is asked for one run at a
   * time, and of those that are wanted meanwhile for the latest. `lost`: the address names none, but a run was shown there.
   */
  open(query, lost) {
    VRThinker.uploads.drop(); // else their files would take the place of that run's
    if (this.asked !== null) {
      this.next = query === this.asked ? null : [query, lost];
      return;
    }
    const [kind, name = ""] = query.split("=");
    this.asked = query;
    this.ask(kind, name, lost);
  }

  /** An event that opens a run has ended, whatever it said. By then its run may be shown, and another one asked for. */
  ended() {
    if (this.ending) this.ending -= 1;
    else this.answered();
  }

  answered() {
    const { next } = this;
    this.asked = null;
    this.next = null;
    if (next) this.open(...next);
  }

  /** Each run that is shown is a step of the browser's history, a run that the address names already is none. */
  show({ run, address = "", kept = "" }) {
    if (!run || run === this.run) return;
    const first = this.run === null;
    const query = address ? `trace=${address}` : kept ? `run=${kept}` : "";
    this.run = run;
    if (query && query === this.asked) {
      this.ending += 1; // which may take as long as the run goes on
      this.answered();
    }
    if (query && this.awaited !== null && query !== this.awaited) return; // the browser has gone on meanwhile
    this.awaited = null;
    const same = query === this.shown();
    if (same && (query || first)) history.replaceState({ ...history.state, run }, "");
    else history.pushState({ run }, "", this.of(query));
  }

  name(address) {
    history.replaceState({ ...history.state, run: this.run }, "", this.of(`trace=${address}`));
  }

  forget() {
    history.replaceState(history.state, "", this.of(""));
  }

  of(query) {
    const url = new URL(location.href);
    const [kind, name] = query.split("=");
    for (const each of ["trace", "run"]) url.searchParams.delete(each);
    if (kind) url.searchParams.set(kind, name);
    return url;
  }
};

VRThinker.Examples = class {
  constructor(root, onChoose) {
    this.root = root;
    this.onChoose = onChoose;
    root.classList.add("vrt", "vrt-examples");
  }

  draw(cards) {
    const { element } = VRThinker;
    if (!cards.length) return this.root.replaceChildren();
    const rows = [...new Set(cards.map((card) => card.row))];
    this.root.replaceChildren(...rows.flatMap((row) => {
      const list = element("ul", "vrt-cards");
      list.setAttribute("aria-label", row);
      list.append(...cards.filter((card) => card.row === row).map((card) => this.card(card)));
      return [element("h2", "", row), list];
    }));
  }

  card({ name, title, prompt, judge, pictures }) {
    const { element } = VRThinker;
    const item = element("li");
    const button = VRThinker.button("vrt-card");
    const screens = element("span", "vrt-screens");
    screens.append(...pictures.filter(Boolean).map((src) => this.picture(src)));
    const text = element("span", "vrt-card-text");
    const words = element("span", "vrt-card-prompt", prompt);
    words.dir = "auto";
    text.append(element("b", "", title), words);
    button.append(screens, text, element("span", "vrt-card-judge", judge));
    button.addEventListener("click", () => this.onChoose(name));
    item.append(button);
    return item;
  }

  picture(src) {
    const image = VRThinker.element("img");
    image.alt = "";
    image.loading = "lazy";
    image.src = src;
    return image;
  }
};

/* What a page without a run shows: what it is for, how it goes, and a recording of a real run. */
VRThinker.intro = ({ lead, steps, links, loop }) => {
  const { element } = VRThinker;
  const root = element("section", "vrt-intro");
  root.setAttribute("aria-label", "How it works");
  const text = element("div");
  const list = element("ol", "vrt-steps");
  list.append(...steps.map((step) => element("li", "", step)));
  const line = element("p", "vrt-links");
  line.append(...links.map(([label, address]) => VRThinker.outside(label, address)));
  text.append(element("p", "vrt-lead", lead), list, line);
  root.append(text, VRThinker.recording(loop));
  return root;
};

VRThinker.outside = (label, address) => {
  const link = VRThinker.element("a", "", label);
  link.href = address;
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  return link;
};

/** A silent loop with a button that holds it; whoever asked for less motion starts it themselves. */
VRThinker.recording = ({ folder, label }) => {
  const { element } = VRThinker;
  const figure = element("figure", "vrt-loop");
  const video = element("video");
  Object.assign(video, { muted: true, loop: true, playsInline: true, preload: "auto" });
  video.src = `${folder}/${document.body.classList.contains("dark") ? "dark" : "light"}.mp4`;
  video.setAttribute("aria-label", label);
  const button = VRThinker.button("vrt-hold");
  const draw = () => {
    VRThinker.say(button, video.paused ? "▶" : "❚❚");
    button.setAttribute("aria-label", video.paused ? "Play the recording" : "Pause the recording");
  };
  video.addEventListener("play", draw);
  video.addEventListener("pause", draw);
  draw();
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let held = calm;
  button.addEventListener("click", () => {
    held = !video.paused;
    if (held) video.pause();
    else video.play().catch(() => {});
  });
  if (calm) video.currentTime = 1e6; // its end: the verdict
  // Nobody sees it further down, nor once a run stands in its place.
  new IntersectionObserver(([seen]) => {
    if (!seen.isIntersecting) video.pause();
    else if (!held) video.play().catch(() => {});
  }).observe(video);
  figure.append(video, button);
  return figure;
};
