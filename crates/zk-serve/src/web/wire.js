// Requests to zk and its notifications, over a WebSocket that is opened again when it breaks. The token is exchanged for the
// key of a link that works once, and kept for this tab alone.
const TOKEN = "zk-token";

async function token() {
  const key = location.hash.slice(1);
  if (!key) return sessionStorage.getItem(TOKEN);
  history.replaceState(null, "", "/");
  const answer = await fetch("/session", { method: "POST", body: key });
  if (!answer.ok) return sessionStorage.getItem(TOKEN);
  const given = await answer.text();
  sessionStorage.setItem(TOKEN, given);
  return given;
}

class Wire {
  constructor(token, on) {
    Object.assign(this, { token, on, last: 0, waiting: new Map(), pause: 500, opened: false });
    this.open();
  }

  open() {
    const socket = new WebSocket(`ws://${location.host}/rpc`, ["zk.rpc", `zk.token.${this.token}`]);
    this.socket = socket;
    let answered = false;
    socket.onopen = async () => {
      answered = true;
      this.pause = 500;
      const hello = { protocol_version: "1.0", client: { name: "zk web" }, role: "approver" };
      try {
        await this.on.open(await this.ask("initialize", hello));
      } catch (error) {
        this.on.refused(error.message);
      }
    };
    socket.onmessage = ({ data }) => this.take(JSON.parse(data));
    socket.onclose = () => {
      for (const { reject } of this.waiting.values()) reject(new Error("the connection to zk was lost"));
      this.waiting.clear();
      if (!answered && !this.opened) return this.on.refused("zk does not know this page any more: open another link of `zk web`");
      this.opened = true;
      this.on.lost();
      setTimeout(() => this.open(), this.pause);
      this.pause = Math.min(this.pause * 2, 10000);
      return undefined;
    };
  }

  take(message) {
    if (message.method) return this.on.notified(message.method, message.params || {});
    const waiting = this.waiting.get(message.id);
    if (!waiting) return undefined;
    this.waiting.delete(message.id);
    this.opened = true;
    return message.error ? waiting.reject(new Error(message.error.message)) : waiting.resolve(message.result);
  }

  ask(method, params = {}) {
    return new Promise((resolve, reject) => {
      if (this.socket.readyState !== WebSocket.OPEN) return reject(new Error("there is no connection to zk now"));
      const id = ++this.last;
      this.waiting.set(id, { resolve, reject });
      return this.socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }
}
