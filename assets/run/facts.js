/* What the built-in judge noted of each frame, as a table; its own text is folded below it. */

/** Put the table of `facts` before the passage of `part`, or take it away where there is none. */
VRThinker.drawFacts = (part, facts) => {
  const key = JSON.stringify(facts || null);
  if (part.factsKey === key || (!part.factsKey && !facts)) return;
  part.factsKey = key;
  const { element } = VRThinker;
  const { node: passage } = part.passage;
  part.node.querySelectorAll(".vrt-facts, .vrt-raw").forEach((old) => old.remove());
  part.node.append(passage);
  if (!facts) return;
  const table = element("table", "vrt-facts");
  const row = (cells, tag) => {
    const line = element("tr");
    line.append(...cells.map((text, column) => VRThinker.factCell(text, column === 0 && tag === "td" ? "th" : tag)));
    return line;
  };
  const head = element("thead");
  head.append(row(facts.columns, "th"));
  const body = element("tbody");
  body.append(...facts.rows.map((cells) => row(cells, "td")));
  table.append(head, body);
  const raw = element("details", "vrt-raw");
  raw.append(element("summary", "", facts.raw), passage);
  part.node.append(table, raw);
};

VRThinker.factCell = (text, tag) => {
  const cell = VRThinker.element(tag);
  VRThinker.link(cell, text);
  if (tag === "td" && !text.startsWith("clear, moves on") && text !== "clear") cell.classList.add("vrt-odd");
  return cell;
};
