import type * as rpc from "./types.ts";
import type { MethodName, Methods, NotificationName, Notifications, Role } from "./types.ts";
import { applyPatch, emptyView } from "./view.ts";

export type * from "./types.ts";
export { applyPatch, emptyView };

/** Version of the protocol that this client was made for. */
export const PROTOCOL_VERSION = "1.4";

export type Notification = { [N in NotificationName]: { method: N; params: Notifications[N] } }[NotificationName];
type Result<M extends MethodName> = Promise<Methods[M]["result"]>;
type About<M extends MethodName> = Omit<Methods[M]["params"], "conversation">;
type Failure = { code: number; message: string; data?: { field?: string; reason?: string; role?: Role; methods?: string[] } };
type Waiting = { resolve: (result: any) => void; reject: (error: Error) => void };

/** Error that answers a request. */
export class RpcError extends Error {
  override readonly name = "RpcError";
  readonly code: number;
  readonly data: Failure["data"];

  constructor({ code, message, data }: Failure) {
    super(message);
    [this.code, this.data] = [code, data];
  }
}

/** Connection to a server: requests, and notifications to whoever listens. */
export class Client {
  /** Words on the end of the connection, once it is over. */
  readonly closed: Promise<string>;
  #send: (line: string) => void;
  #close: () => void;
  #lastId = 0;
  #waiting = new Map<number, Waiting>();
  #listeners = new Set<(notification: Notification) => void>();
  #ended: (why: string) => void = () => {};

  constructor(send: (line: string) => void, close: () => void) {
    [this.#send, this.#close] = [send, close];
    this.closed = new Promise((resolve) => { this.#ended = resolve; });
  }

  /** Takes a line in that the server wrote. */
  receive(line: string): void {
    if (line.trim() === "") return;
    let message;
    try { message = Object(JSON.parse(line)); } catch { return this.ended("a line of the server is no JSON"); }
    if (message.method !== undefined) return [...this.#listeners].forEach((listener) => listener(message));
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (message.error) waiting?.reject(new RpcError(message.error)); else waiting?.resolve(message.result);
  }

  /** Ends everything that waits: the connection is over. */
  ended(why: string): void {
    for (const { reject } of this.#waiting.values()) reject(new Error(`the connection to zk is over: ${why}`));
    this.#waiting.clear();
    this.#ended(why);
  }

  /** Sends a request, and gives its result. */
  request<M extends MethodName>(method: M, params = {} as Methods[M]["params"]): Result<M> {
    const id = this.#lastId += 1;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  /** Says who the client is. */
  initialize(options: Partial<rpc.ClientInfo> & { role?: Role; token?: string; stop_on_disconnect?: boolean } = {}) {
    const { name = "zk-rpc-typescript", version = "0.1.0", role = "driver", ...more } = options;
    return this.request("initialize", { protocol_version: PROTOCOL_VERSION, client: { name, version }, role, ...more });
  }

  /** Calls `listener` with each notification, until what is given back is called. */
  onNotification(listener: (notification: Notification) => void): () => void {
    this.#listeners.add(listener);
    return () => { this.#listeners.delete(listener); };
  }

  /** Opens a conversation with a new session, and follows it. */
  async newConversation(params: rpc.NewParams = {}): Promise<Conversation> {
    return this.follow((await this.request("session/new", params)).conversation);
  }

  /** Opens a stored session, and follows its conversation. */
  async openSession(params: rpc.OpenParams): Promise<Conversation> {
    return this.follow((await this.request("session/open", params)).conversation);
  }

  /** Follows an open conversation. */
  async follow(id: string): Promise<Conversation> {
    const conversation = new Conversation(this, id);
    await conversation.subscribe();
    return conversation;
  }

  /** Ends the connection. */
  close(): void { this.#close(); }
}

/** Conversation with its view, which its notifications keep up to date. */
export class Conversation {
  readonly id: string;
  readonly view: rpc.View = emptyView();
  /** Number of the last notification. */
  seq: number | undefined;
  settledSeq = -1;
  isOver = false;
  #client!: Client;
  #changed = new Set<() => void>();
  #forget: () => void = () => {};

  constructor(client: Client, id: string) {
    this.id = id;
    this.#listen(client);
  }

  #listen(client: Client): void {
    this.#client = client;
    this.isOver = false;
    this.#forget = client.onNotification((note) => this.#take(note));
    client.closed.then(() => { if (client === this.#client) this.#end(); });
  }

  #take({ method, params }: Notification): void {
    if (!("conversation" in params) || params.conversation !== this.id) return;
    if ("seq" in params) this.seq = params.seq;
    if (method === "conversation/patch") applyPatch(this.view, params.patch);
    if (method === "conversation/settled" || (method === "conversation/patch" && params.settled)) this.settledSeq = params.seq;
    if (method === "conversation/closed") this.#end(); else this.#tell();
  }

  #tell(): void { for (const changed of [...this.#changed]) changed(); }

  #end(): void {
    this.isOver = true;
    this.#forget();
    this.#tell();
  }

  /** Sends a request about this conversation. */
  request<M extends MethodName>(method: M, params = {} as About<M>): Result<M> {
    return this.#client.request(method, { conversation: this.id, ...params } as Methods[M]["params"]);
  }

  /** Follows the conversation, from the last notification that is known on. */
  subscribe() { return this.request("subscribe", { after: this.seq ?? null }); }

  /** Goes on over another connection, behind the last notification that came over this one. */
  moveTo(client: Client) {
    this.#forget();
    this.#listen(client);
    return this.subscribe();
  }

  /** Calls `changed` after each notification, until what is given back is called. */
  onChange(changed: () => void): () => void {
    this.#changed.add(changed);
    return () => { this.#changed.delete(changed); };
  }

  /** Waits until `isDone` holds of this conversation. */
  until(isDone: (conversation: this) => unknown): Promise<this> {
    return new Promise((resolve, reject) => {
      const look = () => {
        if (isDone(this)) resolve(this);
        else if (this.isOver) reject(new Error("the conversation is over"));
        else return;
        stop();
      };
      const stop = this.onChange(look);
      look();
    });
  }

  /** Sends a prompt; gives the number for `settledAfter`. Images are base64. */
  async submit(text: string, images: string[] = []): Promise<number> {
    return (await this.request("submit", { text, images })).seq;
  }

  /** Waits until all is done that was asked for up to this number. */
  settledAfter(seq: number): Promise<this> { return this.until(({ settledSeq }) => settledSeq > seq); }
  /** Sends a prompt, waits until nothing follows, and gives the last answer. */
  async ask(text: string): Promise<string> {
    await this.settledAfter(await this.submit(text));
    return this.lastAnswer();
  }

  /** The text of the last answer of the main agent. */
  lastAnswer(): string {
    const texts = this.view.blocks.map(({ agent, content }) => (!agent && content.type === "answer" ? content.text : ""));
    return texts.findLast((text) => text !== "") ?? "";
  }

  /** Interrupts the run with a text; gives the number for `settledAfter`. */
  async steer(text: string): Promise<number> { return (await this.request("steer", { text })).seq; }
  /** Puts another session in the place of this one. */
  switch(to: rpc.SwitchTarget) { return this.request("switch", { to }); }
  /** Answers a question, as its card showed it. */
  answer({ id, digest }: rpc.Card, answer: rpc.Answer) { return this.request("answer", { id, digest, answer }); }
  command(line: string) { return this.request("command", { line }); }
  stop() { return this.request("stop"); }
  close() { return this.request("close"); }
}

/** Hands the lines of a stream to a client. */
function lines(stream: NodeJS.ReadableStream, client: Client): void {
  let rest = "";
  stream.setEncoding("utf8");
  stream.on("data", (text) => {
    const pieces = (rest + text).split("\n");
    rest = pieces.pop() ?? "";
    pieces.forEach((line) => client.receive(line));
  });
  stream.on("close", () => client.ended("its stream ended")).on("error", (error) => client.ended(error.message));
}

/** Starts zk, and connects to it. */
export async function start({ command = "zk", args = [], ...options }:
  { command?: string; args?: string[]; cwd?: string; env?: Record<string, string> } = {}): Promise<Client> {
  const { spawn } = await import("node:child_process");
  const child = spawn(command, ["rpc", ...args], { ...options, stdio: ["pipe", "pipe", "inherit"] });
  const client = new Client((line) => child.stdin.write(`${line}\n`), () => child.stdin.end());
  child.on("error", (error) => client.ended(error.message));
  child.stdin.on("error", () => {});
  lines(child.stdout, client);
  return client;
}

/** Connects to `zk rpc --socket PATH`. */
export async function connectSocket(path: string): Promise<Client> {
  const { createConnection } = await import("node:net");
  const socket = createConnection(path);
  await new Promise<void>((resolve, reject) => { socket.once("connect", resolve).once("error", reject); });
  const client = new Client((line) => socket.write(`${line}\n`), () => socket.end());
  lines(socket, client);
  return client;
}

/** Connects to `zk rpc --websocket`, in a page or a program. */
export async function connectWebSocket(url: string, token: string): Promise<Client> {
  const socket = new WebSocket(url, ["zk.rpc", `zk.token.${token}`]);
  const client = new Client((line) => socket.send(line), () => socket.close());
  socket.addEventListener("message", ({ data }) => client.receive(data));
  socket.addEventListener("close", ({ reason }) => client.ended(reason || "the WebSocket closed"));
  await new Promise<unknown>((resolve, reject) => {
    socket.addEventListener("open", resolve);
    socket.addEventListener("error", () => reject(new Error(`cannot connect to ${url}`)));
  });
  return client;
}
