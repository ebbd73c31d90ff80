/* Gradio's heartbeat, over a WebSocket. A browser keeps at most six connections open to a server, and Gradio's stream of each page is
one: with six pages open no request would get through, Stop neither. A WebSocket is not counted. Where none can be had, the heartbeat
is Gradio's own stream, which it opens before any other script of ours is there: this one stands in the page's head. */
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
    const { pathname } = new URL(address.url || address, location.href);
    return pathname.includes("/heartbeat/") ? overSocket(new Request(address, options)) : fetched(address, options);
  };
}
