// The socket to the run's server: opens it again by itself, and gives each message to whoever it is for.

const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 8000;
const MANY = 5; // failures after which the longest wait is reached
const REFUSED = 1008; // a socket's code for "that is nothing that may be said here"
const SILENT_MS = 15000; // a server says something several times a second
const PICTURE_HEADER = 14; // kind, tile, sequence number, age

/**
 * A connection that is kept up.
 *
 * `on` has a function for each type of message, and `picture`, `opened`, `closed(waitMs)`,
 * `trying` and `refused(status, text)`.
 */
export class Connection {
  constructor(on) {
    this.on = on;
    this.socket = null;
    this.failures = 0;
    this.heard = 0;
    this.timer = 0;
    addEventListener("online", () => this.retry());
    document.addEventListener("visibilitychange", () => document.hidden || this.retry());
    setInterval(() => this.listen(), 5000);
    this.open();
  }

  get live() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  open() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.on.trying();
    const address = new URL("ws", document.baseURI);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    address.search = "";
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => (this.heard = performance.now());
    socket.onmessage = (event) => {
      this.heard = performance.now();
      if (typeof event.data === "string") this.text(event.data);
      else this.binary(event.data);
    };
    socket.onclose = (event) => this.closed(socket, event.code === REFUSED);
    this.socket = socket;
  }

  /** Wait longer each time; a server that doesn't understand the page will not the next time. */
  closed(socket, refused = false) {
    if (socket !== this.socket) return;
    this.socket = null;
    if (refused) this.failures = Math.max(this.failures, MANY);
    const wait = Math.min(FIRST_WAIT_MS * 2 ** this.failures, LONGEST_WAIT_MS);
    this.failures += 1;
    this.timer = setTimeout(() => this.open(), wait);
    this.on.closed(wait);
    if (this.failures === 3) this.ask();
  }

  /** Try at once where a next attempt is only waited for. */
  retry() {
    if (this.timer) this.open();
  }

  /** Close a socket whose server has been silent: its machine may be gone without a word. */
  listen() {
    if (!this.live || document.hidden || performance.now() - this.heard < SILENT_MS) return;
    const socket = this.socket;
    socket.close();
    this.closed(socket);
  }

  /** Find out why the socket does not open; a browser doesn't say it of a socket. */
  async ask() {
    try {
      const answer = await fetch("api/state", { cache: "no-store" });
      if (!answer.ok && !this.live) this.on.refused(answer.status, await answer.text());
    } catch {
      // nobody there
    }
  }

  send(message) {
    if (this.live) this.socket.send(JSON.stringify(message));
  }

  /** Open sockets may still be turned away: only a greeting counts. */
  welcome() {
    this.failures = 0;
    this.on.opened();
  }

  text(data) {
    const message = JSON.parse(data);
    if (message.type === "hello") this.welcome();
    this.on[message.type]?.(message);
  }

  binary(data) {
    const head = new DataView(data);
    this.on.picture({
      kind: head.getUint8(0),
      tile: head.getUint8(1),
      seq: head.getUint32(2, true),
      age: head.getFloat64(6, true),
      received: performance.now(),
      blob: new Blob([new Uint8Array(data, PICTURE_HEADER)]),
    });
  }
}
