/* One row of the runs of a folder, in the list and above the viewer. */
VRThinker.RunRow = {
  LABELS: ["tie", "1", "2"],
  KNOWN: ["data_set", "people"],

  /** The judge's labels beside the data set's and people's; null where there are none. */
  labels(run, texts) {
    const { element } = VRThinker;
    const known = this.KNOWN.filter((who) => run[who].some((label) => label !== null));
    if (!known.length && !run.judge.length) return null;
    if (!known.length) known.push("people"); // who said nothing
    const table = element("table", "vrt-row-labels");
    const head = element("tr");
    const columns = texts.dimensions.map(([key]) => key);
    head.append(element("td"), ...texts.dimensions.map(([key, name]) => this.column(key, name)));
    table.append(head);
    const judge = this.by(run.judge);
    const others = known.map((who) => [who, this.by(run[who])]);
    const truth = this.by(run.data_set);
    for (const [who, said] of [["judge", judge], ...others]) {
      const row = element("tr");
      const name = element("th", "", texts[who]);
      const compared = who === "judge" ? others.map(([, other]) => other) : [judge];
      name.scope = "row";
      const unknown = (key) => (who === "judge" && run.flips.includes(key) ? texts.flips : "–");
      const differs = (key) => compared.some((other) => this.differ(said[key], other[key]));
      row.append(name, ...columns.map((key) => this.cell(said[key], differs(key), unknown(key))));
      if (who === "judge") columns.forEach((key, place) => this.mark(row.children[place + 1], judge[key], truth[key], texts));
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

  cell(label, differs, unknown) {
    const text = this.LABELS[label] || unknown;
    return VRThinker.element("td", `${label ? `vrt-v${label}` : ""} ${differs ? "vrt-label-differs" : ""}`.trim(), text);
  },

  /** Whether the judge's label is the one that the data set gives. */
  mark(cell, label, truth, texts) {
    if (!Number.isInteger(label) || !Number.isInteger(truth)) return;
    const right = label === truth;
    const mark = VRThinker.element("span", "vrt-label-mark", right ? "✓" : "✗");
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", right ? texts.right : texts.wrong);
    cell.append(" ", mark);
  },

  /** All that is known beside the labels, in one line. */
  facts(run) {
    const parts = [];
    const known = run.judge.length ? run.data_set.filter((label) => label !== null).length : 0;
    const right = run.judge.filter((label, place) => label !== null && label === run.data_set[place]).length;
    if (known) parts.push(`${right} of ${known} labels right`);
    if (run.confidence !== null) parts.push(`confidence ${run.confidence} of 5 (concat)`);
    if (run.probability !== null) parts.push(`probability ${run.probability.toFixed(2)}`);
    if (run.turns) parts.push(`${run.turns} ${run.turns === 1 ? "turn" : "turns"}`);
    if (run.ending) parts.push(run.ending);
    if (run.order) parts.push(run.order);
    return parts.join(" · ");
  },
};
