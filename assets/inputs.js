/* What a person sets: a key that starts a comparison, and whether the run still belongs to it. */
VRThinker.MOST_QUOTED = 120; // characters of the prompt that a run judged

VRThinker.Inputs = class {
  constructor() {
    this.notice = element("p", { class: "vrt vrt-changed", role: "status" });
    document.addEventListener("vrt:trace", () => {
      this.draw();
      setTimeout(() => this.draw(), 300); // Gradio writes the prompt of a run that is opened
    });
    document.addEventListener("input", ({ target }) => target.closest("#prompt") && this.draw());
    document.addEventListener("keydown", (event) => this.onKey(event));
  }

  /** Say what the run judged if the prompt was edited, or a video replaced, after it had begun. */
  draw() {
    const { shown } = VRThinker;
    const { prompt: judged, judge, changed, emptied = {} } = shown;
    for (const note of document.querySelectorAll(".vrt-emptied")) note.remove();
    for (const [id, text] of Object.entries(emptied)) {
      document.getElementById(id).append(element("p", "vrt vrt-emptied", text));
    }
    const written = document.querySelector("#prompt textarea")?.value.trim();
    const edited = judged !== undefined && written !== judged.trim();
    const { speaks, title } = VRThinker.chooser ?? {};
    const mayAsk = shown.over && !shown.recorded && shown.verdict?.says;
    const isOther = mayAsk && speaks && speaks !== judge;
    const other = isOther && `Verdict by ${judge}. Compare to hear ${title}.`;
    fill(this.notice, [edited && [judged], changed, other].filter(Boolean), () => [
      (edited || changed) && "These inputs have changed.", edited && this.judged(judged),
      changed && ` ${changed}`, other && ` ${other}`,
    ]);
    if (!this.notice.parentNode) document.getElementById("trace")?.before(this.notice);
  }

  /** The prompt stands in the direction of its own words, the sentence in its own. */
  judged(prompt) {
    const beginning = [...prompt].slice(0, VRThinker.MOST_QUOTED).join("");
    const quoted = beginning === prompt ? prompt : `${beginning}…`;
    const end = /[.!?]\s*$/.test(quoted) ? "”" : "”."; // its own full stop ends the sentence
    return [" This run judged the prompt “", element("bdi", "", quoted), end];
  }

  onKey(event) {
    const { key, ctrlKey, metaKey, target } = event;
    if (key !== "Enter" || !(ctrlKey || metaKey) || !target.closest("#prompt")) return;
    event.preventDefault();
    // Gradio takes the prompt over when the field is left.
    target.dispatchEvent(new Event("change", { bubbles: true }));
    const go = document.getElementById("go");
    setTimeout(() => go.checkVisibility() && go.click(), 50);
  }
};

/* Why nothing could be compared: each field says so itself, until it is changed. */
VRThinker.Faults = class {
  constructor() {
    const onChange = ({ type, target }) => {
      const mayStay = type === "click" && !target.closest("#players [aria-label=Clear]");
      const root = target.closest?.(":has(> .vrt-fault)");
      if (root && !mayStay) this.clear(root);
    };
    const events = ["input", "change", "drop", "loadstart", "click"];
    for (const name of events) document.addEventListener(name, onChange, true);
  }

  /** `faults`: what is wrong, by a field's id; the first gets the focus unless a person writes. */
  show(faults = {}, isAnswer = false) {
    for (const said of document.querySelectorAll(".vrt-fault")) this.clear(said.parentNode);
    const ids = Object.keys(faults).filter((id) => document.getElementById(id));
    const fields = ids.map((id) => this.mark(document.getElementById(id), faults[id]));
    if (isAnswer || !document.activeElement.matches("textarea")) fields[0]?.focus();
  }

  mark(root, text) {
    const fields = [...root.querySelectorAll("textarea, input:not([type=file]), button")];
    const field = fields.find((each) => each.checkVisibility());
    const said = element("p", { class: "vrt vrt-fault", id: `${root.id}-fault` }, text);
    (root.closest(".vrt-box") ?? root).append(said); // below the player, never over it
    field.ariaInvalid = "true";
    field.setAttribute("aria-describedby", said.id);
    return field;
  }

  clear(root) {
    root.querySelector(".vrt-fault").remove();
    const field = root.querySelector("[aria-invalid]");
    for (const name of ["aria-invalid", "aria-describedby"]) field?.removeAttribute(name);
  }
};

/* What Gradio's players do otherwise here: which files they take, and what they say of others. */
VRThinker.FILES = "video/*, image/gif, image/apng, image/avif";

VRThinker.Uploads = class {
  sending = new Set(); // what breaks off each upload that goes on
  videos = []; // that the players hold

  constructor() {
    const fetched = window.fetch;
    window.fetch = (address, options = {}) => {
      const { body } = options;
      const isOurs = body instanceof FormData && body.getAll("files").some(this.isVideo);
      return isOurs ? this.send(fetched, address, options) : fetched(address, options);
    };
    document.addEventListener("change", (event) => this.onChange(event), true);
    document.addEventListener("drop", (event) => this.onDrop(event), true);
    document.addEventListener("error", (event) => this.onError(event), true);
    const changes = { attributeFilter: ["accept", "aria-label"], childList: true, subtree: true };
    new MutationObserver(() => this.draw()).observe(document.documentElement, changes);
  }

  isVideo({ type = "" }) {
    return type.startsWith("video/");
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

  /** Something else is to be shown than what is still on its way. */
  drop() {
    for (const sending of this.sending) sending.abort();
  }

  draw() {
    for (const input of document.querySelectorAll("#players input[type=file]")) {
      if (input.accept !== VRThinker.FILES) input.accept = VRThinker.FILES;
    }
    // Both buttons have a name of their own, which begins with what tells them apart.
    for (const button of document.querySelectorAll("#players button.upload-container")) {
      const number = button.closest("#first") ? 1 : 2;
      const name = `Video ${number}: ${button.textContent.replace(/\s+/g, " ").trim()}`;
      if (button.ariaLabel !== name) button.ariaLabel = name;
    }
    for (const video of this.videos) {
      if (video.isConnected) continue;
      video.replaceChildren(); // Chromium keeps it as long as it has its text track
      video.removeAttribute("src");
      video.load();
    }
    this.videos = document.querySelectorAll("#players video");
  }

  /** The server makes a copy that browsers play, or says what is wrong with the file. */
  onError(event) {
    if (event.target.closest("#players video")) event.stopImmediatePropagation();
  }

  /** Gradio refuses what browsers do not call a video, such as a GIF. Here the server decides. */
  onChange({ target }) {
    if (target.matches("#players [type=file]")) target.files = this.asVideos(target.files).files;
  }

  onDrop(event) {
    const { target, dataTransfer, bubbles, cancelable } = event;
    const files = [...dataTransfer.files];
    if (files.every(this.isVideo) || !target.closest("#players")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const videos = { bubbles, cancelable, dataTransfer: this.asVideos(files) };
    target.dispatchEvent(new DragEvent("drop", videos));
  }

  asVideos(files) {
    const transfer = new DataTransfer();
    for (const file of files) {
      const { name, lastModified } = file;
      const type = this.isVideo(file) ? file.type : "video/x-unknown";
      transfer.items.add(new File([file], name, { type, lastModified }));
    }
    return transfer;
  }
};

/* The page's address names the shown run; back and forward show the runs that were shown before. */
VRThinker.Address = class {
  run = null;
  awaited = null; // what the browser went to, until that run is shown
  asked = this.shown(); // what the server is asked for, as a page that opens asks for its address
  next = null; // what to ask for once that is answered
  moment = location.hash; // "#turn-2" or "#frame-62" of a link's run, until it is shown

  constructor() {
    document.addEventListener("vrt:look", ({ detail: { tile } }) =>
      this.mark(`#frame-${VRThinker.frames(tile).split(" · ")[0]}`));
    document.addEventListener("vrt:trace", ({ detail }) => this.show(detail));
    window.addEventListener("popstate", ({ state }) => {
      this.awaited = this.shown();
      this.open(this.awaited, Boolean(state?.run));
    });
  }

  /** "trace=NAME" of a run behind a link, "run=NAME" of the visitor's own, "" if none is named. */
  shown() {
    const found = new URLSearchParams(location.search);
    const kind = ["trace", "run"].find((each) => found.get(each));
    return kind ? `${kind}=${found.get(kind)}` : "";
  }

  /** A person chose a saved run: no step back or forward is awaited any more. */
  choose(query) {
    this.awaited = null;
    this.open(query, false);
  }

  /** Ask for that run once the server has given its last answer: answers may overtake each other.
   * Of several that are wanted meanwhile the latest counts. `lost`: a shown run has no address. */
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

  /** The server has answered, whatever it said. */
  ended() {
    const { next } = this;
    Object.assign(this, { asked: null, next: null });
    if (next) this.open(...next);
  }

  /** Each run that is shown is a step of the browser's history, unless the address names it. */
  show({ run, address, kept }) {
    if (!run || run === this.run) return;
    const first = this.run === null;
    const query = address ? `trace=${address}` : kept ? `run=${kept}` : "";
    this.run = run;
    if (query && this.awaited !== null && query !== this.awaited) return; // the browser went on
    this.awaited = null;
    if (query === this.shown() && (query || first)) this.name(query);
    else history.pushState({ run }, "", this.of(query));
  }

  /** Let the address name that run, or none, at this step of the history. */
  name(query) {
    history.replaceState({ ...history.state, run: this.run }, "", this.of(query));
  }

  mark(hash) {
    history.replaceState(history.state, "", Object.assign(new URL(location.href), { hash }));
  }

  of(query) {
    const url = new URL(location.href);
    if (query !== this.shown()) url.hash = "";
    const [kind, name] = query.split("=");
    url.searchParams.delete("trace");
    url.searchParams.delete("run");
    if (kind) url.searchParams.set(kind, name);
    return url;
  }
};

/** A saved run that lies ready: one click plays it. The clips of a `hero` play in its card. */
VRThinker.exampleCard = ({ name, title, prompt, about, pictures, hero }) => {
  const play = () => {
    VRThinker.replay.wanted = name;
    VRThinker.address.choose(`trace=${name}`);
  };
  const image = (src) => element("img", { alt: "", loading: "lazy", src });
  const screens = element("span", "vrt-screens", pictures.filter(Boolean).map(image));
  const words = [element("b", "", title), element("span", "", about)];
  const content = [screens, element("span", "vrt-card-text", words)];
  const card = button({ class: "vrt-card", title: prompt }, content, play);
  return element("li", "", hero && VRThinker.hero(hero, pictures, about, play), card);
};

VRThinker.hero = ({ clips, question, watch }, pictures, about, play) => {
  const sides = clips.map((src, side) => {
    const look = { muted: true, playsInline: true, loop: true, preload: "none", src };
    const name = element("span", "", `Video ${side + 1}`);
    const video = make("video", { ...look, poster: pictures[side] });
    return element("span", `vrt-side${side + 1}`, video, name);
  });
  const clipsNode = element("div", "vrt-hero-clips", sides);
  let [held, seen] = [VRThinker.isCalm(), false];
  const move = () => {
    const plays = !held && seen && !document.querySelector("#players video");
    for (const { firstChild: video } of sides) {
      if (plays) video.play().catch(() => {});
      else video.pause();
    }
    say(hold, held ? "▶" : "❚❚");
    hold.ariaLabel = `${held ? "Play" : "Pause"} both clips`;
  };
  const hold = button("vrt-hold", null, () => {
    held = !held;
    move();
  });
  const look = ([{ isIntersecting }]) => {
    seen = isIntersecting;
    move();
  };
  // After a second also a slow line has brought what a page needs first.
  setTimeout(() => new IntersectionObserver(look).observe(clipsNode), 1000);
  document.addEventListener("loadedmetadata", move, true); // of these clips, or in the players
  move();
  clipsNode.append(hold);
  clipsNode.addEventListener("click", ({ target }) => target === hold || play());
  const text = [element("p", "vrt-question", question), button("vrt-watch", watch, play)];
  return element("div", "vrt-hero", clipsNode, element("div", "", text, element("p", "", about)));
};

/* What a page without a run shows: how it goes, and what it costs. */
VRThinker.intro = ({ steps, costs }) => {
  const isOwn = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  const section = { class: "vrt-intro", "aria-label": "How it works" };
  return element("section", section,
    element("ol", "vrt-steps", steps.map((step) => element("li", "", step))),
    element("p", "vrt-costs", costs.replace("{}", isOwn ? "your machine" : "this server")));
};
