/* The tiles of a run below `root`, and the frame numbers in its text that lead to them. */
/** Let rail and players show the frames of a tile. */
VRThinker.showTile = (tile) => document.dispatchEvent(new CustomEvent("vrt:tile", { detail: tile }));

VRThinker.Tiles = class {
  /** `onTile` is told which tile was chosen; without it nothing can be. */
  constructor(root, onTile) {
    this.root = root;
    this.onTile = onTile;
    document.addEventListener("vrt:chosen", (event) => this.ring(this.find(event.detail)));
    for (const [name, on] of [["mouseover", true], ["focusin", true], ["mouseout", false], ["focusout", false]]) {
      root.addEventListener(name, (event) => this.onPoint(event, on));
    }
    root.addEventListener("click", (event) => {
      const link = event.target.closest(".vrt-ref");
      const node = link && this.tileOf(link.dataset.frame, link.closest(".vrt-turn"));
      if (node) this.choose(node.tile, node);
    });
  }

  /** A frame number leads to its tile: hovering lights tile and mark, a click seeks. */
  onPoint(event, on) {
    const link = event.target.closest && event.target.closest(".vrt-ref");
    if (link) this.light(on ? link.dataset.frame : null);
  }

  all() {
    return [...this.root.querySelectorAll(".vrt-tile")];
  }

  find(tile) {
    const key = VRThinker.tileKey(tile);
    return this.all().find((node) => VRThinker.tileKey(node.tile) === key);
  }

  numbered(number) {
    return this.all().filter((node) => node.dataset.frames.split(" · ").includes(number));
  }

  /** The tile of a frame: in the same turn where it has one, else the latest. */
  tileOf(number, turn) {
    const tiles = this.numbered(number);
    return tiles.find((node) => turn && turn.contains(node)) || tiles.at(-1);
  }

  light(number) {
    this.root.querySelectorAll(".vrt-tile.lit").forEach((node) => node.classList.remove("lit"));
    const tiles = number === null ? [] : this.numbered(number);
    tiles.forEach((node) => node.classList.add("lit"));
    document.dispatchEvent(new CustomEvent("vrt:light", { detail: tiles.map((node) => node.dataset.frames) }));
  }

  /** A number without a tile is no link, wherever it stands below `root`. */
  markLinks(root = this.root) {
    const shown = new Set(this.all().flatMap((node) => node.dataset.frames.split(" · ")));
    root.querySelectorAll(".vrt-ref").forEach((link) => {
      const known = shown.has(link.dataset.frame);
      if (link.disabled === known) link.disabled = !known;
    });
  }

  choose(tile, node) {
    if (!this.onTile) return;
    this.onTile(tile);
    this.ring(node);
  }

  /** Rail and tiles agree on the frame that is shown. */
  ring(node) {
    this.root.querySelectorAll("[aria-current]").forEach((other) => other.removeAttribute("aria-current"));
    if (node) node.setAttribute("aria-current", "true");
  }

  /** A click on a tile seeks and opens the pair large. */
  open(tile, node, turn) {
    this.choose(tile, node);
    document.dispatchEvent(new CustomEvent("vrt:look", { detail: { tile, node, turn } }));
  }
};
