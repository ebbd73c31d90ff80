/* Draws a run from data: on the live page, in a replay, in a saved report. Text is never markup. */
window.VRThinker ??= {};

/** An element. `look` is its class or its attributes; what is empty of `content` is left out. */
VRThinker.element = (tag, look = "", ...content) => {
  const node = document.createElement(tag);
  const attributes = typeof look === "string" ? look && { class: look } : look;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...content.flat().filter(Boolean));
  return node;
};

/** An element with these properties and children; what is empty of `children` is left out. */
VRThinker.make = (tag, properties, ...children) =>
  Object.assign(VRThinker.element(tag, "", ...children), properties);

/** A button that sends no form. */
VRThinker.button = (look, content, onClick = null) => {
  const node = VRThinker.element("button", look, content);
  node.type = "button";
  node.addEventListener("click", onClick);
  return node;
};

/** Make `node` say `text`. Only what is new is written: a selection of text outlives a stream. */
VRThinker.say = (node, text) => {
  const old = node.textContent;
  if (old === text) return;
  const grows = old && text.startsWith(old) && node.firstChild === node.lastChild;
  if (grows) node.firstChild.appendData(text.slice(old.length));
  else node.textContent = text;
};

/** Put what `draw` makes of `data` into `node` if `data` is new. Without data, hide the node. */
VRThinker.fill = (node, data, draw) => {
  const key = JSON.stringify(data ?? []);
  if (node.drawn === key) return false;
  node.drawn = key;
  node.hidden = key === "[]";
  node.replaceChildren(...(node.hidden ? [] : draw(data).flat().filter(Boolean)));
  return true;
};

VRThinker.seconds = (value) => (Number.isFinite(value) ? `${value.toFixed(2)} s` : "–");

VRThinker.colour = (node, position) => {
  const hues = [300, 140, 350, 110, 325, 160];
  node.style.setProperty("--hue", hues[position % hues.length]);
  node.classList.toggle("vrt-again", Math.floor(position / hues.length) % 2 === 1);
};

VRThinker.frames = (tile) => tile.label.replaceAll("#", "");
VRThinker.numbered = (tiles, number) =>
  tiles.filter((tile) => VRThinker.frames(tile).split(" · ").includes(number));

/** What tells a tile from others, and stays the same when its frames leave the judge's view. */
VRThinker.tileKey = ({ label, halves }) => JSON.stringify([label, halves.map((half) => half?.src)]);

/** Neighbours with the same pictures in stacks of one or more. */
VRThinker.stacks = (tiles) => {
  const stacks = [];
  let before = "";
  for (const tile of tiles) {
    const key = tile.halves.map((half) => half?.src).join();
    if (key.length > 1 && key === before) stacks.at(-1).push(tile);
    else stacks.push([tile]);
    before = key;
  }
  return stacks;
};

/** The first of `things` that is nearest, as `away` measures it; undefined if there are none. */
VRThinker.nearest = (things, away) => [...things].sort((a, b) => away(a) - away(b))[0];

/** Where a tile stands in the clips, 0 to 1. */
VRThinker.place = ({ halves }) => (halves[0] ?? halves[1]).place;
VRThinker.hasVerdict = (trace) => Boolean(trace.verdict?.chips.length);
VRThinker.notes = ({ length }) => `${length} ${length === 1 ? "note" : "notes"}`;
VRThinker.showTile = (detail) => document.dispatchEvent(new CustomEvent("vrt:tile", { detail }));

VRThinker.Trace = class {
  /** `messages(turn, order)`: [what was sent and came back in that turn, else null, and why]. */
  constructor(root, { empty, onTile, check, vote = [], following, onShow, messages }) {
    this.tiles = new VRThinker.Tiles(root, onTile);
    this.verdict = element("section", { class: "vrt-verdict", "aria-label": "Verdict" });
    this.verdict.addEventListener("click", ({ target }) => {
      const isFirst = target.closest(".vrt-ref") && this.order.swapped;
      if (isFirst) this.order.show(false); // the frames of the verdict are the first run's
    });
    this.ending = new VRThinker.Passage();
    Object.assign(this.ending.node, { className: "vrt-passage vrt-ending", role: "status" });
    this.health = element("details", "vrt-health", element("summary"), element("ul"));
    this.empty = empty ?? element("p"); // what stands here while there is no run
    const read = messages && ((turn) => messages(turn, this.order.swapped ? "swapped" : "given"));
    this.turns = new VRThinker.TurnList(this.tiles, "vrt-turns", "Turns of the judge", read);
    this.order = new VRThinker.Order({ check, following, onShow });
    this.vote = new VRThinker.Vote(...vote);
    this.other = button("vrt-pill", "", () => VRThinker.chooseJudge());
    const actions = (this.actions = element("div", "vrt-actions", this.other, this.vote.button));
    root.classList.add("vrt");
    this.walk = element("nav", { class: "vrt-walk", "aria-label": "Turns" });
    root.replaceChildren(this.verdict, this.ending.node, actions, this.order.node, this.vote.node);
    root.append(this.health, this.empty, this.order.notice, this.walk, this.turns.node);
    this.update({});
  }

  /** Draw `trace` as `RunView.page` gives it; what has not changed is left alone. */
  update(trace) {
    const { verdict, ending = "", choose, notes = [], health = [], run } = trace;
    const noted = [...notes, ...health];
    this.data = trace;
    this.order.update(trace);
    this.shown = this.order.shown(trace);
    const { turns = [], coming } = this.shown;
    fill(this.verdict, verdict, (told) => VRThinker.verdict(told, trace.turns));
    // Beside the words that it would change; moved only if it must be, for it may have the focus
    const place = this.verdict.querySelector(".vrt-unchecked") ?? this.actions;
    if (this.order.button.parentNode !== place) place.append(this.order.button, this.order.said);
    this.vote.update(trace);
    this.ending.update(ending);
    this.ending.node.hidden = !ending;
    say(this.other, choose);
    this.other.hidden = !choose || !VRThinker.chooseJudge; // a saved report has no other judge
    const [count, list] = this.health.children; // folded: they would push the turns down
    say(count, `${VRThinker.notes(noted)} on this run`);
    fill(list, noted, items);
    this.health.hidden = noted.length === 0;
    this.empty.hidden = turns.length > 0 || Boolean(ending || run);
    this.turns.node.classList.toggle("vrt-swapped", this.order.swapped);
    this.turns.update(this.shown, coming ? [...turns, { ...coming, coming: true }] : turns);
    this.tiles.markLinks(this.order.swapped ? this.turns.node : undefined);
    fill(this.walk, turns.length > 1 || coming ? VRThinker.steps(turns, coming) : [], (steps) =>
      steps.map((text, place) => {
        const step = element("a", { href: `#turn-${place + 1}` }, text);
        VRThinker.colour(step, place);
        return step;
      }));
  }

  /** Go to "#turn-2" or "#frame-62", the moment of a run that an address names. */
  goTo(hash, behavior = VRThinker.isCalm() ? "instant" : "smooth") {
    const [kind, number] = hash.slice(1).split("-");
    const [tile] = kind === "frame" ? this.tiles.numbered(number) : [];
    const node = tile ?? (kind === "turn" ? this.turns.cards[number - 1]?.node : null);
    if (!node) return;
    if (tile) this.tiles.choose(VRThinker.numbered(tile.tiles, number)[0], tile);
    node.scrollIntoView({ behavior });
  }
};

/** Each turn in short: what it saw, and what it asks for or answers. */
VRThinker.steps = (turns, coming) =>
  turns.map(({ tiles: { length }, labels = [], live }, place) => {
    const next = (turns[place + 1] ?? coming)?.tiles.length;
    const pairs = length > 0 && `${length} ${length === 1 ? "pair" : "pairs"}`;
    const said = live ? "…" : next ? `asks for ${next}` : labels.length > 0 && "answer";
    return [place + 1, pairs, said].filter(Boolean).join(" · ");
  });

/** A verdict's nodes. Without chips, the headline says why there is none. */
VRThinker.verdict = ({ headline, says, note, chips, caveats, outside }, turns) => [
  element("h2", "vrt-headline", headline),
  ...(outside ? VRThinker.demoRun(outside) : []),
  (says || note) && element("p", "vrt-unchecked", [says, note].filter(Boolean).join(" · ")),
  chips.length &&
    element("ul", "vrt-chips", chips.map((chip) => VRThinker.chip(chip, turns))),
  caveats.map((text) => element("p", "vrt-caveat", text)),
];

/** What a run without a verdict showed, the ways on from it, and its judge's words, folded. */
VRThinker.demoRun = ({ told, ways: [compare, vote], wrote: [title, texts] }) => {
  const text = ([heading, words]) => section("h3", heading, passage(words));
  const { chooseJudge, openVote } = VRThinker; // a saved report has neither
  const other = button("vrt-pill", compare, () => chooseJudge());
  const ways = [other, button("vrt-pill", vote, openVote)];
  return [
    element("p", "vrt-told", told),
    chooseJudge && element("p", "vrt-ways", ways),
    element("details", "vrt-raw vrt-wrote", element("summary", "", title), texts.map(text)),
  ];
};

/** One dimension: its label, the judge's sentence, and the pair of frames that decided it. */
VRThinker.chip = ({ name, label, value, help, order, reason, frames }, turns) => {
  const said = element("span", "vrt-label", element("b", "", label));
  // Two little screens side by side, filled where the better video is, both for a tie.
  const look = (side) => (value === side ? "better" : value === 0 ? "even" : "");
  const sides = [1, 2].map((side) => element("i", `vrt-side${side} ${look(side)}`, String(side)));
  const glyph = element("span", { class: "vrt-glyph", "aria-hidden": true }, sides);
  const row = element("summary", { title: help }, element("span", "vrt-name", name), glyph, said);
  return element("li", `vrt-chip vrt-says${value}`, element("details", "", row, help), [
    (order || reason) && element("div", "vrt-reason",
      order && element("p", "vrt-both", order),
      reason && link(element("p"), reason)),
    frames.length && VRThinker.decidingPair(frames[0], turns),
  ]);
};

/** A pair of frames in small, which opens it as its number in the text does. */
VRThinker.decidingPair = (label, turns) => {
  const tile = turns.flatMap(({ tiles }) => tiles).find((each) => each.label === label);
  const look = (side) => ({ alt: `Video ${side + 1}`, className: `vrt-side${side + 1}` });
  const style = ({ ratio }) => `aspect-ratio: auto ${ratio}`; // until the picture has come
  const picture = (half, side) =>
    half && make("img", { src: half.src, style: style(half), ...look(side) });
  const node = frameLink(label);
  node.classList.add("vrt-deciding-pair");
  node.prepend(...(tile?.halves ?? []).map(picture).filter(Boolean));
  return node;
};

/* The tiles of a run below `root`, and the frame numbers in its text that lead to them. */
VRThinker.Tiles = class {
  /** `onTile` is told which tile was chosen; without it nothing can be. */
  constructor(root, onTile) {
    Object.assign(this, { root, onTile });
    document.addEventListener("vrt:chosen", (event) => this.ring(this.find(event.detail)));
    for (const name of ["mouseover", "focusin", "mouseout", "focusout"]) {
      root.addEventListener(name, ({ target }) => {
        const isOut = name.endsWith("out");
        const link = target.closest(".vrt-ref");
        if (link) this.light(!isOut && link.dataset.frame);
        const tile = target.closest(".vrt-tile");
        if (tile) VRThinker.markSentences(root, isOut ? [] : tile.dataset.frames.split(" · "));
      });
    }
    root.addEventListener("click", ({ target }) => {
      const link = target.closest(".vrt-ref");
      const tiles = link ? this.numbered(link.dataset.frame) : [];
      const turn = link?.closest(".vrt-turn");
      const node = tiles.find((each) => turn?.contains(each)) ?? tiles.at(-1); // else the latest
      if (node) this.choose(VRThinker.numbered(node.tiles, link.dataset.frame)[0], node);
    });
  }

  all() {
    return [...this.root.querySelectorAll(".vrt-tile")];
  }

  find(tile) {
    const isIt = (each) => tileKey(each) === tileKey(tile);
    return this.all().find((node) => node.tiles.some(isIt));
  }

  numbered(number) {
    return this.all().filter((node) => VRThinker.numbered(node.tiles, number).length > 0);
  }

  light(number) {
    const lit = this.numbered(number);
    for (const node of this.all()) node.classList.toggle("lit", lit.includes(node));
    const tiles = lit.flatMap((node) => VRThinker.numbered(node.tiles, number));
    const detail = tiles.map(VRThinker.frames);
    document.dispatchEvent(new CustomEvent("vrt:light", { detail }));
  }

  /** A number without a tile is no link, wherever it stands below `root`. */
  markLinks(root = this.root) {
    const shown = new Set(this.all().flatMap((node) => node.dataset.frames.split(" · ")));
    for (const link of root.querySelectorAll(".vrt-ref")) {
      link.toggleAttribute("disabled", !shown.has(link.dataset.frame));
    }
  }

  choose(tile, node) {
    this.onTile?.(tile);
    if (this.onTile) this.ring(node);
  }

  ring(node) {
    for (const other of this.all()) other.removeAttribute("aria-current");
    node?.setAttribute("aria-current", "true");
  }

  open(tile, node, turn) {
    this.choose(tile, node);
    document.dispatchEvent(new CustomEvent("vrt:look", { detail: { tile, node, turn } }));
  }
};

VRThinker.MOST = 20_000; // characters that are drawn at first: a megabyte must not freeze the page

/* Text that may be very long: its beginning, and the rest when it is wanted. */
VRThinker.Passage = class {
  /** `write(node, text)` puts the text into `tag`. */
  constructor(tag = "p", write = say) {
    Object.assign(this, { write, text: "", most: VRThinker.MOST });
    this.body = element(tag, { dir: "auto" });
    this.more = button({ class: "vrt-more", hidden: "" }, "", () => {
      this.most = Infinity;
      this.draw();
    });
    this.node = element("div", "vrt-passage", this.body, this.more);
  }

  update(text) {
    const isNew = this.text !== text;
    this.text = text;
    if (isNew) this.draw();
    return this;
  }

  draw() {
    const { length } = this.text;
    this.write(this.body, this.text.slice(0, this.most));
    this.more.hidden = length <= this.most;
    const all = this.more.hidden ? "" : `Show all ${length.toLocaleString("en")} characters`;
    say(this.more, all);
  }
};

VRThinker.passage = (text, ...how) => new VRThinker.Passage(...how).update(text).node;
VRThinker.items = (texts) => texts.map((text) => element("li", "", passage(text, "span")));
VRThinker.group = (look, label, ...content) =>
  element("div", { class: look, role: "group", "aria-label": label }, ...content);
/** Show a dialog where Gradio's media queries reach; closed, it gives back the focus. */
VRThinker.showDialog = (node) => {
  (document.querySelector(".gradio-container .contain") ?? document.body).append(node);
  node.onkeydown ??= (event) => event.stopPropagation(); // moves no player
  node.showModal();
};
VRThinker.section = (tag, heading, ...nodes) =>
  element("section", "", element(tag, "", heading), nodes);

VRThinker.NUMBER = /(#?\d+[,.;:!?)\]}”…]*)/; // with the punctuation that no line may begin with
/* A number by itself is one, too, but no part of a label, a time or a share. */
VRThinker.UNITS = "%|px|m?s|fps|pixels?|seconds?|percent|frames?|pairs?|turns?|times?";
VRThinker.BEFORE = String.raw`(?<![\w.:%=/]|\bvideos? |\bvideos? \d and )`;
VRThinker.AFTER = String.raw`(?![\w%=/:]|\.\d|\s(?:${VRThinker.UNITS})(?!\w))`;
VRThinker.NAMED = new RegExp(
  String.raw`(\bvideo\s?[12]\b)|(?:\bframes?|\bind(?:ex|ices)|#|select_frames\(\[)\s*` +
    String.raw`(?:\d{1,9}(?:\s*(?:,|and|to|-|–|&|#)\s*)*)+[,.;:!?)\]}”…]*|` +
    String.raw`${VRThinker.BEFORE}\d{2,4}${VRThinker.AFTER}`,
  "gi",
);
VRThinker.MOST_LINKS = 200;

/** Highlight the sentences below `root` that name one of these frames, where the browser can. */
VRThinker.markSentences = (root, numbers, name = "vrt-named") => {
  if (!window.Highlight) return;
  const marked = new Highlight();
  for (const node of numbers.length ? root.querySelectorAll(".vrt-text p") : []) {
    const texts = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
    let [text, begin, end] = [texts.nextNode(), 0, 0]; // of the text, and of the sentence
    for (const sentence of node.textContent.split(VRThinker.SENTENCE)) {
      const range = VRThinker.isNamed(sentence, numbers) && new Range();
      if (range) range.setStart(text, end - begin);
      for (end += sentence.length; text && begin + text.length <= end; text = texts.nextNode()) {
        if (range) range.setEnd(text, text.length);
        begin += text.length;
      }
      if (range && text && end > begin) range.setEnd(text, end - begin);
      if (range) marked.add(range);
    }
  }
  CSS.highlights.set(name, marked);
};

/** `text` as nodes: its videos have their colours, and its frame numbers lead to their frames. */
VRThinker.pieces = (text) => {
  const { MOST_LINKS, NAMED, NUMBER } = VRThinker;
  const parts = [""]; // words and names in turn, with words at either end
  let end = 0;
  for (const { 0: found, 1: video, index } of text.matchAll(NAMED)) {
    if (parts.length > 2 * MOST_LINKS) break;
    const [words, ...rest] = video ? ["", video, ""] : found.split(NUMBER);
    parts.push(parts.pop() + text.slice(end, index) + words, ...rest);
    end = index + found.length;
  }
  parts.push(parts.pop() + text.slice(end));
  return parts.flatMap((part, place) => {
    if (place % 2 === 0) return part ? document.createTextNode(part) : [];
    const [, number, after] = part.match(/^(#?\d+)(.*)/) ?? [];
    if (!number) return element("b", `vrt-v${part.at(-1)}`, part);
    return after ? element("span", "vrt-kept", frameLink(number), after) : frameLink(number);
  });
};

VRThinker.link = (node, text) => VRThinker.replace(node, VRThinker.pieces(text));

/** Make `pieces` the content of `node`, but keep equal ones: a selection outlives a stream. */
VRThinker.replace = (node, pieces) => {
  const old = [...node.childNodes];
  const isSame = ({ nodeName, textContent }, other) =>
    nodeName === other?.nodeName && textContent === other.textContent;
  let same = 0;
  while (same < pieces.length && isSame(pieces[same], old[same])) same += 1;
  const [words, more] = [old[same]?.data, pieces[same]?.data];
  if (words && more?.startsWith(words)) {
    old[same].appendData(more.slice(words.length));
    same += 1;
  }
  for (const child of old.slice(same)) child.remove();
  node.append(...pieces.slice(same));
  return node;
};

/** A number that leads to its tile. Where no such tile is shown it is plain text (`markLinks`). */
VRThinker.frameLink = (label) => {
  const number = label.split(" · ")[0].replace("#", "");
  return button({ class: "vrt-ref", "data-frame": number }, label);
};

/* One turn of the judge: the frames it looked at beside what it wrote. */
VRThinker.Turn = class {
  constructor(position, onTile, messages) {
    const name = `turn ${position + 1}`;
    Object.assign(this, { onTile, parts: [] });
    this.state = element("span", "vrt-state");
    this.foot = element("p", "vrt-foot");
    this.sure = element("p", "vrt-sure");
    this.tiles = element("ul", { class: "vrt-tiles", "aria-label": `Frames of ${name}` });
    this.aside = element("div");
    this.reply = element("div");
    this.wants = element("div", "vrt-wants");
    this.course = element("ul", { class: "vrt-course", "aria-label": `Labels of ${name}` });
    this.remarks = element("ul", "vrt-remarks");
    this.about = element("summary");
    this.details = element("details", "", this.about, this.remarks, this.sure, this.foot);
    this.exact = messages && new VRThinker.Exact(() => messages(position));
    const header = element("header", "", element("h3", "", `Turn ${position + 1}`), this.state);
    const text = element("div", "vrt-text", this.aside, this.reply, this.wants, this.course);
    this.tail = element("div", "vrt-tail", this.details, this.exact?.node);
    const look = { class: "vrt-turn", id: `turn-${position + 1}` };
    this.node = element("li", look, header, this.tiles, text, this.tail);
    VRThinker.colour(this.node, position);
  }

  /** Of a turn that is only `coming` there are no more than its state and empty tiles. */
  update({ state, foot = "", coming, live, taken, tiles, parts = [], facts, wants, ...turn }) {
    const { confidence = [], aside, labels, remarks = [], sealed, stacked = true } = turn;
    say(this.state, state);
    say(this.foot, foot);
    fill(this.sure, confidence, ([text, help]) => [element("b", "", text), ` ${help}`]);
    const looks = { live, taken, coming, bare: tiles.length === 0 };
    for (const look in looks) this.node.classList.toggle(look, Boolean(looks[look]));
    const stacks = stacked && !coming ? VRThinker.stacks(tiles) : tiles.map((tile) => [tile]);
    const draw = (some) => this.tile(some, coming);
    fill(this.tiles, tiles.map((tile) => [tileKey(tile), coming]), () => stacks.map(draw));
    fill(this.aside, aside, ([name, text, help]) => {
      const about = [element("summary", "", name), element("p", "vrt-aside-help", help)];
      return [element("details", "vrt-raw vrt-aside", about, passage(text))];
    });
    parts.forEach((part, place) => this.drawPart(place, part, place ? null : facts));
    for (const { node } of this.parts.splice(parts.length)) node.remove();
    fill(this.wants, wants ? [wants] : [], () => [link(element("p"), wants)]);
    fill(this.course, labels, () => labels.map(VRThinker.courseItem));
    fill(this.remarks, remarks, items);
    say(this.about, remarks.length ? `Details · ${VRThinker.notes(remarks)}` : "Details");
    this.details.hidden = !foot && confidence.length + remarks.length === 0;
    if (this.exact) this.exact.node.hidden = live || coming || sealed;
    this.tail.hidden = this.details.hidden && (this.exact?.node.hidden ?? true);
  }

  /** One tile for a stack of them; an empty place for frames that are only `coming`. */
  tile(tiles, coming) {
    const [tile] = tiles;
    const names = element("b", "", tiles.map((each) => each.label).join(" = "));
    const times = tile.halves.map((half) => seconds(half?.time)).join(" | ");
    const draw = (half, side) => VRThinker.screen(half, side, coming);
    const screens = element("span", "vrt-screens", tile.halves.map(draw));
    const caption = element("span", "vrt-caption", names, !coming && element("span", "", times));
    if (coming) return element("li", "vrt-empty-tile", screens, caption);
    const look = { class: "vrt-tile", title: "Look closer", "aria-haspopup": "dialog" };
    const node = button(look, [screens, caption], () => this.onTile(tile, node));
    node.dataset.frames = tiles.map(VRThinker.frames).join(" · ");
    node.classList.toggle("stack", tiles.length > 1);
    Object.assign(node, { tiles, tile });
    return element("li", "", node);
  }

  /** Write a part of the reply, its text folded below the facts that were read from it, if any. */
  drawPart(place, [heading, text], facts) {
    if (!this.parts[place]) {
      const passage = new VRThinker.Passage("p", link);
      this.parts[place] = { node: element("section"), title: element("h4"), passage };
      this.reply.append(this.parts[place].node);
    }
    const { node, title, passage } = this.parts[place];
    say(title, heading);
    passage.update(text);
    fill(node, [facts], () => [title, facts ? VRThinker.facts(facts, passage.node) : passage.node]);
  }
};

/** A frame, or its empty place while it is only `coming`. */
VRThinker.screen = (half, side, coming) => {
  const missing = (why) => element("span", "vrt-missing", why);
  if (!half) return coming ? element("span") : missing("not requested");
  const look = { alt: `Video ${side + 1}`, decoding: "async", src: half.src };
  const image = coming ? null : element("img", look);
  const screen = element("span", `vrt-screen vrt-side${side + 1}`, image);
  (image ?? screen).style.aspectRatio = half.ratio;
  image?.addEventListener("error", () => image.replaceWith(missing("picture lost")));
  return screen;
};

/** What the judge would have answered at the end of a turn. */
VRThinker.courseItem = ({ name, label, value, probability: [, help = ""] = [] }) => {
  const look = { class: `vrt-says${value}`, title: help };
  return element("li", look, `${name} `, element("b", "", label));
};

/** The turns of the run that is shown, in a list; `tiles` opens the pair that was clicked. */
VRThinker.TurnList = class {
  constructor(tiles, className, label, messages) {
    Object.assign(this, { tiles, messages, cards: [] });
    this.node = element("ol", { class: className, "aria-label": label });
  }

  /** What has not changed is left alone, unless `turns` are of another run or the other order. */
  update({ run, shownOrder, ballot }, turns) {
    const shown = `${run} ${shownOrder}`;
    const kept = this.shown === shown ? turns.length : 0;
    for (const { node } of this.cards.splice(kept)) node.remove();
    this.shown = shown;
    turns.forEach((turn, position) => {
      if (position === this.cards.length) {
        const open = (tile, node) => this.tiles.open(tile, node, position);
        this.cards.push(new VRThinker.Turn(position, open, this.messages));
        this.node.append(this.cards[position].node);
      }
      this.cards[position].update({ ...turn, sealed: Boolean(ballot?.hidden) });
    });
  }
};

/* All scripts of a page are one: these names hold in each of them. */
const { element, make, button, say, fill, seconds, passage, section, items, link } = VRThinker;
const { frameLink, group, tileKey } = VRThinker;
