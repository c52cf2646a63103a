import type {
  Answer,
  Card,
  ClientInfo,
  InitializeResult,
  MethodName,
  Methods,
  NewParams,
  NotificationName,
  Notifications,
  OpenConversation,
  Role,
  SubscribeResult,
  SwitchTarget,
  View,
} from "./types.js";

export type * from "./types.js";
export { applyPatch, emptyView } from "./view.js";

export const PROTOCOL_VERSION: string;

export class RpcError extends Error {
  readonly code: number;
  readonly data?: { field?: string; reason?: string; role?: Role; methods?: string[] };
}

export type Notification = { [N in NotificationName]: { method: N; params: Notifications[N] } }[NotificationName];

type About<M extends MethodName> = Omit<Methods[M]["params"], "conversation">;

export class Client {
  constructor(send: (line: string) => void, close: () => void);
  readonly closed: Promise<string>;
  receive(line: string): void;
  ended(why: string): void;
  request<M extends MethodName>(method: M, params?: Methods[M]["params"]): Promise<Methods[M]["result"]>;
  initialize(
    options?: Partial<ClientInfo> & { role?: Role; token?: string; stop_on_disconnect?: boolean },
  ): Promise<InitializeResult>;
  onNotification(listener: (notification: Notification) => void): () => void;
  newConversation(params?: Partial<NewParams>): Promise<Conversation>;
  openSession(session: string): Promise<Conversation>;
  follow(id: string): Promise<Conversation>;
  close(): void;
}

export class Conversation {
  constructor(client: Client, id: string);
  readonly id: string;
  readonly view: View;
  seq: number | undefined;
  readonly settledSeq: number;
  readonly isOver: boolean;
  request<M extends MethodName>(method: M, params?: About<M>): Promise<Methods[M]["result"]>;
  subscribe(): Promise<SubscribeResult>;
  moveTo(client: Client): Promise<SubscribeResult>;
  onChange(changed: (method: string, params: object) => void): () => void;
  until(isDone: (conversation: Conversation) => boolean): Promise<Conversation>;
  submit(text: string, images?: string[]): Promise<number>;
  settledAfter(seq: number): Promise<Conversation>;
  ask(text: string): Promise<string>;
  lastAnswer(): string;
  steer(text: string): Promise<number>;
  switch(to: SwitchTarget): Promise<OpenConversation>;
  stop(): Promise<object>;
  answer(card: Card, answer: Answer): Promise<object>;
  command(line: string): Promise<Methods["command"]["result"]>;
  close(): Promise<object>;
}

export function start(options?: { command?: string; args?: string[]; cwd?: string; env?: object }): Promise<Client>;
export function connectSocket(path: string): Promise<Client>;
export function connectWebSocket(url: string, token: string): Promise<Client>;
