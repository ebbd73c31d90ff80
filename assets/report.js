/* Draws a saved report from the data that lies in the same file. */
(() => {
  const { trace, transcript } = JSON.parse(document.getElementById("data").textContent);
  const prompt = new VRThinker.Passage("p");
  prompt.update(trace.prompt);
  document.querySelector(".vrt-prompt").append(prompt.node);
  VRThinker.say(document.querySelector(".vrt-judge"), trace.judge);
  VRThinker.trace = trace;
  VRThinker.closer = new VRThinker.Closer();
  new VRThinker.Trace(document.getElementById("trace")).update(trace);
  const frames = document.getElementById("frames");
  frames.addEventListener("toggle", () => new VRThinker.Frames(frames.lastElementChild, "").update(trace), { once: true });
  new VRThinker.Transcript(document.getElementById("transcript")).update(transcript);
})();
