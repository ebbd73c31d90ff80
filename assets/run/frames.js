/* All frames of a run: its pairs by turn, each turn's beside what the judge wrote about them. */
VRThinker.Frames = class {
  constructor(root, empty, onTile) {
    const { element } = VRThinker;
    this.empty = element("p", "vrt-empty", empty);
    this.tiles = new VRThinker.Tiles(root, onTile);
    this.turns = new VRThinker.TurnList(this.tiles, "vrt-gallery", "Frames by turn");
    root.classList.add("vrt");
    root.replaceChildren(this.empty, this.turns.node);
    this.update({});
  }

  /** Draw `data` as `view.data` gives it; what has not changed is left alone. */
  update(data) {
    const shown = data || {};
    const turns = (shown.turns || []).map((turn) => ({ ...turn, foot: "", confidence: [], labels: [], remarks: [] }));
    this.empty.hidden = turns.length > 0;
    this.turns.update(shown, turns);
    this.tiles.markLinks();
  }
};
