/* The page's address names the run that is shown, and back and forward show the runs that were shown before. */
VRThinker.Address = class {
  /** `open(name, lost)` asks the server for the run of that name. `lost`: it has none, but a run was shown there. */
  constructor(open) {
    this.run = null;
    this.awaited = null; // the name that the browser went to, until that run is shown
    document.addEventListener("vrt:trace", (event) => this.show(event.detail || {}));
    window.addEventListener("popstate", (event) => {
      this.awaited = this.shown();
      open(this.awaited, Boolean(event.state && event.state.run));
    });
  }

  /** The name in the address, "" where there is none. */
  shown() {
    return new URLSearchParams(location.search).get("trace") || "";
  }

  /** Each run that is shown is a step of the browser's history, a run that the address names already is none. */
  show({ run, address = "" }) {
    if (!run || run === this.run) return;
    const first = this.run === null;
    this.run = run;
    if (address && this.awaited !== null && address !== this.awaited) return; // the browser has gone on meanwhile
    this.awaited = null;
    const same = address === this.shown();
    if (same && (address || first)) history.replaceState({ ...history.state, run }, "");
    else history.pushState({ run }, "", this.of(address));
  }

  /** What comes next was chosen by the person: no step back or forward is awaited any more. */
  forget() {
    this.awaited = null;
  }

  /** The run that is shown has got this name. */
  name(address) {
    history.replaceState({ ...history.state, run: this.run }, "", this.of(address));
  }

  of(address) {
    const url = new URL(location.href);
    if (address) url.searchParams.set("trace", address);
    else url.searchParams.delete("trace");
    return url;
  }
};
