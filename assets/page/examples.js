/* Saved runs, one click away. */
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
