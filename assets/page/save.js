/* What can be taken home: the trace, the report, a link. */
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
