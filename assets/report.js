/* Draws a saved report from the data that lies in the same file. */
(() => {
  const { trace, transcript } = JSON.parse(document.getElementById("data").textContent);
  const prompt = new VRThinker.Passage("p");
  prompt.update(trace.prompt);
  document.querySelector(".vrt-prompt").append(prompt.node);
  VRThinker.say(document.querySelector(".vrt-judge"), trace.judge);
  new VRThinker.Trace(document.getElementById("trace")).update(trace);
  new VRThinker.Transcript(document.getElementById("transcript")).update(transcript);
})();
