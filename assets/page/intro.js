/* What a page without a run shows: what it is for, how it goes, and a recording of a real run. */
VRThinker.intro = ({ lead, steps, links, loop }) => {
  const { element } = VRThinker;
  const root = element("section", "vrt-intro");
  root.setAttribute("aria-label", "How it works");
  const text = element("div");
  const list = element("ol", "vrt-steps");
  list.append(...steps.map((step) => element("li", "", step)));
  const line = element("p", "vrt-links");
  line.append(...links.map(([label, address]) => VRThinker.outside(label, address)));
  text.append(element("p", "vrt-lead", lead), list, line);
  root.append(text, VRThinker.recording(loop));
  return root;
};

VRThinker.outside = (label, address) => {
  const link = VRThinker.element("a", "", label);
  link.href = address;
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  return link;
};

/** A silent loop with a button that holds it; whoever asked for less motion starts it themselves. */
VRThinker.recording = ({ folder, label }) => {
  const { element } = VRThinker;
  const figure = element("figure", "vrt-loop");
  const video = element("video");
  Object.assign(video, { muted: true, loop: true, playsInline: true, preload: "auto" });
  video.src = `${folder}/${document.body.classList.contains("dark") ? "dark" : "light"}.mp4`;
  video.setAttribute("aria-label", label);
  const button = VRThinker.button("vrt-hold");
  const draw = () => {
    VRThinker.say(button, video.paused ? "▶" : "❚❚");
    button.setAttribute("aria-label", video.paused ? "Play the recording" : "Pause the recording");
  };
  video.addEventListener("play", draw);
  video.addEventListener("pause", draw);
  draw();
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let held = calm;
  button.addEventListener("click", () => {
    held = !video.paused;
    if (held) video.pause();
    else video.play().catch(() => {});
  });
  if (calm) video.currentTime = 1e6; // its end: the verdict
  // Nobody sees it further down, nor once a run stands in its place.
  new IntersectionObserver(([seen]) => {
    if (!seen.isIntersecting) video.pause();
    else if (!held) video.play().catch(() => {});
  }).observe(video);
  figure.append(video, button);
  return figure;
};
