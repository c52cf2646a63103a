export declare const PROTOCOL: string;

export declare class RequestError extends Error {
  constructor(message: string, code?: number);
  code: number;
}

/** Data of an event, as the reference of events describes it. */
export interface ZkEvent {
  [field: string]: unknown;
  name: string;
  run: string;
  /** Tool of a call. */
  tool?: string;
  /** Arguments of a call. */
  args: Record<string, any>;
}

/** Effects of calls. `$NAME` stands for the argument of that name. */
export interface Effects {
  reads?: string[];
  writes?: string[];
  executes?: string[];
  network?: string[];
}

/** Display form for the person. */
export type Display =
  | { kind: "line"; text: string }
  | { kind: "lines"; lines: string[] }
  | { kind: "diff"; path: string; diff: string }
  | { kind: "table"; head: string[]; rows: string[][] }
  | { kind: "markdown"; text: string };

export interface ToolOptions {
  effects?: Effects;
  title?: string;
  kind?: "read" | "search" | "edit" | "execute" | "fetch" | "ask" | "plan" | "delegate" | "other";
  prompt?: string;
  concurrent?: boolean;
  lazy?: boolean;
  required?: string[];
  preview?: (args: any) => Display | null | Promise<Display | null>;
}

export type ToolReply = string | { content: unknown; display?: Display; details?: unknown; failed?: boolean };
export type CommandReply = string | void | null | { show: string } | { prompt: string };
export type Choice = string | { value: string; note?: string };
export type Stage = "early" | "consumer" | "framework" | "review" | "late";
export type Role = "plain" | "faint" | "good" | "bad" | "warning" | "work";
export type Delivery = "steer" | "follow_up" | "next_prompt";

/** Call of a tool of zk. */
export interface AskedCall {
  tool: string;
  args?: Record<string, unknown>;
}

/** Turn of a backend: the whole conversation, and what is new in it. */
export interface BackendTurn {
  prompt: string;
  /** Results of the calls of the last answer. */
  results: { text: string; failed: boolean }[];
  messages: { role: "user" | "assistant"; content: any[] }[];
  model: string;
  tools: { name: string; description: string; schema: any }[];
  system: string;
  session?: string;
  cwd?: string;
  run: string;
}

export type BackendReply = string | void | null | AskedCall[] | { text?: string; calls?: AskedCall[]; usage?: object };

type MaybeAsync<T> = T | Promise<T>;

/** Question options: seconds to wait for the person, and what the question is about. */
export interface QuestionOptions {
  seconds?: number;
  preview?: Display;
  accepts_words?: boolean;
}

export declare class Extension {
  constructor(name: string, version?: string);
  readonly hello: any;
  readonly settings: any;
  readonly cwd: string | undefined;
  readonly project: string | undefined;
  readonly signal: AbortSignal | undefined;

  tool(name: string, description: string, params: Record<string, unknown>, call: (args: any) => MaybeAsync<ToolReply>, options?: ToolOptions): unknown;
  command(name: string, help: string, run: (args: string) => MaybeAsync<CommandReply>, options?: { arguments?: string; complete?: (before: string) => MaybeAsync<Choice[]> }): unknown;
  on(event: string, answer: (event: ZkEvent) => MaybeAsync<unknown>, stage?: Stage): unknown;
  gate(judge: (call: ZkEvent) => MaybeAsync<string | void | null | object>): unknown;
  tell(event: string, told: (event: ZkEvent) => MaybeAsync<void>): unknown;
  section(id: string, text: string | (() => MaybeAsync<string>), order?: number): unknown;
  context(name: string, text: () => MaybeAsync<string | null | undefined>, when?: "prompt" | "request"): unknown;
  renderer(name: string, rules: { matches: string; role: Role; bold?: boolean }[]): unknown;
  backend(name: string, description: string, answer: (turn: BackendTurn) => MaybeAsync<BackendReply>, options?: { models?: string[] }): unknown;
  start(begin: () => MaybeAsync<void>): void;
  unregister(names: Partial<Record<"tools" | "commands" | "tells" | "sections" | "contexts" | "renderers" | "backends", string[]>>): Promise<unknown>;

  request(method: string, params?: object): Promise<any>;
  notify(text: string): void;
  show(key: string, title: string, body: string[] | Display, options?: { kind?: string; last?: boolean }): void;
  progress(text: string): void;
  say(text: string, options?: { thought?: boolean }): void;
  confirm(text: string, options?: QuestionOptions): Promise<boolean>;
  select(text: string, choices: string[], options?: QuestionOptions): Promise<string | undefined>;
  input(text: string, options?: QuestionOptions): Promise<string | undefined>;
  append(kind: string, data: unknown, options?: { version?: number; audience?: "hidden" | "person" | "model" }): Promise<string>;
  entries(kind?: string): Promise<{ kind: string; version: number; data: any }[]>;
  sideCall(purpose: string, prompt: string, options?: { system?: string; max_tokens?: number; run?: string }): Promise<string>;
  steer(text: string, run?: string): Promise<unknown>;
  deliver(text: string, when?: Delivery): Promise<unknown>;
  run(): void;
}
