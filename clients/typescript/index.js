// Client of `zk rpc`, without dependencies: over the streams of a program that it starts, a unix socket or a WebSocket.

import { applyPatch, emptyView } from "./view.js";

export { applyPatch, emptyView };

/** Version of the protocol that this client was made for. */
export const PROTOCOL_VERSION = "1.1";

/** Error that answers a request. */
export class RpcError extends Error {
  constructor({ code, message, data }) {
    super(message);
    this.name = "RpcError";
    this.code = code;
    this.data = data;
  }
}

/** Connection to a server: requests, and notifications to whoever listens. */
export class Client {
  #send;
  #close;
  #lastId = 0;
  #waiting = new Map();
  #listeners = new Set();
  #ended;

  constructor(send, close) {
    this.#send = send;
    this.#close = close;
    this.closed = new Promise((resolve) => {
      this.#ended = resolve;
    });
  }

  /** Takes a line in that the server wrote. */
  receive(line) {
    if (line.trim() === "") return;
    const message = JSON.parse(line);
    if (message.method !== undefined) {
      for (const listener of [...this.#listeners]) listener(message);
      return;
    }
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (message.error) waiting?.reject(new RpcError(message.error));
    else waiting?.resolve(message.result);
  }

  /** Ends everything that waits: the connection is over. */
  ended(why) {
    for (const { reject } of this.#waiting.values()) reject(new Error(`the connection to zk is over: ${why}`));
    this.#waiting.clear();
    this.#ended(why);
  }

  /** Sends a request, and gives its result. */
  request(method, params = {}) {
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  /** Says who the client is. */
  initialize({ name = "zk-rpc-typescript", version = "0.1.0", role = "driver", ...more } = {}) {
    const client = { name, version };
    return this.request("initialize", { protocol_version: PROTOCOL_VERSION, client, role, ...more });
  }

  /** Calls `listener` with each notification, until what is given back is called. */
  onNotification(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Opens a conversation with a new session, and follows it. */
  async newConversation(params = {}) {
    return this.follow((await this.request("session/new", params)).conversation);
  }

  /** Opens a stored session, and follows its conversation. */
  async openSession(session) {
    return this.follow((await this.request("session/open", { session })).conversation);
  }

  /** Follows an open conversation. */
  async follow(id) {
    const conversation = new Conversation(this, id);
    await conversation.subscribe();
    return conversation;
  }

  /** Ends the connection. */
  close() {
    this.#close();
  }
}

/** Conversation with its view, which its notifications keep up to date. */
export class Conversation {
  #client;
  #changed = new Set();
  #forget;

  constructor(client, id) {
    this.#client = client;
    this.id = id;
    this.view = emptyView();
    this.seq = undefined;
    this.settledSeq = -1;
    this.#listen();
  }

  #listen() {
    const client = this.#client;
    this.isOver = false;
    this.#forget = client.onNotification((note) => this.#take(note));
    client.closed.then(() => {
      if (client === this.#client) this.#end();
    });
  }

  #take({ method, params }) {
    if (params.conversation !== this.id) return;
    if (params.seq !== undefined) this.seq = params.seq;
    if (method === "conversation/patch") applyPatch(this.view, params.patch);
    if (method === "conversation/settled" || params.settled) this.settledSeq = params.seq;
    if (method === "conversation/closed") this.#end();
    for (const changed of [...this.#changed]) changed(method, params);
  }

  #end() {
    this.isOver = true;
    this.#forget();
    for (const changed of [...this.#changed]) changed("conversation/closed", {});
  }

  /** Sends a request about this conversation. */
  request(method, params = {}) {
    return this.#client.request(method, { conversation: this.id, ...params });
  }

  /** Follows the conversation, from the last notification that is known on. */
  subscribe() {
    return this.request("subscribe", this.seq === undefined ? {} : { after: this.seq });
  }

  /** Goes on over another connection, behind the last notification that came over this one. */
  moveTo(client) {
    this.#forget();
    this.#client = client;
    this.#listen();
    return this.subscribe();
  }

  /** Calls `changed` after each notification, until what is given back is called. */
  onChange(changed) {
    this.#changed.add(changed);
    return () => this.#changed.delete(changed);
  }

  /** Waits until `isDone` holds of this conversation. */
  until(isDone) {
    return new Promise((resolve, reject) => {
      const look = () => {
        if (isDone(this)) resolve(this);
        else if (this.isOver) reject(new Error("the conversation is over"));
        else return false;
        stop();
        return true;
      };
      const stop = this.onChange(look);
      look();
    });
  }

  /** Sends a prompt; gives the number for `settledAfter`. Images are base64. */
  async submit(text, images = []) {
    return (await this.request("submit", images.length === 0 ? { text } : { text, images })).seq;
  }

  /** Waits until all is done that was asked for up to this number. */
  settledAfter(seq) {
    return this.until(({ settledSeq }) => settledSeq > seq);
  }

  /** Sends a prompt, waits until nothing follows, and gives the last answer. */
  async ask(text) {
    await this.settledAfter(await this.submit(text));
    return this.lastAnswer();
  }

  /** The text of the last answer. */
  lastAnswer() {
    const said = this.view.blocks.filter(({ agent, content }) => !agent && content.type === "answer" && content.text);
    return said.at(-1)?.content.text ?? "";
  }

  /** Interrupts the run with a text; gives the number for `settledAfter`. */
  async steer(text) {
    return (await this.request("steer", { text })).seq;
  }

  /** Puts another session in the place of this one: `"new"`, or `{ session }`. */
  switch(to) {
    return this.request("switch", { to });
  }

  stop() {
    return this.request("stop");
  }

  /** Answers a question, as its card showed it. */
  answer(card, answer) {
    return this.request("answer", { id: card.id, digest: card.digest, answer });
  }

  command(line) {
    return this.request("command", { line });
  }

  close() {
    return this.request("close");
  }
}

function lines(stream, client) {
  let rest = "";
  stream.setEncoding("utf8");
  stream.on("data", (text) => {
    const pieces = (rest + text).split("\n");
    rest = pieces.pop();
    for (const line of pieces) client.receive(line);
  });
  stream.on("close", () => client.ended("its stream ended"));
  stream.on("error", (error) => client.ended(error.message));
}

/** Starts zk, and connects to it. */
export async function start({ command = "zk", args = [], ...options } = {}) {
  const { spawn } = await import("node:child_process");
  const child = spawn(command, ["rpc", ...args], { stdio: ["pipe", "pipe", "inherit"], ...options });
  const client = new Client((line) => child.stdin.write(`${line}\n`), () => child.stdin.end());
  child.on("error", (error) => client.ended(error.message));
  child.stdin.on("error", () => {});
  lines(child.stdout, client);
  return client;
}

/** Connects to `zk rpc --socket PATH`. */
export async function connectSocket(path) {
  const { createConnection } = await import("node:net");
  const socket = createConnection(path);
  await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  const client = new Client((line) => socket.write(`${line}\n`), () => socket.end());
  lines(socket, client);
  return client;
}

/** Connects to `zk rpc --websocket`, in a page or a program. */
export async function connectWebSocket(url, token) {
  const socket = new WebSocket(url, ["zk.rpc", `zk.token.${token}`]);
  const client = new Client((line) => socket.send(line), () => socket.close());
  socket.addEventListener("message", ({ data }) => client.receive(data));
  socket.addEventListener("close", ({ reason }) => client.ended(reason || "the WebSocket closed"));
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve);
    socket.addEventListener("error", () => reject(new Error(`cannot connect to ${url}`)));
  });
  return client;
}
