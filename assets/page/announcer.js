/* What a screen reader is told: the status line as its meaning changes, without its clock and its counts, and the verdict. */
VRThinker.Announcer = class {
  constructor() {
    this.line = "";
    this.node = VRThinker.element("p", "vrt-unseen");
    this.node.setAttribute("role", "status");
    document.body.append(this.node);
    document.addEventListener("vrt:trace", () => this.draw());
  }

  status(line) {
    this.line = line;
    this.draw();
  }

  draw() {
    const { verdict } = VRThinker.trace || {};
    const said = [this.line.split(" · ")[0], verdict && verdict.headline].filter(Boolean);
    VRThinker.say(this.node, said.join(". "));
  }
};
