/* The page's address names the run that is shown, and back and forward show the runs that were shown before. */
VRThinker.Address = class {
  /**
   * `open(kind, name, lost)` asks the server for a run: "trace" is one behind a link, "run" one of the visitor's own, "" none.
   * `lost`: the address names none, but a run was shown there.
   */
  constructor(open) {
    this.run = null;
    this.awaited = null; // what the browser went to, until that run is shown
    document.addEventListener("vrt:trace", (event) => this.show(event.detail || {}));
    window.addEventListener("popstate", (event) => {
      this.awaited = this.shown();
      const [kind, name] = this.awaited.split("=");
      open(kind, name || "", Boolean(event.state && event.state.run));
    });
  }

  /** What the address names, as "trace=NAME" or "run=NAME"; "" where it names nothing. */
  shown() {
    const found = new URLSearchParams(location.search);
    return ["trace", "run"].filter((kind) => found.get(kind)).map((kind) => `${kind}=${found.get(kind)}`)[0] || "";
  }

  /** Each run that is shown is a step of the browser's history, a run that the address names already is none. */
  show({ run, address = "", kept = "" }) {
    if (!run || run === this.run) return;
    const first = this.run === null;
    const query = address ? `trace=${address}` : kept ? `run=${kept}` : "";
    this.run = run;
    if (query && this.awaited !== null && query !== this.awaited) return; // the browser has gone on meanwhile
    this.awaited = null;
    const same = query === this.shown();
    if (same && (query || first)) history.replaceState({ ...history.state, run }, "");
    else history.pushState({ run }, "", this.of(query));
  }

  /** What comes next was chosen by the person: no step back or forward is awaited any more. */
  forget() {
    this.awaited = null;
  }

  /** The run that is shown has got this link. */
  name(address) {
    history.replaceState({ ...history.state, run: this.run }, "", this.of(`trace=${address}`));
  }

  of(query) {
    const url = new URL(location.href);
    const [kind, name] = query.split("=");
    for (const each of ["trace", "run"]) url.searchParams.delete(each);
    if (kind) url.searchParams.set(kind, name);
    return url;
  }
};
