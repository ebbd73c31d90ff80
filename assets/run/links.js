/* A judge's text in which the two videos have their colours and every frame number leads to its frame. */
VRThinker.NAMED = /(\bvideo\s?[12]\b)|(?:\bframes?|\bind(?:ex|ices)|#|select_frames\(\[)\s*(?:\d{1,9}(?:\s*(?:,|and|to|-|–|&|#)\s*)*)+/gi;
VRThinker.MOST_LINKS = 400;
VRThinker.CLOSING = /^[,.;:!?)\]}”…]*/; // punctuation that no line begins with

/** Write `text` into `node`. Pieces that stand there already are left alone, so that a selection outlives a stream. */
VRThinker.link = (node, text) => {
  const pieces = VRThinker.pieces(text);
  const old = [...node.childNodes];
  let same = 0;
  while (same < pieces.length && same < old.length && VRThinker.isPiece(old[same], pieces[same])) same += 1;
  const [kind, words] = pieces[same] || [];
  if (kind === "text" && old[same] && old[same].nodeType === 3 && words.startsWith(old[same].data)) {
    old[same].appendData(words.slice(old[same].data.length));
    same += 1;
  }
  old.slice(same).forEach((child) => child.remove());
  node.append(...pieces.slice(same).map(VRThinker.drawPiece));
};

/**
 * [kind, text] of each piece: "text", "v1", "v2", or "frame" for a number, with its "#", and behind it the punctuation that follows:
 * no line ends between them.
 */
VRThinker.pieces = (text) => {
  const pieces = [];
  let end = 0;
  const push = (kind, piece) => {
    if (piece) pieces.push([kind, piece]);
  };
  for (const match of text.matchAll(VRThinker.NAMED)) {
    if (pieces.length > VRThinker.MOST_LINKS) break;
    push("text", text.slice(end, match.index));
    if (match[1]) push(`v${match[1].at(-1)}`, match[1]);
    else match[0].split(/(#?\d+)/).forEach((part, odd) => push(odd % 2 ? "frame" : "text", part));
    end = match.index + match[0].length;
  }
  push("text", text.slice(end));
  return VRThinker.joined(pieces);
};

/** Neighbouring pieces of text are one node: what streams in is appended to it. */
VRThinker.joined = (pieces) => {
  const joined = [];
  for (const [kind, text] of pieces) {
    const last = joined.at(-1);
    const kept = kind === "text" && last && last[0] === "frame" ? text.match(VRThinker.CLOSING)[0] : "";
    if (kept) last[2] = (last[2] || "") + kept;
    if (last && kind === "text" && last[0] === "text") last[1] += text;
    else if (kept !== text) joined.push([kind, text.slice(kept.length)]);
  }
  return joined;
};

VRThinker.isPiece = (child, [kind, text, kept = ""]) => child.textContent === text + kept && (kind === "text") === (child.nodeType === 3);

VRThinker.drawPiece = ([kind, text, kept]) => {
  if (kind === "text") return document.createTextNode(text);
  if (kind !== "frame") return VRThinker.element("b", `vrt-${kind}`, text);
  const link = VRThinker.frameLink(text.replace("#", ""), text);
  if (!kept) return link;
  const both = VRThinker.element("span", "vrt-kept");
  both.append(link, kept);
  return both;
};

/** A number that leads to the tile of that frame. Where no such tile is shown it is plain text (`Trace.markLinks`). */
VRThinker.frameLink = (number, text) => {
  const link = VRThinker.button("vrt-ref", text);
  link.dataset.frame = number;
  return link;
};
