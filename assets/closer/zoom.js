/* One zoom for all `.vrt-lens` below `root`: a wheel, a pinch or a key enlarges them around the same place, a drag moves them. */
VRThinker.MOST_ZOOM = 16;
VRThinker.ZOOM_STEP = 1.5;

VRThinker.Zoom = class {
  /** `onDrag` is told where, 0 to 1 from the left, while a drag has nothing to move; `onChange`, that the zoom has changed. */
  constructor(root, onDrag, onChange) {
    this.root = root;
    this.onDrag = onDrag;
    this.onChange = onChange;
    this.pointers = new Map();
    root.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    root.addEventListener("dblclick", () => this.reset());
    root.addEventListener("pointerdown", (event) => this.onDown(event));
    root.addEventListener("pointermove", (event) => this.onMove(event));
    for (const name of ["pointerup", "pointercancel"]) {
      root.addEventListener(name, (event) => this.pointers.delete(event.pointerId));
    }
    this.reset();
  }

  reset() {
    [this.scale, this.x, this.y] = [1, 0, 0];
    this.draw();
  }

  /** Enlarge by `factor` around a place of the frame that is seen, both 0 to 1 of a lens: without one, around its middle. */
  by(factor, x = 0.5, y = 0.5) {
    const scale = Math.min(VRThinker.MOST_ZOOM, Math.max(1, this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.draw();
  }

  /** Move by fractions of a lens. */
  pan(x, y) {
    this.x += x;
    this.y += y;
    this.draw();
  }

  draw() {
    const within = (value) => Math.min(0, Math.max(1 - this.scale, value));
    this.x = within(this.x);
    this.y = within(this.y);
    for (const name of ["scale", "x", "y"]) this.root.style.setProperty(`--${name}`, String(this[name]));
    this.root.classList.toggle("zoomed", this.scale > 1);
    this.root.classList.toggle("pixels", this.scale >= 4); // from there on single pixels are what one looks for
    this.onChange();
  }

  /** Where in its lens a pointer is, 0 to 1. */
  place(event) {
    const lens = event.target.closest(".vrt-lens") || this.root.querySelector(".vrt-lens");
    const box = lens.getBoundingClientRect();
    return { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height, box };
  }

  onWheel(event) {
    event.preventDefault();
    const { x, y } = this.place(event);
    this.by(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), x, y);
  }

  onDown(event) {
    if (event.button !== 0) return;
    event.preventDefault(); // or the browser drags the picture
    this.root.focus({ preventScroll: true });
    event.target.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (this.scale === 1) this.onDrag(this.place(event).x);
  }

  onMove(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const { x, y, box } = this.place(event);
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (others.length) {
      const distance = (place) => Math.hypot(place.x - others[0].x, place.y - others[0].y) || 1;
      this.by(distance({ x: event.clientX, y: event.clientY }) / distance(before), x, y);
    } else if (this.scale > 1) {
      this.pan((event.clientX - before.x) / box.width, (event.clientY - before.y) / box.height);
    } else {
      this.onDrag(x);
    }
  }
};
