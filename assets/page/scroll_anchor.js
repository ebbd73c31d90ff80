/* What is being read stays where it is while the run grows above it. Some browsers do so themselves ("scroll anchoring"), but not
   all of them do, and none when what it holds on to was drawn anew. */
VRThinker.ScrollAnchor = class {
  constructor(root) {
    this.root = root;
  }

  /** Look where the part of a turn stands that is being read; after the next frame it is brought back there. */
  hold() {
    if (this.held || window.scrollY === 0) return;
    const parts = [...this.root.querySelectorAll(".vrt-turn > *")];
    this.held = parts.find((part) => part.getBoundingClientRect().bottom > 0);
    if (!this.held) return;
    this.top = this.held.getBoundingClientRect().top;
    this.scrolled = window.scrollY;
    requestAnimationFrame(() => requestAnimationFrame(() => this.restore()));
  }

  restore() {
    const shift = this.held.getBoundingClientRect().top - this.top;
    const untouched = Math.abs(window.scrollY - this.scrolled) < 1; // neither the browser nor the person has scrolled meanwhile
    if (this.held.isConnected && untouched && Math.abs(shift) >= 1) window.scrollBy({ top: shift, behavior: "instant" });
    this.held = null;
  }
};
