/* Sends Gradio's heartbeat over a WebSocket. Gradio's own takes one of the six connections that a
browser opens to a server: six open pages would leave none for Stop. A WebSocket is not counted.
Where none can be had, Gradio's own heartbeat stays. This script runs before Gradio's. */
{
  const fetched = window.fetch.bind(window);
  const overSocket = (request) =>
    new Promise((resolve) => {
      const socket = new WebSocket(request.url.replace(/^http/, "ws"));
      const start = (page) => {
        socket.onclose = () => page.error(new TypeError("The connection is lost."));
      };
      socket.onopen = () => {
        socket.onerror = null;
        resolve(new Response(new ReadableStream({ start, cancel: () => socket.close() })));
      };
      socket.onerror = () => resolve(fetched(request));
      request.signal.addEventListener("abort", () => socket.close());
    });
  window.fetch = (address, options) => {
    const isHeartbeat = String(address.url ?? address).includes("/heartbeat/");
    return isHeartbeat ? overSocket(new Request(address, options)) : fetched(address, options);
  };
}

/* Gradio's page asks the address that its server knows. Where a proxy serves the page elsewhere, it
would stay blank. */
{
  const { elsewhere } = document.currentScript.dataset;
  document.addEventListener("DOMContentLoaded", () => {
    const known = new URL(window.gradio_config.root, location.href);
    const [place, path] = [known, location].map(({ pathname }) => pathname.replace(/\/$/, ""));
    const sameHost = known.hostname === location.hostname;
    if (sameHost && place === path) return;
    const address = (sameHost && path) || location.origin + path;
    document.body.textContent = elsewhere.replaceAll("{}", address);
  });
}
