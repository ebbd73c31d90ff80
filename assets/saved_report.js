/* Draws a saved report from the data that lies in the same file. */
(() => {
  const { trace, transcript } = JSON.parse(document.getElementById("data").textContent);
  const prompt = new VRThinker.Passage("p");
  prompt.update(trace.prompt);
  document.querySelector(".vrt-prompt").append(prompt.node);
  VRThinker.say(document.querySelector(".vrt-judge"), trace.judge);
  VRThinker.closer = new VRThinker.Closer();
  const frames = document.getElementById("frames");
  const gallery = new VRThinker.Frames(frames.lastElementChild, "");
  const drawFrames = () => frames.open && gallery.update(VRThinker.shown);
  const onShow = () => {
    view.update(trace);
    VRThinker.shown = view.shown;
    drawFrames();
  };
  const view = new VRThinker.Trace(document.getElementById("trace"), { onShow });
  onShow();
  frames.addEventListener("toggle", drawFrames);
  new VRThinker.Transcript(document.getElementById("transcript")).update(transcript);
})();
