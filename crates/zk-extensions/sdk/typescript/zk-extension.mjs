// Extensions of zk for Node: tools, commands, gates and more. No dependencies; the types are in zk-extension.d.mts.
//
//     import { Extension } from "./zk-extension.mjs";
//
//     const ext = new Extension("notes", "1.0");
//     ext.tool("word_count", "Counts the words of a text.", { text: "string" }, ({ text }) => `${text.split(/\s+/).length}`, { effects: {} });
//     ext.run();
//
// Handlers may be async, and may call the methods of the extension. Whatever console.log prints goes to standard error,
// which `zk ext logs` shows.

import { Console } from "node:console";
import { AsyncLocalStorage } from "node:async_hooks";

export const PROTOCOL = "1.1";

/** A request to zk that failed, or an error to give zk. */
export class RequestError extends Error {
  constructor(message, code = -32000) {
    super(message);
    this.code = code;
  }
}

/** One extension. Register with its methods, then `run()`. */
export class Extension {
  #lists = { tools: [], commands: [], asks: [], tells: [], sections: [], contexts: [], renderers: [], backends: [] };
  #functions = new Map();
  #starts = [];
  #greeted = false;
  #lastId = 0;
  #waiting = new Map();
  #aborts = new Map();
  #here = new AsyncLocalStorage();
  hello = {};
  settings = {};
  cwd = undefined;
  project = undefined;

  constructor(name, version = "0.0.0") {
    this.name = name;
    this.version = version;
    globalThis.console = new Console(process.stderr, process.stderr);
  }

  // Registrations. Those made while the extension runs are sent to zk at once.

  /** A tool of the model. `effects` says what a call does; without it zk asks about each call. */
  tool(name, description, params, call, { preview, required, ...more } = {}) {
    let schema = params ?? {};
    if (schema.type !== "object") {
      const props = Object.entries(schema).map(([key, value]) => [key, typeof value === "string" ? { type: value } : value]);
      schema = { type: "object", properties: Object.fromEntries(props), required: required ?? props.map(([key]) => key) };
    }
    if (preview) this.#functions.set(`preview ${name}`, preview);
    return this.#register("tools", `tool ${name}`, call, { name, description, schema, preview: preview !== undefined, ...more });
  }

  /** A command `/name` of the person: gets the text behind it, returns a text to show, or a reply. */
  command(name, help, run, { complete, ...more } = {}) {
    if (complete) this.#functions.set(`complete ${name}`, complete);
    return this.#register("commands", `command ${name}`, run, { name, help, completes: complete !== undefined, ...more });
  }

  /** Asks the function about an event; it returns the reply of the event, or nothing. */
  on(event, answer, stage = "consumer") {
    return this.#register("asks", `ask ${event}`, answer, { event, stage });
  }

  /** Asks the function about each call of a tool; a text that it returns refuses the call. */
  gate(judge) {
    return this.on("tool:gate", async (event) => {
      const reply = await judge(event);
      return typeof reply === "string" ? { decision: "refuse", reason: reply } : reply;
    });
  }

  /** Tells the function about an event, without waiting for it. */
  tell(event, told) {
    return this.#register("tells", `tell ${event}`, told, event);
  }

  /** A section of the system prompt: its text, or a function that gives it at the start of each run. */
  section(id, text, order = 500) {
    const isFixed = typeof text === "string";
    return this.#register("sections", `section ${id}`, isFixed ? undefined : text, { id, order, ...(isFixed ? { text } : {}) });
  }

  /** Text for the model about what holds now, with each prompt or each `request`. */
  context(name, text, when = "prompt") {
    return this.#register("contexts", `context ${name}`, text, { name, when });
  }

  /** Rules that colour lines of `fence:LANGUAGE` or `block:KIND`. */
  renderer(name, rules) {
    return this.#register("renderers", `renderer ${name}`, undefined, { name, rules });
  }

  /** An agent that answers prompts once the person chose it with `/backend NAME`: gets a turn, returns its answer behind
   * what `say` sent, or a list of calls of zk's tools. */
  backend(name, description, answer, { models = [] } = {}) {
    return this.#register("backends", `backend ${name}`, answer, { name, description, models });
  }

  /** Runs the function once zk has said hello. */
  start(begin) {
    this.#starts.push(begin);
  }

  /** Removes registrations: `unregister({ tools: ["name"] })`. */
  unregister(names) {
    return this.request("unregister", names);
  }

  #register(key, id, run, entry) {
    if (run) this.#functions.set(id, run);
    if (this.#greeted) return this.request("register", { [key]: [entry] });
    this.#lists[key].push(entry);
  }

  // Requests to zk.

  /** Sends a request, and waits for its result. */
  request(method, params = {}) {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#send({ id, method, params });
    });
  }

  /** Shows the person a line. */
  notify(text) {
    this.#send({ method: "notify", params: { text } });
  }

  /** Shows a block in the conversation; a later one with the same key replaces it. */
  show(key, title, body, { kind = "", last = false } = {}) {
    body = Array.isArray(body) ? { kind: "lines", lines: body } : body;
    this.#send({ method: "show", params: { key, title, body, kind, last } });
  }

  /** Shows output of the call of a tool that is being worked on. */
  progress(text) {
    this.#send({ method: "tool/progress", params: { call: this.#here.getStore()?.call, text } });
  }

  /** Sends the next piece of the answer of the turn that is being worked on. */
  say(text, { thought = false } = {}) {
    this.#send({ method: "backend/text", params: { turn: this.#here.getStore()?.turn, text, thought } });
  }

  /** Asks the person for yes or no; false without an answer. */
  async confirm(text, more = {}) {
    return (await this.request("ask", { form: "confirm", text, ...more })).answer === "yes";
  }

  /** Asks the person for one of several; nothing without an answer. */
  async select(text, options, more = {}) {
    const answer = await this.request("ask", { form: "select", text, options, ...more });
    return answer.answer === "choice" ? options[answer.index] : answer.text;
  }

  /** Asks the person for a line of text; nothing without an answer. */
  async input(text, more = {}) {
    return (await this.request("ask", { form: "input", text, ...more })).text;
  }

  /** Keeps an entry of its own in the session. */
  async append(kind, data, { version = 1, audience = "hidden" } = {}) {
    return (await this.request("session/append", { kind, version, data, audience })).id;
  }

  /** The entries of its own on the current branch, oldest first. */
  entries(kind) {
    return this.request("session/entries", { kind });
  }

  /** Asks the model of the run something beside the conversation. */
  async sideCall(purpose, prompt, more = {}) {
    return (await this.request("side_call", { purpose, prompt, ...more })).text;
  }

  /** Interrupts the run with a message to the model. */
  steer(text, run) {
    return this.request("run/steer", { text, run });
  }

  /** Sends a message to the conversation, which begins a run if none is active. */
  deliver(text, when = "follow_up") {
    return this.request("deliver", { text, when });
  }

  /** Aborted when nobody waits any more for what is being worked on. */
  get signal() {
    return this.#here.getStore()?.signal;
  }

  // The loop.

  /** Serves zk until it ends the extension. */
  run() {
    let rest = "";
    process.stdin.setEncoding("utf8");
    process.stdin.on("data", (piece) => {
      const lines = (rest + piece).split("\n");
      rest = lines.pop();
      for (const line of lines) if (line.trim()) this.#receive(JSON.parse(line));
    });
    process.stdin.on("end", () => process.exit(0));
  }

  #receive({ id, method, params = {}, result, error }) {
    if (method === undefined) {
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error) waiting?.reject(new RequestError(error.message, error.code));
      else waiting?.resolve(result);
    } else if (method === "cancel") {
      this.#aborts.get(params.id)?.abort();
    } else if (id === undefined) {
      const told = method === "event/tell" ? this.#functions.get(`tell ${params.event}`) : undefined;
      if (told) Promise.resolve(told(event(params))).catch((reason) => console.error(reason));
    } else {
      const abort = new AbortController();
      this.#aborts.set(id, abort);
      this.#here.run({ call: params.call, turn: params.turn, signal: abort.signal }, () => this.#answer(id, method, params));
    }
  }

  async #answer(id, method, params) {
    try {
      this.#send({ id, result: (await this.#work(method, params)) ?? null });
    } catch (reason) {
      this.#send({ id, error: { code: reason?.code ?? -32000, message: String(reason?.message ?? reason) } });
    }
    this.#aborts.delete(id);
    if (method === "hello") for (const begin of this.#starts) Promise.resolve(begin()).catch((reason) => console.error(reason));
  }

  async #work(method, params) {
    const run = (id, ...args) => {
      const found = this.#functions.get(id);
      if (!found) throw new RequestError(`this extension has no ${id}`);
      return found(...args);
    };
    switch (method) {
      case "hello":
        this.hello = params;
        this.settings = params.settings ?? {};
        this.cwd = params.cwd;
        this.project = params.project;
        this.#greeted = true;
        return { protocol: PROTOCOL, name: this.name, version: this.version, register: this.#lists };
      case "event/ask":
        return run(`ask ${params.event}`, event(params));
      case "tool/call": {
        const result = await run(`tool ${params.tool}`, params.args ?? {});
        return result?.content !== undefined ? result : { content: String(result) };
      }
      case "tool/preview":
        return run(`preview ${params.tool}`, params.args ?? {});
      case "command/run": {
        const result = await run(`command ${params.name}`, params.args ?? "");
        return typeof result === "string" ? { show: result } : result;
      }
      case "command/complete": {
        const choices = await run(`complete ${params.name}`, params.before ?? "");
        return choices.map((choice) => (typeof choice === "string" ? { value: choice } : choice));
      }
      case "section/text":
        return run(`section ${params.id}`);
      case "context/text":
        return run(`context ${params.name}`);
      case "backend/turn": {
        const reply = (await run(`backend ${params.backend}`, { ...params, results: results(params.messages) })) ?? "";
        if (Array.isArray(reply)) return { calls: reply };
        return typeof reply === "string" ? { text: reply } : reply;
      }
      default:
        throw new RequestError(`this extension knows no method ${method}`, -32601);
    }
  }

  #send(message) {
    process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }
}

/** Data of an event; `name` and `run` beside it, and for calls `tool` and `args`. */
function event({ event: name, run, data }) {
  return { ...data, name, run, tool: data?.call?.name, args: data?.args ?? {} };
}

/** Results of the calls of the last answer. */
function results(messages) {
  const last = messages.at(-1);
  const blocks = last?.role === "user" ? last.content.filter((block) => block.type === "tool_result") : [];
  const text = (content) => (typeof content === "string" ? content : content.map((block) => block.text ?? "").join("\n"));
  return blocks.map((block) => ({ text: text(block.content), failed: block.is_error ?? false }));
}
