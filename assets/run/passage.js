/* Text that may be very long: its beginning, and the rest when it is wanted. A megabyte of it must not freeze the page. */
VRThinker.MOST = 20_000;

VRThinker.Passage = class {
  /** `fill(node, text)` writes the text into `tag`; without it the text is written as it is. */
  constructor(tag, fill = VRThinker.say) {
    this.fill = fill;
    this.text = "";
    this.whole = false;
    this.node = VRThinker.element("div", "vrt-passage");
    this.body = VRThinker.element(tag);
    this.body.dir = "auto";
    this.more = VRThinker.button("vrt-more");
    this.more.hidden = true;
    this.more.addEventListener("click", () => {
      this.whole = true;
      this.draw();
    });
    this.node.append(this.body, this.more);
  }

  update(text) {
    if (this.text === text) return;
    this.text = text;
    this.draw();
  }

  draw() {
    const { MOST } = VRThinker;
    const long = this.text.length > MOST && !this.whole;
    this.fill(this.body, long ? this.text.slice(0, MOST) : this.text);
    this.more.hidden = !long;
    if (long) VRThinker.say(this.more, `Show all ${this.text.length.toLocaleString("en")} characters`);
  }
};

/** A list item of this text. */
VRThinker.item = (text) => {
  const item = VRThinker.element("li");
  const passage = new VRThinker.Passage("span");
  passage.update(text);
  item.append(passage.node);
  return item;
};
