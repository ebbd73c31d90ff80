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

/* The exact text that was sent to the judge and came back, with everything visible that usually is not. */
VRThinker.UNSEEN = /(<\|[^|<>]{1,40}\|>|[\u0000-\u0008\u000b-\u001f\u007f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff])/;
VRThinker.MOST_TOKENS = 2000;

VRThinker.Transcript = class {
  constructor(root) {
    this.root = root;
    root.classList.add("vrt", "vrt-transcript");
  }

  update(transcript) {
    const key = JSON.stringify(transcript || null);
    if (this.key === key) return;
    this.key = key;
    const passages = (transcript && transcript.passages) || [];
    this.root.replaceChildren(...passages.map(([heading, text]) => this.passage(heading, text)));
  }

  passage(heading, text) {
    const section = VRThinker.element("section");
    const passage = new VRThinker.Passage("pre", (node, shown) => node.replaceChildren(...VRThinker.visible(shown)));
    passage.update(text);
    section.append(VRThinker.element("h3", "", heading), passage.node);
    return section;
  }
};

/** Text as nodes in which control tokens stand out and unseen characters have a name. */
VRThinker.visible = (text) => {
  const pieces = text.split(VRThinker.UNSEEN);
  if (pieces.length > 2 * VRThinker.MOST_TOKENS) return [document.createTextNode(text)];
  return pieces.map((piece, position) => {
    if (position % 2 === 0) return document.createTextNode(piece);
    const code = piece.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return VRThinker.element("mark", "", piece.length === 1 ? `U+${code}` : piece);
  });
};
