/* One row of the runs of a folder, in the list and above the viewer. */
VRThinker.RunRow = {
  LABELS: ["tie", "1", "2"],

  /** People's labels beside the judge's; null where there are neither. */
  labels(run, texts) {
    const { element } = VRThinker;
    if (!run.people.some((label) => label !== null) && !run.judge.length) return null;
    const table = element("table", "vrt-row-labels");
    const head = element("tr");
    const columns = texts.dimensions.map(([key]) => key);
    head.append(element("td"), ...texts.dimensions.map(([key, name]) => this.column(key, name)));
    table.append(head);
    const said = { judge: this.by(run.judge), people: this.by(run.people) };
    const differ = columns.filter((key) => this.differ(said.judge[key], said.people[key]));
    for (const who of ["judge", "people"]) {
      const row = element("tr");
      const name = element("th", "", texts[who]);
      name.scope = "row";
      row.append(name, ...columns.map((key) => this.cell(said[who][key], differ.includes(key))));
      table.append(row);
    }
    return table;
  },

  column(key, name) {
    const cell = VRThinker.element("th");
    const short = VRThinker.element("abbr", "", key);
    short.title = name;
    cell.scope = "col";
    cell.append(short);
    return cell;
  },

  /** Labels by their dimension: rows have them in the order of the card. */
  by(labels) {
    return Object.fromEntries(["TA", "MQ", "VQ", "OA"].map((key, place) => [key, labels[place]]));
  },

  differ(one, other) {
    return Number.isInteger(one) && Number.isInteger(other) && one !== other;
  },

  cell(label, differs) {
    const text = this.LABELS[label] || "–";
    return VRThinker.element("td", `${label ? `vrt-v${label}` : ""} ${differs ? "vrt-label-differs" : ""}`.trim(), text);
  },

  /** All that is known beside the labels, in one line. */
  facts(run) {
    const parts = [];
    if (run.confidence !== null) parts.push(`confidence ${run.confidence} of 5 (concat)`);
    if (run.probability !== null) parts.push(`probability ${run.probability.toFixed(2)}`);
    if (run.turns) parts.push(`${run.turns} ${run.turns === 1 ? "turn" : "turns"}`);
    if (run.ending) parts.push(run.ending);
    if (run.order) parts.push(run.order);
    return parts.join(" · ");
  },
};
