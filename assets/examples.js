/* Saved runs, one click away. */
VRThinker.Examples = class {
  constructor(root, heading, onChoose) {
    this.root = root;
    this.heading = heading;
    this.onChoose = onChoose;
    root.classList.add("vrt", "vrt-examples");
  }

  draw(cards) {
    const { element } = VRThinker;
    if (!cards.length) return this.root.replaceChildren();
    const list = element("ul", "vrt-cards");
    list.append(...cards.map((card) => this.card(card)));
    this.root.replaceChildren(element("h2", "", this.heading), list);
  }

  card({ name, title, prompt, outcome, judge, pictures }) {
    const { element } = VRThinker;
    const item = element("li");
    const button = element("button", "vrt-card");
    button.type = "button";
    const screens = element("span", "vrt-screens");
    screens.append(...pictures.filter(Boolean).map((src) => this.picture(src)));
    const text = element("span", "vrt-card-text");
    text.append(
      element("b", "", title),
      element("span", "vrt-card-prompt", prompt),
      element("span", "vrt-card-outcome", outcome),
      element("span", "vrt-card-judge", judge),
    );
    button.append(screens, text);
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
