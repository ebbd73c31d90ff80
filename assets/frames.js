/* All frames of a run: its pairs by turn, each turn's beside what the judge wrote about them. */
VRThinker.Frames = class {
  constructor(root, empty, onTile) {
    const { element } = VRThinker;
    this.cards = [];
    this.empty = element("p", "vrt-empty", empty);
    this.turns = element("ol", "vrt-gallery");
    this.turns.setAttribute("aria-label", "Frames by turn");
    root.classList.add("vrt");
    root.replaceChildren(this.empty, this.turns);
    this.tiles = new VRThinker.Tiles(root, onTile);
    this.update({});
  }

  /** Draw `data` as `view.data` gives it; what has not changed is left alone. */
  update(data) {
    const { run, turns = [], shownOrder } = data || {};
    if (this.run !== `${run} ${shownOrder}`) this.cards.splice(0).forEach((card) => card.node.remove());
    this.run = `${run} ${shownOrder}`;
    this.empty.hidden = turns.length > 0;
    turns.forEach((turn, position) => this.card(position).update({ ...turn, foot: "", confidence: [], labels: [], remarks: [] }));
    this.cards.splice(turns.length).forEach((card) => card.node.remove());
    this.tiles.markLinks();
  }

  card(position) {
    if (!this.cards[position]) {
      this.cards[position] = new VRThinker.Turn(position, (tile, node) => this.tiles.open(tile, node, position));
      this.turns.append(this.cards[position].node);
    }
    return this.cards[position];
  }
};
