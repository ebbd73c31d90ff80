/* The switch "Vote first". A cookie holds it: the server must know it before it sends the first word of a judge. */
VRThinker.mountVoteFirst = (root) => {
  const { element } = VRThinker;
  root.classList.add("vrt", "vrt-vote-first");
  const label = element("label");
  const box = element("input");
  box.type = "checkbox";
  box.checked = /(^|; )vote_first=on(;|$)/.test(document.cookie);
  label.append(box, element("b", "", "Vote first"), element("span", "", "Hide each run’s verdict until I have voted."));
  root.replaceChildren(label);
  box.addEventListener("change", () => {
    // A page inside another site's frame, as on Hugging Face, keeps only cookies of this kind.
    const scope = location.protocol === "https:" ? "SameSite=None; Secure; Partitioned" : "SameSite=Lax";
    document.cookie = `vote_first=${box.checked ? "on" : "off"}; path=/; max-age=31536000; ${scope}`;
    document.dispatchEvent(new CustomEvent("vrt:votefirst", { detail: box.checked }));
  });
};
