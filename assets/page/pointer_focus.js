/* What has the focus because a pointer pressed it, and not because keys led there: Space is not meant for it. The browser's own
`:focus-visible` does not tell, for it holds from the moment when any key is pressed. */
VRThinker.PointerFocus = class {
  constructor() {
    this.pressed = null;
    document.addEventListener("pointerdown", ({ target }) => { this.pressed = target.closest(VRThinker.PRESSED_BY_SPACE); }, true);
    document.addEventListener("focusin", ({ target }) => { if (target !== this.pressed) this.pressed = null; }, true);
  }

  /** One button takes the place of another. The focus goes along where keys had brought it. */
  pass(from, to) {
    if (from === this.pressed) from.blur();
    else to.focus({ preventScroll: true });
  }
};
