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

  /** A video is on its way to the server. */
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
