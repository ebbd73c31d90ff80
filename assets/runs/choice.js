/* What is chosen of the runs of a folder: filters, a search, an order, a page. The list shows it, and the bar steps through it. */
VRThinker.RunChoice = class {
  constructor() {
    this.only = new Set();
    this.search = "";
    this.sort = "row";
    this.page = 1;
  }

  /** Any other choice begins at its first page. */
  change(values) {
    Object.assign(this, { page: 1, ...values });
    document.dispatchEvent(new CustomEvent("vrt:choice"));
  }

  toggle(kind) {
    const only = new Set(this.only);
    if (!only.delete(kind)) only.add(kind);
    this.change({ only });
  }

  get query() {
    return new URLSearchParams({ only: [...this.only].join(","), search: this.search, sort: this.sort, page: this.page });
  }

  /** The list, or one row with its neighbours. Raises a sentence. */
  ask(name, texts) {
    return VRThinker.askRuns(`${name && `/${encodeURIComponent(name)}`}?${this.query}`, texts);
  }
};

/** What the server says to that path below `evaluation`. Raises a sentence. */
VRThinker.askRuns = async (path, texts) => {
  const answer = await fetch(`evaluation${path}`).catch(() => null);
  if (!answer) throw texts.unreachable;
  if (!answer.ok) throw answer.status === 400 || answer.status === 404 ? await answer.text() : texts.unreachable;
  return answer.json();
};

VRThinker.runChoice = new VRThinker.RunChoice();

/** Show that row in the ordinary viewer. */
VRThinker.openRow = (name) => VRThinker.address.choose(`trace=${name}`);
