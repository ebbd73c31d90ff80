/* What a report does by itself: the tables of an evaluation are sorted, a saved run is drawn. */
const sortKey = ({ dataset, textContent }, numeric) => {
  if (!numeric) return textContent.trim();
  return dataset.value === undefined ? null : Number(dataset.value);
};

/* A table sorts by the column whose head is pressed: numbers with the highest first, texts from A
to Z; again turns it round. What has no value stays at the end, and equal rows keep their order. */
for (const table of document.querySelectorAll("table.sortable")) {
  table.tHead.addEventListener("click", ({ target }) => {
    const head = target.closest("button")?.closest("th");
    if (!head) return;
    const numeric = head.classList.contains("number");
    const before = head.getAttribute("aria-sort");
    const down = before ? before === "ascending" : numeric;
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    const keys = new Map(rows.map((row) => [row, sortKey(row.cells[head.cellIndex], numeric)]));
    rows.sort((one, other) => {
      const [a, b] = [keys.get(one), keys.get(other)];
      if (a === null || b === null) return (a === null) - (b === null);
      const order = numeric ? a - b : a.localeCompare(b, undefined, { numeric: true });
      return down ? -order : order;
    });
    table.tBodies[0].append(...rows);
  });
}

const data = document.querySelector("script#data");
if (data) {
  const { trace, messages, saved, clips } = JSON.parse(data.textContent);
  document.querySelector(".vrt-prompt").append(passage(trace.prompt));
  say(document.querySelector(".vrt-judge"), saved);
  // What the judge cannot judge stands above its verdict.
  fill(document.querySelector(".vrt-header .vrt-notes"), trace.notes, items);
  trace.notes = [];
  const look = { controls: true, loop: true, muted: true, playsInline: true };
  const clip = (src, side) => make("video", { src, ariaLabel: `Video ${side + 1}`, ...look });
  const videos = clips.map(clip);
  const named = (video) => element("div", "", element("b", "", video.ariaLabel), video);
  fill(document.querySelector(".vrt-clips"), clips, () => videos.map(named));
  for (const act of ["play", "pause"]) { // one click moves both
    const both = () => videos.forEach((each) => each[act]());
    for (const video of videos) video.addEventListener(act, both);
  }
  VRThinker.closer = new VRThinker.Closer();
  const frames = document.getElementById("frames");
  const gallery = new VRThinker.Gallery(frames.lastElementChild, "");
  const drawFrames = () => frames.open && gallery.update(VRThinker.shown);
  const onShow = () => {
    view.update(trace);
    VRThinker.shown = view.shown;
    drawFrames();
  };
  const read = async (turn, order) => [messages[order === "swapped" ? 1 : 0][turn]];
  const view = new VRThinker.Trace(document.getElementById("trace"), { onShow, messages: read });
  onShow();
  frames.addEventListener("toggle", drawFrames);
}
