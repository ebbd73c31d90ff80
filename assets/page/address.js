/* The page's address names the run that is shown, and back and forward show the runs that were shown before. */
VRThinker.Address = class {
  constructor() {
    this.run = null;
    this.awaited = null; // what the browser went to, until that run is shown
    this.asked = this.shown() || null; // what the server is asked for; a page that opens asks for the run in its address
    this.next = null; // what to ask for once that is answered
    this.ending = this.asked === null ? 1 : 0; // events that are over for us, and whose end the server has not told yet
    this.ask = () => {};
    document.addEventListener("vrt:trace", (event) => this.show(event.detail || {}));
    window.addEventListener("popstate", (event) => {
      this.awaited = this.shown();
      this.open(this.awaited, Boolean(event.state && event.state.run));
    });
  }

  /** What the address names: "trace=NAME" is a run behind a link, "run=NAME" one of the visitor's own, "" none. */
  shown() {
    const found = new URLSearchParams(location.search);
    return ["trace", "run"].filter((kind) => found.get(kind)).map((kind) => `${kind}=${found.get(kind)}`)[0] || "";
  }

  /** A person chose a saved run: no step back or forward is awaited any more. */
  choose(query) {
    this.awaited = null;
    this.open(query, false);
  }

  /**
   * Have that run shown. Answers may come in another order than what they answer, so that the server is asked for one run at a
   * time, and of those that are wanted meanwhile for the latest. `lost`: the address names none, but a run was shown there.
   */
  open(query, lost) {
    VRThinker.uploads.drop(); // else their files would take the place of that run's
    if (this.asked !== null) {
      this.next = query === this.asked ? null : [query, lost];
      return;
    }
    const [kind, name = ""] = query.split("=");
    this.asked = query;
    this.ask(kind, name, lost);
  }

  /** An event that opens a run has ended, whatever it said. By then its run may be shown, and another one asked for. */
  ended() {
    if (this.ending) this.ending -= 1;
    else this.answered();
  }

  /** The next one may be asked for. */
  answered() {
    const { next } = this;
    this.asked = null;
    this.next = null;
    if (next) this.open(...next);
  }

  /** Each run that is shown is a step of the browser's history, a run that the address names already is none. */
  show({ run, address = "", kept = "" }) {
    if (!run || run === this.run) return;
    const first = this.run === null;
    const query = address ? `trace=${address}` : kept ? `run=${kept}` : "";
    this.run = run;
    if (query && query === this.asked) {
      this.ending += 1; // which may take as long as the run goes on
      this.answered();
    }
    if (query && this.awaited !== null && query !== this.awaited) return; // the browser has gone on meanwhile
    this.awaited = null;
    const same = query === this.shown();
    if (same && (query || first)) history.replaceState({ ...history.state, run }, "");
    else history.pushState({ run }, "", this.of(query));
  }

  /** The run that is shown has got this link. */
  name(address) {
    history.replaceState({ ...history.state, run: this.run }, "", this.of(`trace=${address}`));
  }

  /** The run that is shown can be opened by no address any more. */
  forget() {
    history.replaceState(history.state, "", this.of(""));
  }

  of(query) {
    const url = new URL(location.href);
    const [kind, name] = query.split("=");
    for (const each of ["trace", "run"]) url.searchParams.delete(each);
    if (kind) url.searchParams.set(kind, name);
    return url;
  }
};
