/* What a screen reader is told: the status line as its meaning changes, without its clock and its counts, and each verdict that comes. */
VRThinker.Announcer = class {
  constructor() {
    [this.line, this.verdict] = ["", ""].map(() => {
      const node = VRThinker.element("p", "vrt-unseen");
      node.setAttribute("role", "status");
      document.body.append(node);
      return node;
    });
    document.addEventListener("vrt:trace", () => this.trace());
  }

  status(line) {
    VRThinker.say(this.line, line.split(" · ")[0]);
    document.dispatchEvent(new CustomEvent("vrt:status", { detail: line }));
  }

  trace() {
    const { verdict } = VRThinker.trace || {};
    VRThinker.say(this.verdict, (verdict && verdict.headline) || "");
  }
};
