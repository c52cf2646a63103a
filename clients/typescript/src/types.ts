// Made by `cargo xtask docs` from the schema of `zk rpc`.

/** Activity of a conversation. */
export type Activity = {
  doing: "idle";
} | {
  doing: "starting";
} | {
  /** Estimated tokens of the last request before the compaction. */
  before: number;
  doing: "compacting";
} | {
  doing: "waiting";
  /** The model. */
  model: Text;
} | {
  doing: "silent";
  /** Milliseconds of silence. */
  idle_ms: number;
  /** Whether keep-alives arrive. */
  keep_alives: boolean;
  /** Time-out in milliseconds after which the request fails. */
  limit_ms: number;
  /** The model. */
  model: Text;
} | {
  /** Failed attempt, from 1; 0 if none was made. */
  attempt: number;
  doing: "retrying";
  /** Milliseconds until the next attempt. */
  left_ms: number;
  /** Maximum number of attempts. */
  max_attempts: number;
  /** Cause of the wait. */
  why: Text;
} | {
  doing: "thinking";
} | {
  doing: "answering";
} | {
  doing: "writing";
  /** The tool. */
  tool: Text;
} | {
  /** Summaries of the calls, in a line each. */
  calls: Array<Text>;
  doing: "running";
  /** Failed calls, including invalid ones, unknown tools and cut-off ones. */
  failed?: number;
  /** Number of calls in the answer. */
  of?: number;
  /** Calls that ended, with any outcome. */
  over?: number;
  /** Calls refused by a guard or the person. */
  refused?: number;
  /** Calls that did not run: the batch ended first, or they are parked for a person who is absent. */
  skipped?: number;
} | {
  doing: "asking";
} | {
  doing: "stopping";
};

/** A sub-agent as a list shows it. */
export type AgentRow = {
  /** Calls of tools that the sub-agent has finished. */
  calls?: number;
  /** Tokens in its context, by its last response. */
  context_tokens?: number | null;
  /** Cost of the sub-agent so far in US dollars, if known. */
  cost?: number | null;
  /** 1 for a child of the conversation's agent. */
  depth: number;
  /** Milliseconds that the sub-agent has worked, as of this row. */
  elapsed_ms?: number;
  /** Fill level of the sub-agent's context, if its window is known. */
  gauge?: ContextGauge | null;
  /** Whether the conversation goes on meanwhile. */
  is_background?: boolean;
  /** Name of the sub-agent, unique in the tree of agents: blocks of the sub-agent carry it as their `agent`. */
  name: Text;
  /** State of the sub-agent. */
  state: AgentState;
  /** Task of the sub-agent, in one line. */
  task: Text;
  /** Tokens that the sub-agent has read and written so far. */
  tokens?: number;
  /** Answers of the model that the sub-agent has got. */
  turns?: number;
};

/** State of a sub-agent. */
export type AgentState = "running" | "done" | "failed" | "stopped";

/** A person's answer to a question. */
export type Answer = {
  answer: "once";
} | {
  answer: "session";
} | {
  answer: "always";
} | {
  answer: "wider_session";
} | {
  answer: "wider_always";
} | {
  answer: "more_session";
  /** Index of the choice. */
  index: number;
} | {
  answer: "more_always";
  /** Index of the choice. */
  index: number;
} | {
  answer: "contained";
} | {
  answer: "no";
  /** Message to the model. */
  message?: string | null;
} | {
  answer: "choice";
  /** Index of the chosen option, from 0. */
  index: number;
} | {
  answer: "text";
  /** The text that the person typed. */
  text: string;
} | {
  answer: "absent";
};

/** Completeness of an answer. */
export type AnswerEnd = {
  end: "whole";
} | {
  end: "max_tokens";
} | {
  end: "window_full";
} | {
  end: "empty";
} | {
  end: "refused";
} | {
  end: "stopped";
} | {
  end: "broken";
} | {
  end: "sent_again";
} | {
  end: "other";
  /** The reason. */
  reason: Text;
};

/** Params of an answer to a question. */
export type AnswerParams = {
  /** The answer. */
  answer: Answer;
  /** Id of the conversation. */
  conversation: string;
  /** Digest of the card that was shown. */
  digest: QuestionDigest;
  /** Id of the question's card. */
  id: QuestionId;
};

/** Answer of a client to a question: the notification `conversation/answered`. */
export type AnsweredNote = {
  /** Id of the client that answered. */
  client: string;
  /** Id of the conversation. */
  conversation: string;
  /** The question. */
  id: QuestionId;
  /** Number of the notification. */
  seq: number;
  /** Milliseconds since 1970. */
  time_ms: number;
};

/** A tool call that needs approval. */
export type Approval = {
  /** Description of the calls that the choice *always* would allow; without it the choice is not offered. */
  always?: string | null;
  /** Final arguments of the call. */
  args: unknown;
  /** Connections that the call gets in its sandbox if it runs. */
  connections?: Connections | null;
  /** Connections that allow a call to run inside of its sandbox instead of leaving it; without them that choice is not offered. */
  contained?: Connections | null;
  /** Effects of the call, as declared by its tool. */
  effects: Effects;
  /** Further choices like [`Approval::wider`], such as all calls of a server. */
  more?: Array<Wider>;
  /** Preview that the tool rendered: a diff, the body of a file. */
  preview?: Display | null;
  /** Reasons for the question, one line each, such as the part of the call and the rule or default of the mode. */
  reasons?: Array<string>;
  /** Description of the calls that the choice *this session* would allow; without it the choice is not offered. */
  session?: string | null;
  /** Canonical name of the tool. */
  tool: string;
  /** Similar calls that *this prefix* or *this directory* would allow; without them these choices are not offered. */
  wider?: Wider | null;
};

/** Question about a call in words, equal on every screen and front-end. */
export type ApprovalCard = {
  /** All choices, first those with their own row. */
  choices: Array<CardChoice>;
  /** Kind of the question. */
  kind: AskedKind;
  /** Everything that will run, the most telling part first. */
  parts: Array<CardPart>;
  /** Reasons for the question, whole, in a line each. */
  reasons?: Array<string>;
  /** Remarks on the effect of choices, one line each. */
  remarks?: Array<string>;
  /** The question, in a sentence. */
  title: string;
};

/** Kind of a question about a call. */
export type AskedKind = "outside" | "network" | "command" | "edit" | "create" | "read" | "fetch" | "tool";

/** Client that is attached. */
export type AttachedClient = {
  /** Program that the client is. */
  client: ClientInfo;
  /** Conversations that it follows. */
  follows: Array<string>;
  /** Id of the client. */
  id: string;
  /** Role of the client. */
  role: Role;
};

/** Block of a conversation as shown. Immutable once closed. */
export type Block = {
  /** Sub-agent of the block; `None` for the main agent. */
  agent?: SubAgent | null;
  /** Whether it is complete. */
  closed: boolean;
  /** Content of the block. */
  content: Content;
  /** Id of the block. */
  id: BlockId;
  /** Message that the block is part of, once the message has joined the conversation. */
  message?: MessageId | null;
};

/** Id of a block: unique in its view, and stable when the stored session is shown again. */
export type BlockId = string;

/** Body of a result. The block holds a bounded part; [`Intent::Expand`](crate::Intent::Expand) requests all lines. */
export type Body = {
  /** Whether [`Intent::Expand`](crate::Intent::Expand) returns more lines. */
  expandable: boolean;
  /** Form of the lines. */
  form: Form;
  /** Lines in the block: the tail of an output, the head of other bodies. */
  lines: Array<Text>;
  /** Total number of lines, including discarded ones. */
  total_lines: number;
};

/** Params of a block whose lines are wanted. */
export type BodyParams = {
  /** Id of the block. */
  block: BlockId;
  /** Id of the conversation. */
  conversation: string;
};

/** All lines of a block. */
export type BodyResult = {
  /** The lines. */
  lines: Array<Text>;
};

/** Summary that a model makes of a branch before it is left. */
export type BranchSummary = {
  /** The person's instructions for the summary. */
  instructions?: string | null;
};

/** Tool call as shown. */
export type Call = {
  /** Main argument, such as a command, in full; `None` if the summary contains it. A very long one is truncated. */
  argument?: Text | null;
  /** Result of the call. */
  body?: Body | null;
  /** The id its provider gave it; not unique in a session. */
  call_id: CallId;
  /** Duration in milliseconds, once the call is finished. */
  elapsed_ms?: number | null;
  /** Kind of the call, known just before it runs. */
  kind?: CallKind;
  /** Line number in the first path, from 1, if the call names one. */
  line?: number | null;
  /** Paths that the call reads or changes, as its arguments name them, known just before it runs; limited in number. */
  locations?: Array<Text>;
  /** Tail of the output so far; empty once the call is finished. */
  progress?: Text;
  /** Reason for which the call did not run, if given. */
  reason?: Text | null;
  /** Remarks on the call, such as converted arguments or lines hidden from the model. */
  remarks?: Array<Text>;
  /** State of the call. */
  state: CallState;
  /** Index of the call's answer within the run. */
  step: number;
  /** Summary in one line. Until the tool gives one, the tool's name with the first argument. */
  summary: Text;
  /** The tool's canonical name. */
  tool: Text;
};

/** Id of a tool call, assigned by its provider. Such ids are not unique within a session. */
export type CallId = string;

/** Kind of work that a tool call does, for icons and groups in a front-end. Permissions rest on [`Effects`] instead. */
export type CallKind = "read" | "search" | "edit" | "execute" | "fetch" | "ask" | "plan" | "delegate" | "other";

/** State of a call. */
export type CallState = "writing" | "waiting" | "running" | "done" | "failed" | "refused" | "skipped" | "parked" | "invalid" | "unknown" | "outcome_unknown" | "not_run";

/** Open question as structured data for a front end. */
export type Card = {
  /** Sub-agent that asks; `None` for the main agent. */
  agent?: SubAgent | null;
  /** Texts of a question about a call: title, command, reason, and every choice with its key. */
  approval?: ApprovalCard | null;
  /** Digest of the shown question, to be returned with the answer. */
  digest: QuestionDigest;
  /** The id of the question. */
  id: QuestionId;
  /** The question. */
  question: Question;
};

/** An answer that a question offers. */
export type CardChoice = {
  /** Description of the calls allowed from then on; `None` for this call only. */
  allows?: string | null;
  /** Answer. A refusal with a message does not contain it yet. */
  answer: Answer;
  /** Text shown after the choice was made. */
  done: string;
  /** Whether the choice has its own row; the others share one. */
  is_row: boolean;
  /** Key that selects the choice. */
  key: string;
  /** Text of the choice. */
  text: string;
};

/** Part of the call to show. */
export type CardPart = {
  /** Name of the argument, path of a diff, or empty. */
  heading?: string;
  /** Form of the lines. */
  kind: PartKind;
  /** The lines, everything in them visible. */
  lines: Array<string>;
};

/** One item of a [`Display::Checklist`]. */
export type CheckItem = {
  /** State of the item. */
  state: CheckState;
  /** Text of the item. */
  text: string;
};

/** Item of the to-do list. */
export type CheckRow = {
  /** State of the item. */
  state: CheckState;
  /** Text of the item, in one line. */
  text: Text;
};

/** State of a [`CheckItem`]. */
export type CheckState = "open" | "current" | "done";

/** Text that may be chosen. */
export type Choice = {
  /** Note beside it. */
  note?: string;
  /** The text. */
  value: string;
};

/** Texts that may be chosen. */
export type Choices = {
  /** All of them, the best first. */
  choices: Array<Choice>;
};

/** Program that a client is. */
export type ClientInfo = {
  /** Name of the program. */
  name: string;
  /** Version of the program. */
  version?: string;
};

/** Clients that are attached. */
export type Clients = {
  /** All of them, the oldest first. */
  clients: Array<AttachedClient>;
};

/** End of a conversation: the notification `conversation/closed`. */
export type ClosedNote = {
  /** Id of the conversation. */
  conversation: string;
  /** Number of the notification. */
  seq: number;
  /** Milliseconds since 1970. */
  time_ms: number;
  /** Remarks on what was not saved. */
  unsaved?: Array<string>;
};

/** Way in which a command ended. */
export type CommandExit = {
  /** Exit code; 0 is success. */
  code: number;
  how: "code";
} | {
  how: "signal";
  /** Number of the signal. */
  signal: number;
} | {
  how: "timed_out";
} | {
  how: "stopped";
};

/** Params of a command. */
export type CommandParams = {
  /** Id of the conversation. */
  conversation: string;
  /** Name of the command and its arguments, such as `/compact`. */
  line: string;
};

/** Outcome of a command. */
export type CommandResult = {
  /** Whether the conversation ends. */
  ended: boolean;
  /** Whether it sent a prompt. */
  prompted: boolean;
  /** Text that it says; nothing where it only acted. */
  said?: string;
};

/** Command that a conversation has. */
export type CommandRow = {
  /** Arguments in words. */
  argument_hint?: string | null;
  /** Help in one line. */
  help: string;
  /** The name, without the slash. */
  name: string;
};

/** Commands that a conversation has. */
export type Commands = {
  /** All of them, by name. */
  commands: Array<CommandRow>;
};

/** Kind of what is completed. */
export type CompleteKind = "command" | "argument" | "file";

/** Params of a completion. */
export type CompleteParams = {
  /** Id of the conversation. */
  conversation: string;
  /** Kind of what is completed. */
  kind: CompleteKind;
  /** Text that was typed so far. */
  text: string;
};

/** Network connections that one command may make. */
export type Connections = {
  /** Whether every public address is allowed too, because the hosts that the command needs are not known in advance. */
  any_public: boolean;
  /** Hosts as `name`, for its ports 80 and 443, or as `name:port`. Only these may lead to this machine or a private network. */
  hosts: Array<string>;
};

/** Content of a block. */
export type Content = {
  /** Number of attached images and documents. */
  attachments: number;
  /** Line that the person typed, if a command made the text of it. Unknown in a resumed session. */
  command?: Text | null;
  /** The text. */
  text: Text;
  type: "user";
} | {
  /** Author of the message. */
  by: Text;
  /** The text. */
  text: Text;
  type: "injected";
} | {
  /** The text. */
  text: Text;
  /** Milliseconds from the beginning of the reasoning to its end, once that came and if both were seen. */
  thought_ms?: number | null;
  type: "thinking";
} | {
  /** End of the answer. */
  end?: AnswerEnd;
  /** The text. */
  text: Text;
  type: "answer";
} | (Call & {
  type: "call";
}) | {
  /** Description of the action. */
  text: Text;
  type: "provider";
} | {
  /** The summary. */
  text: Text;
  type: "summary";
} | {
  /** The body. */
  body: Body;
  /** Kind of the content, as the plugin names it. */
  kind: Text;
  /** The plugin. */
  source: Text;
  /** A line above the body. */
  title: Text;
  type: "plugin";
} | (RunEnd & {
  type: "end";
}) | {
  /** Importance of the notice. */
  level: NoteLevel;
  /** The text. */
  text: Text;
  type: "note";
};

/** Fill level of the context, and the number of compactions. */
export type ContextGauge = {
  /** Colour by urgency. */
  colour: GaugeColour;
  /** Compactions of this conversation so far; shown as a badge if not 0. */
  compactions: number;
  /** Figures of the last compaction, if known. */
  last?: LastCompaction | null;
  /** Share of the window in percent. */
  percent: number;
  /** Tokens of the request, estimated. */
  tokens: number;
  /** Tokens that a request may have. */
  usable: number;
};

/** Conversation that is meant. */
export type ConversationParams = {
  /** Id of the conversation. */
  conversation: string;
};

/** Conversations that are open. */
export type Conversations = {
  /** All of them. */
  conversations: Array<OpenConversation>;
};

/** Display form of a result, for a person. */
export type Display = {
  kind: "line";
  /** Text of the line. */
  text: string;
} | {
  /** Text of the diff. */
  diff: string;
  kind: "diff";
  /** Path of the changed file. */
  path: string;
} | {
  kind: "lines";
  /** Text lines without line ends. */
  lines: Array<string>;
} | {
  /** Column headings. */
  head: Array<string>;
  kind: "table";
  /** Rows. */
  rows: Array<Array<string>>;
} | {
  /** Exit of the command. */
  exit: CommandExit;
  kind: "command";
  /** Last lines of the output, if retained. */
  lines: Array<string>;
  /** Number of lines that the command printed in all. */
  total_lines: number;
} | {
  kind: "markdown";
  /** Outcome in one line; empty on success. */
  outcome?: string;
  /** The text. */
  text: string;
} | {
  /** The items, in order. */
  items: Array<CheckItem>;
  kind: "checklist";
  /** Whether items were added, removed or changed, beyond their state. */
  reshaped: boolean;
};

/** One effect of a tool call. */
export type Effect = {
  effect: "reads";
  /** Paths that are read. */
  paths: Array<string>;
} | {
  effect: "writes";
  /** Paths that are written, created or removed. */
  paths: Array<string>;
} | {
  /** Program and arguments, if known without a shell. */
  argv: Array<string>;
  /** Command line for the shell, if there is one. */
  command?: string | null;
  effect: "executes";
} | {
  effect: "network";
  /** The hosts, as `host` or `host:port`. */
  hosts: Array<string>;
} | {
  effect: "leaves_context";
  /** Purpose as stated by the caller; not verified. */
  reason: string;
};

/** Effects of a tool call on the world, as data for permissions, sandbox and audit. */
export type Effects = {
  effects: "unknown";
} | {
  effects: "known";
  /** List of all effects. */
  list: Array<Effect>;
};

/** Id of an entry in a session's log. */
export type EntryId = string;

/** Format of an export. */
export type ExportFormat = "markdown" | "jsonl";

/** Params of an export. */
export type ExportParams = {
  /** Format of the text. */
  format?: ExportFormat;
  /** Id of the session. */
  session: string;
};

/** An exported session. */
export type ExportResult = {
  /** The text. */
  text: string;
};

/** Params of a copy of a session. */
export type ForkParams = {
  /** The last entry of the copy; all entries without one. */
  entry?: string | null;
  /** Id of the session. */
  session: string;
};

/** Form of the lines of a [`Body`]. */
export type Form = {
  form: "line";
} | {
  form: "lines";
} | {
  /** Exit of the command. */
  exit: CommandExit;
  form: "command";
} | {
  /** Number of added lines. */
  added: number;
  form: "diff";
  /** The path it is of. */
  path: Text;
  /** Number of removed lines. */
  removed: number;
} | {
  form: "table";
} | {
  form: "markdown";
  /** Outcome in one line; empty on success. */
  outcome?: Text;
} | {
  form: "checklist";
  /** Whether items were added, removed or changed, beyond their state. */
  reshaped: boolean;
};

/** The colour of a gauge. */
export type GaugeColour = "green" | "yellow" | "red";

/** Text that waited and goes back to whoever types: the notification `conversation/given_back`. */
export type GivenBackNote = {
  /** Id of the conversation. */
  conversation: string;
  /** Number of the notification. */
  seq: number;
  /** The text. */
  text: string;
  /** Milliseconds since 1970. */
  time_ms: number;
};

/** First request of a client. */
export type InitializeParams = {
  /** Program that the client is. */
  client?: ClientInfo;
  /** Version of the protocol that the client was made for, such as `1.0`. */
  protocol_version: string;
  /** Role that it wants. */
  role: Role;
  /** Whether runs of conversations that this client sent prompts to stop when its connection ends. */
  stop_on_disconnect?: boolean;
  /** Token that allows the role, where the connection itself does not. */
  token?: string | null;
};

/** Answer to the first request. */
export type InitializeResult = {
  /** Id of this client. */
  client: string;
  /** Conversations that are open. */
  conversations: Array<OpenConversation>;
  /** Directory of the server. */
  cwd: string;
  /** Version of the protocol that the server speaks. */
  protocol_version: string;
  /** Role of this client. */
  role: Role;
  /** Name and version of the server. */
  server: ClientInfo;
  /** Version of the patches' shape. */
  view_version: string;
};

/** A command in the background, as a list shows it. */
export type JobRow = {
  /** Command, in one line. */
  command: Text;
  /** Whether it survives the end of the conversation. */
  detached?: boolean;
  /** Id that the command is named by. */
  id: Text;
  /** State of the command. */
  state: JobState;
};

/** State of a command in the background. */
export type JobState = {
  state: "running";
} | {
  state: "ending";
} | {
  /** Whether the command failed. */
  failed: boolean;
  /** Outcome in a few words. */
  how: Text;
  state: "ended";
};

/** Figures of the last compaction of a conversation. */
export type LastCompaction = {
  /** Estimated tokens of the first request after the compaction. */
  after: number;
  /** Time since then in milliseconds, in whole minutes. */
  age_ms: number;
  /** Estimated tokens of the last request before the compaction. */
  before: number;
};

/** Params of a list of stored sessions. */
export type ListParams = {
  /** Directory of the sessions; those of all directories without one. */
  cwd?: string | null;
  /** Most sessions that are listed. */
  limit?: number | null;
  /** Text that their titles or prompts contain, whatever its case; for a search. */
  text?: string;
};

/** Id of a message, assigned when it joins a conversation. */
export type MessageId = string;

/** Model that a conversation may use. */
export type ModelRow = {
  /** Price of a million tokens that it reads, in US dollars. */
  input_price?: number | null;
  /** Whether it is the one in use. */
  is_current: boolean;
  /** Name of the model with its provider, such as `anthropic/opus`. */
  name: string;
  /** Price of a million tokens that it writes, in US dollars. */
  output_price?: number | null;
  /** Levels of reasoning, the least first. */
  thinking: Array<string>;
  /** Tokens of its window. */
  window?: number | null;
};

/** Models that a conversation may use. */
export type Models = {
  /** Providers that could not be asked, in words. */
  failed?: Array<string>;
  /** All of them. */
  models: Array<ModelRow>;
};

/** Params of a list of models. */
export type ModelsParams = {
  /** Id of the conversation. */
  conversation: string;
  /** Whether providers are asked for their lists. */
  refresh?: boolean;
};

/** Params of a conversation that is opened. */
export type NewParams = {
  /** Directories to work in beside it, for which an approver is needed. */
  add_directories?: Array<string>;
  /** Whether parts of the project that nobody approved are asked about first. The questions come as notifications of a conversation that `conversation/opening` names. */
  ask_about_project?: boolean;
  /** Directory to work in; the server's without one. Another than the server's needs an approver. */
  cwd?: string | null;
  /** Settings by dotted keys, over those of files. Others than `thinking`, `append_system` and `max_tokens` need an approver. */
  settings?: Record<string, unknown>;
  /** Whether nobody will answer questions: what would be asked is refused. */
  unattended?: boolean;
};

/** Importance of a notice. */
export type NoteLevel = "info" | "warning";

/** Params of a method that takes none, and result of one that gives nothing. */
export type Nothing = Record<string, unknown>;

/** Conversation that is open. */
export type OpenConversation = {
  /** Id of the conversation, for as long as this server runs. */
  conversation: string;
  /** Directory that it works in. */
  cwd: string;
  /** Whether a run goes on. */
  is_running: boolean;
  /** Number of its last notification. */
  seq: number;
  /** Id of its session, once it is stored. */
  session?: string | null;
};

/** Params of a stored session that is opened. */
export type OpenParams = {
  /** Id of the session, or its beginning. */
  session: string;
  /** Whether nobody will answer questions: what would be asked is refused. */
  unattended?: boolean;
};

/** Conversation that is being opened, and asks questions before that: the notification `conversation/opening`. */
export type OpeningNote = {
  /** Id of the conversation. */
  conversation: string;
};

/** Form of the lines of a [`CardPart`]. */
export type PartKind = "command" | "diff" | "model_says" | "fact" | "text" | "json" | "preview";

/** One change of a [`View`]. Patches are applied in order, by [`View::apply`]. */
export type Patch = {
  patch: "reset";
  /** The view. */
  view: View;
} | {
  /** The block. */
  block: Block;
  patch: "open";
} | {
  /** The text. */
  delta: Text;
  /** The block. */
  id: BlockId;
  patch: "grow";
} | {
  /** The block. */
  block: Block;
  patch: "change";
} | {
  /** The block. */
  block: Block;
  patch: "close";
} | {
  /** The block. */
  id: BlockId;
  patch: "remove";
} | {
  /** The block. */
  id: BlockId;
  /** The lines. */
  lines: Array<Text>;
  patch: "body";
} | {
  /** The question. */
  card: Card;
  patch: "ask";
} | {
  /** The question. */
  id: QuestionId;
  patch: "answered";
} | {
  patch: "queue";
  /** All texts, in their order. */
  queued: Array<Queued>;
} | {
  patch: "status";
  /** The status. */
  status: Status;
} | {
  /** All sub-agents of the run. */
  agents: Array<AgentRow>;
  patch: "agents";
} | {
  /** All background commands, also ended ones. */
  jobs: Array<JobRow>;
  patch: "jobs";
} | {
  /** All items of the list. */
  items: Array<CheckRow>;
  patch: "checklist";
};

/** Change of the view of a conversation: the notification `conversation/patch`. */
export type PatchNote = {
  /** Id of the conversation. */
  conversation: string;
  /** The change. */
  patch: Patch;
  /** Number of the notification: one more than the one before, but where the whole view stands for what is missing. */
  seq: number;
  /** Whether nothing follows until somebody asks for more; said with a whole view, which stands for a `conversation/settled` as well. */
  settled?: boolean;
  /** Milliseconds since 1970. */
  time_ms: number;
};

/** Prompt of a stored session. */
export type PromptRow = {
  /** Entry before the prompt: a copy up to it goes on in its place. */
  before?: string | null;
  /** Entry of the prompt. */
  entry: string;
  /** The prompt. */
  text: string;
  /** Milliseconds since 1970 at which it was written. */
  time_ms: number;
};

/** Question to a person. */
export type Question = (Approval & {
  ask: "approve";
}) | {
  ask: "confirm";
  /** Text of the question. */
  text: string;
} | (TrustRequest & {
  ask: "trust";
}) | (Selection & {
  ask: "select";
}) | {
  ask: "input";
  /** Text of the question. */
  text: string;
};

/** Digest of a question's content, which proves what a front-end showed. In JSON it is a text of 16 hexadecimal digits: numbers of that size lose digits in many languages. */
export type QuestionDigest = string;

/** Id of a question, unique within its process. */
export type QuestionId = number;

/** Texts that wait for their turn. */
export type Queue = {
  /** All of them, in order. */
  queued: Array<QueuedText>;
};

/** A text that waits for its turn. */
export type Queued = {
  /** Number of the text. */
  id: number;
  /** Whether the text steers the run instead of waiting for its end. */
  steers: boolean;
  /** The text. */
  text: Text;
};

/** A text that waits for its turn. */
export type QueuedText = {
  /** Number of the text. */
  id: number;
  /** Whether it interrupts the run, or waits for its end. */
  steers: boolean;
  /** The text. */
  text: Text;
};

/** Params of another title. */
export type RenameParams = {
  /** Id of the session. */
  session: string;
  /** The title; the beginning of its first prompt where it is empty. */
  title: string;
};

/** Role of a client. Each may do all that the one before may. */
export type Role = "viewer" | "driver" | "approver";

/** End of a run, with cost and duration. */
export type RunEnd = {
  /** Cost of the run in US dollars, if known. */
  cost?: number | null;
  /** Whether some turn's cost is unknown, so that `cost` is a lower bound. */
  cost_is_partial: boolean;
  /** Duration of the run in milliseconds. */
  duration_ms: number;
  /** The error it ended with. */
  error?: Text | null;
  /** Final status of the run. */
  status: RunStatus;
  /** Input tokens of the run, cached ones included. */
  tokens_read: number;
  /** Tokens the model wrote. */
  tokens_written: number;
  /** Turns of the run. */
  turns: number;
};

/** Outcome of a run. */
export type RunStatus = "completed" | "aborted" | "error";

/** A choice of one among several. */
export type Selection = {
  /** Whether a free text is an answer, too: [`Answer::Text`]. */
  accepts_words?: boolean;
  /** Descriptions of the choices, in their order; those of the last ones may be missing, and any be empty. */
  descriptions?: Array<string>;
  /** The choices. */
  options: Array<string>;
  /** Content that the question is about, to be read before it. */
  preview?: Display | null;
  /** The question. */
  text: string;
};

/** Id of a session: a stored conversation of several runs. */
export type SessionId = string;

/** Stored session that is meant. */
export type SessionParams = {
  /** Id of the session. */
  session: string;
};

/** A stored session, as a result. */
export type SessionResult = {
  /** Id of the session. */
  session: string;
};

/** A stored session. */
export type SessionRow = {
  /** Conversation of this server that has it open. */
  conversation?: string | null;
  /** Directory of the session. */
  cwd: string;
  /** The first prompt that contains the text of a search. */
  found?: string | null;
  /** Number of its messages. */
  messages: number;
  /** Session that it was copied from. */
  parent?: string | null;
  /** Id of the session. */
  session: string;
  /** Title of the session. */
  title: string;
  /** Reason for which it cannot be read. */
  unreadable?: string | null;
  /** Milliseconds since 1970 at which it was written last. */
  updated_ms: number;
};

/** Stored sessions. */
export type Sessions = {
  /** Sessions that were asked for, the newest first. */
  sessions: Array<SessionRow>;
};

/** Settings of a conversation. */
export type Settings = {
  /** Directory that tools work in. */
  cwd: string;
  /** Directories that tools may work in. */
  directories: Array<string>;
  /** Mode of permissions; nothing where calls are not judged by modes. */
  mode?: string | null;
  /** Model with its provider. */
  model: string;
  /** Id of the session, once it is stored. */
  session?: string | null;
  /** Level of reasoning. */
  thinking: string;
};

/** Settings that are changed. */
export type SettingsParams = {
  /** Directory to work in beside the others, for which an approver is needed. */
  add_directory?: string | null;
  /** Id of the conversation. */
  conversation: string;
  /** Directory to work in, one of those that tools may work in. */
  cwd?: string | null;
  /** Mode of permissions, for which an approver is needed. */
  mode?: string | null;
  /** Model, such as `anthropic/opus`. */
  model?: string | null;
  /** Level of reasoning. */
  thinking?: string | null;
};

/** End of all that was asked for: the notification `conversation/settled`. Nothing follows until somebody asks for more. */
export type SettledNote = {
  /** Id of the conversation. */
  conversation: string;
  /** Number of the notification. */
  seq: number;
  /** Milliseconds since 1970. */
  time_ms: number;
};

/** Content of the status line. */
export type Status = {
  /** Present activity. */
  activity: Activity;
  /** Duration of the activity in milliseconds, at the time of this status. */
  activity_ms: number;
  /** Tokens in the context, by the last response. */
  context_tokens?: number | null;
  /** Cost of the run so far in US dollars, if known. */
  cost?: number | null;
  /** Fill level of the context at the last request; `None` before one, and if the window is unknown. */
  gauge?: ContextGauge | null;
  /** Duration of the run in milliseconds; `None` between runs. */
  run_ms?: number | null;
  /** Tokens the run has read. */
  tokens_read: number;
  /** Output tokens of the run; those of the arriving response are estimated by its length. */
  tokens_written: number;
};

/** Params of a text that interrupts a run. */
export type SteerParams = {
  /** Id of the conversation. */
  conversation: string;
  /** The text. */
  text: string;
};

/** A sub-agent of the conversation's agent. */
export type SubAgent = {
  /** Depth of the agent, 1 for a child of the main agent. */
  depth: number;
  /** Name of the sub-agent, unique in the tree of agents. */
  name: Text;
};

/** Params of a prompt. */
export type SubmitParams = {
  /** Id of the conversation. */
  conversation: string;
  /** Images that belong to it: PNG, JPEG, GIF or WebP, each as base64. */
  images?: Array<string>;
  /** The prompt. */
  text: string;
};

/** Answer to a prompt or a text that was taken in. */
export type SubmitResult = {
  /** Number of the last notification before it: the first `conversation/settled` with a greater one says that it is done. */
  seq: number;
};

/** Params of whoever follows a conversation. */
export type SubscribeParams = {
  /** Number of the last notification that the client has; the whole view comes first without one. */
  after?: number | null;
  /** Id of the conversation. */
  conversation: string;
};

/** Answer to whoever follows a conversation; its notifications come behind. */
export type SubscribeResult = {
  /** Whether the whole view comes first: there is a gap, or nothing was known. */
  resync: boolean;
  /** Number of the last notification so far. */
  seq: number;
};

/** Params of another session in a conversation. */
export type SwitchParams = {
  /** Id of the conversation. */
  conversation: string;
  /** Session that takes the place of the present one. */
  to: SwitchTarget;
};

/** Target to switch a conversation to. */
export type SwitchTarget = "new" | {
  session: SessionId;
} | {
  branch: EntryId;
} | {
  tree: TreeMove;
} | {
  fork: EntryId;
};

/** Text that is safe to show on a terminal: only the [`Sanitiser`] makes one, also from JSON. */
export type Text = string;

/** Prompts of a stored session. */
export type Tree = {
  /** All of them, the oldest first. */
  prompts: Array<PromptRow>;
};

/** Move of the present session's leaf. */
export type TreeMove = {
  /** Summary of the branch that is left, up to the common ancestor; `None` for no summary. */
  summary?: BranchSummary | null;
  /** Entry that the branch continues from; `None` for the time before the first entry. */
  to?: EntryId | null;
};

/** Content of a project that a person can trust, exactly as it is. */
export type TrustRequest = {
  /** Detail lines, such as hashes; a front-end shows them on demand. */
  details?: Array<string>;
  /** Things that count once they are trusted, in a line each. */
  items: Array<string>;
  /** The question, in a sentence. */
  text: string;
};

/** Params of a text that is taken back from the queue. */
export type UnqueueParams = {
  /** Id of the conversation. */
  conversation: string;
  /** Number of the text in the queue. */
  id: number;
};

/** Snapshot of a conversation as shown. Plain data: equal patches make equal views. Blocks are searched for from the end; [`IndexedView`](crate::IndexedView) finds them in constant time. */
export type View = {
  /** The sub-agents of the run. */
  agents: Array<AgentRow>;
  /** All blocks, in order. Closed ones are immutable. */
  blocks: Array<Block>;
  /** Open questions, oldest first. */
  cards: Array<Card>;
  /** To-do list, as last written by the main agent. */
  checklist?: Array<CheckRow>;
  /** Background commands, running and ended. */
  jobs?: Array<JobRow>;
  /** Texts that wait for their turn. */
  queue: Array<Queued>;
  /** Status line. */
  status: Status;
  /** Number of session switches. Block ids are unique between two of them. */
  switches?: number;
};

/** Similar calls that a person can allow together with a call. */
export type Wider = {
  /** Description of the similar calls, with one that the choice allows and one that it does not, such as "commands that begin with `cargo test`, so also …, but not …". */
  allows: string;
  /** Property that the similar calls share with the call. */
  kind: WiderKind;
  /** Short description of the calls, such as "every `git push …`". */
  label?: string;
  /** Warning about the choice, if any. */
  warning?: string | null;
};

/** Property that the calls of a [`Wider`] choice have in common. */
export type WiderKind = "prefix" | "directory" | "project_code" | "tool" | "server";

/** Params and result of each method. */
export interface Methods {
  "answer": { params: AnswerParams; result: Nothing };
  "body": { params: BodyParams; result: BodyResult };
  "clients": { params: Nothing; result: Clients };
  "close": { params: ConversationParams; result: Nothing };
  "command": { params: CommandParams; result: CommandResult };
  "commands": { params: ConversationParams; result: Commands };
  "complete": { params: CompleteParams; result: Choices };
  "conversations": { params: Nothing; result: Conversations };
  "initialize": { params: InitializeParams; result: InitializeResult };
  "models": { params: ModelsParams; result: Models };
  "queue": { params: ConversationParams; result: Queue };
  "session/delete": { params: SessionParams; result: Nothing };
  "session/export": { params: ExportParams; result: ExportResult };
  "session/fork": { params: ForkParams; result: SessionResult };
  "session/list": { params: ListParams; result: Sessions };
  "session/new": { params: NewParams; result: OpenConversation };
  "session/open": { params: OpenParams; result: OpenConversation };
  "session/rename": { params: RenameParams; result: Nothing };
  "session/search": { params: ListParams; result: Sessions };
  "session/tree": { params: SessionParams; result: Tree };
  "settings/get": { params: ConversationParams; result: Settings };
  "settings/set": { params: SettingsParams; result: Settings };
  "steer": { params: SteerParams; result: SubmitResult };
  "stop": { params: ConversationParams; result: Nothing };
  "submit": { params: SubmitParams; result: SubmitResult };
  "subscribe": { params: SubscribeParams; result: SubscribeResult };
  "switch": { params: SwitchParams; result: OpenConversation };
  "unqueue": { params: UnqueueParams; result: Nothing };
  "unsubscribe": { params: ConversationParams; result: Nothing };
}

/** Params of each notification. */
export interface Notifications {
  "clients/changed": Clients;
  "conversation/answered": AnsweredNote;
  "conversation/closed": ClosedNote;
  "conversation/given_back": GivenBackNote;
  "conversation/opening": OpeningNote;
  "conversation/patch": PatchNote;
  "conversation/settled": SettledNote;
}

export type MethodName = keyof Methods;
export type NotificationName = keyof Notifications;
