"""Types of the messages, made by `cargo xtask docs` from the schema of `zk rpc`."""

from __future__ import annotations

from typing import Any, Literal, Optional, TypedDict, Union


class _AgentRow(TypedDict):
    depth: int
    name: Text
    state: AgentState
    task: Text


class AgentRow(_AgentRow, total=False):
    """A sub-agent as a list shows it."""

    calls: int
    context_tokens: Optional[int]
    cost: Optional[float]
    elapsed_ms: int
    gauge: Optional[ContextGauge]
    is_background: bool
    tokens: int
    turns: int


class AnswerParams(TypedDict):
    """Params of an answer to a question."""

    answer: Answer
    conversation: str
    digest: QuestionDigest
    id: QuestionId


class AnsweredNote(TypedDict):
    """Answer of a client to a question: the notification `conversation/answered`."""

    client: str
    conversation: str
    id: QuestionId
    seq: int
    time_ms: int


class _Approval(TypedDict):
    args: Any
    effects: Effects
    tool: str


class Approval(_Approval, total=False):
    """A tool call that needs approval."""

    always: Optional[str]
    connections: Optional[Connections]
    contained: Optional[Connections]
    more: list[Wider]
    preview: Optional[Display]
    reasons: list[str]
    session: Optional[str]
    wider: Optional[Wider]


class _ApprovalCard(TypedDict):
    choices: list[CardChoice]
    kind: AskedKind
    parts: list[CardPart]
    title: str


class ApprovalCard(_ApprovalCard, total=False):
    """Question about a call in words, equal on every screen and front-end."""

    reasons: list[str]
    remarks: list[str]


class AttachedClient(TypedDict):
    """Client that is attached."""

    client: ClientInfo
    follows: list[str]
    id: str
    role: Role


class _Block(TypedDict):
    closed: bool
    content: Content
    id: BlockId


class Block(_Block, total=False):
    """Block of a conversation as shown. Immutable once closed."""

    agent: Optional[SubAgent]
    message: Optional[MessageId]


class Body(TypedDict):
    """Body of a result. The block holds a bounded part; [`Intent::Expand`](crate::Intent::Expand) requests all lines."""

    expandable: bool
    form: Form
    lines: list[Text]
    total_lines: int


class BodyParams(TypedDict):
    """Params of a block whose lines are wanted."""

    block: BlockId
    conversation: str


class BodyResult(TypedDict):
    """All lines of a block."""

    lines: list[Text]


class BranchSummary(TypedDict, total=False):
    """Summary that a model makes of a branch before it is left."""

    instructions: Optional[str]


class _Call(TypedDict):
    call_id: CallId
    state: CallState
    step: int
    summary: Text
    tool: Text


class Call(_Call, total=False):
    """Tool call as shown."""

    argument: Optional[Text]
    body: Optional[Body]
    elapsed_ms: Optional[int]
    kind: CallKind
    line: Optional[int]
    locations: list[Text]
    progress: Text
    reason: Optional[Text]
    remarks: list[Text]


class _Card(TypedDict):
    digest: QuestionDigest
    id: QuestionId
    question: Question


class Card(_Card, total=False):
    """Open question as structured data for a front end."""

    agent: Optional[SubAgent]
    approval: Optional[ApprovalCard]


class _CardChoice(TypedDict):
    answer: Answer
    done: str
    is_row: bool
    key: str
    text: str


class CardChoice(_CardChoice, total=False):
    """An answer that a question offers."""

    allows: Optional[str]


class _CardPart(TypedDict):
    kind: PartKind
    lines: list[str]


class CardPart(_CardPart, total=False):
    """Part of the call to show."""

    heading: str


class CheckItem(TypedDict):
    """One item of a [`Display::Checklist`]."""

    state: CheckState
    text: str


class CheckRow(TypedDict):
    """Item of the to-do list."""

    state: CheckState
    text: Text


class _Choice(TypedDict):
    value: str


class Choice(_Choice, total=False):
    """Text that may be chosen."""

    note: str


class Choices(TypedDict):
    """Texts that may be chosen."""

    choices: list[Choice]


class _ClientInfo(TypedDict):
    name: str


class ClientInfo(_ClientInfo, total=False):
    """Program that a client is."""

    version: str


class Clients(TypedDict):
    """Clients that are attached."""

    clients: list[AttachedClient]


class _ClosedNote(TypedDict):
    conversation: str
    seq: int
    time_ms: int


class ClosedNote(_ClosedNote, total=False):
    """End of a conversation: the notification `conversation/closed`."""

    unsaved: list[str]


class CommandParams(TypedDict):
    """Params of a command."""

    conversation: str
    line: str


class _CommandResult(TypedDict):
    ended: bool
    prompted: bool


class CommandResult(_CommandResult, total=False):
    """Outcome of a command."""

    said: str


class _CommandRow(TypedDict):
    help: str
    name: str


class CommandRow(_CommandRow, total=False):
    """Command that a conversation has."""

    argument_hint: Optional[str]


class Commands(TypedDict):
    """Commands that a conversation has."""

    commands: list[CommandRow]


class CompleteParams(TypedDict):
    """Params of a completion."""

    conversation: str
    kind: CompleteKind
    text: str


class Connections(TypedDict):
    """Network connections that one command may make."""

    any_public: bool
    hosts: list[str]


class _ContextGauge(TypedDict):
    colour: GaugeColour
    compactions: int
    percent: int
    tokens: int
    usable: int


class ContextGauge(_ContextGauge, total=False):
    """Fill level of the context, and the number of compactions."""

    last: Optional[LastCompaction]


class ConversationParams(TypedDict):
    """Conversation that is meant."""

    conversation: str


class Conversations(TypedDict):
    """Conversations that are open."""

    conversations: list[OpenConversation]


class _ExportParams(TypedDict):
    session: str


class ExportParams(_ExportParams, total=False):
    """Params of an export."""

    format: ExportFormat


class ExportResult(TypedDict):
    """An exported session."""

    text: str


class _ForkParams(TypedDict):
    session: str


class ForkParams(_ForkParams, total=False):
    """Params of a copy of a session."""

    entry: Optional[str]


class GivenBackNote(TypedDict):
    """Text that waited and goes back to whoever types: the notification `conversation/given_back`."""

    conversation: str
    seq: int
    text: str
    time_ms: int


class _InitializeParams(TypedDict):
    protocol_version: str
    role: Role


class InitializeParams(_InitializeParams, total=False):
    """First request of a client."""

    client: ClientInfo
    stop_on_disconnect: bool
    token: Optional[str]


class InitializeResult(TypedDict):
    """Answer to the first request."""

    client: str
    conversations: list[OpenConversation]
    cwd: str
    protocol_version: str
    role: Role
    server: ClientInfo
    view_version: str


class _JobRow(TypedDict):
    command: Text
    id: Text
    state: JobState


class JobRow(_JobRow, total=False):
    """A command in the background, as a list shows it."""

    detached: bool


class LastCompaction(TypedDict):
    """Figures of the last compaction of a conversation."""

    after: int
    age_ms: int
    before: int


class ListParams(TypedDict, total=False):
    """Params of a list of stored sessions."""

    cwd: Optional[str]
    limit: Optional[int]
    text: str


class _ModelRow(TypedDict):
    is_current: bool
    name: str
    thinking: list[str]


class ModelRow(_ModelRow, total=False):
    """Model that a conversation may use."""

    input_price: Optional[float]
    output_price: Optional[float]
    window: Optional[int]


class _Models(TypedDict):
    models: list[ModelRow]


class Models(_Models, total=False):
    """Models that a conversation may use."""

    failed: list[str]


class _ModelsParams(TypedDict):
    conversation: str


class ModelsParams(_ModelsParams, total=False):
    """Params of a list of models."""

    refresh: bool


class NewParams(TypedDict, total=False):
    """Params of a conversation that is opened."""

    add_directories: list[str]
    ask_about_project: bool
    cwd: Optional[str]
    settings: dict[str, Any]
    unattended: bool


class _OpenConversation(TypedDict):
    conversation: str
    cwd: str
    is_running: bool
    seq: int


class OpenConversation(_OpenConversation, total=False):
    """Conversation that is open."""

    session: Optional[str]


class _OpenParams(TypedDict):
    session: str


class OpenParams(_OpenParams, total=False):
    """Params of a stored session that is opened."""

    unattended: bool


class OpeningNote(TypedDict):
    """Conversation that is being opened, and asks questions before that: the notification `conversation/opening`."""

    conversation: str


class _PatchNote(TypedDict):
    conversation: str
    patch: Patch
    seq: int
    time_ms: int


class PatchNote(_PatchNote, total=False):
    """Change of the view of a conversation: the notification `conversation/patch`."""

    settled: bool


class _PromptRow(TypedDict):
    entry: str
    text: str
    time_ms: int


class PromptRow(_PromptRow, total=False):
    """Prompt of a stored session."""

    before: Optional[str]


class Queue(TypedDict):
    """Texts that wait for their turn."""

    queued: list[QueuedText]


class Queued(TypedDict):
    """A text that waits for its turn."""

    id: int
    steers: bool
    text: Text


class QueuedText(TypedDict):
    """A text that waits for its turn."""

    id: int
    steers: bool
    text: Text


class RenameParams(TypedDict):
    """Params of another title."""

    session: str
    title: str


class _RunEnd(TypedDict):
    cost_is_partial: bool
    duration_ms: int
    status: RunStatus
    tokens_read: int
    tokens_written: int
    turns: int


class RunEnd(_RunEnd, total=False):
    """End of a run, with cost and duration."""

    cost: Optional[float]
    error: Optional[Text]


class _Selection(TypedDict):
    options: list[str]
    text: str


class Selection(_Selection, total=False):
    """A choice of one among several."""

    accepts_words: bool
    descriptions: list[str]
    preview: Optional[Display]


class SessionParams(TypedDict):
    """Stored session that is meant."""

    session: str


class SessionResult(TypedDict):
    """A stored session, as a result."""

    session: str


class _SessionRow(TypedDict):
    cwd: str
    messages: int
    session: str
    title: str
    updated_ms: int


class SessionRow(_SessionRow, total=False):
    """A stored session."""

    conversation: Optional[str]
    found: Optional[str]
    parent: Optional[str]
    unreadable: Optional[str]


class Sessions(TypedDict):
    """Stored sessions."""

    sessions: list[SessionRow]


class _Settings(TypedDict):
    cwd: str
    directories: list[str]
    model: str
    thinking: str


class Settings(_Settings, total=False):
    """Settings of a conversation."""

    mode: Optional[str]
    session: Optional[str]


class _SettingsParams(TypedDict):
    conversation: str


class SettingsParams(_SettingsParams, total=False):
    """Settings that are changed."""

    add_directory: Optional[str]
    cwd: Optional[str]
    mode: Optional[str]
    model: Optional[str]
    thinking: Optional[str]


class SettledNote(TypedDict):
    """End of all that was asked for: the notification `conversation/settled`. Nothing follows until somebody asks for more."""

    conversation: str
    seq: int
    time_ms: int


class _Status(TypedDict):
    activity: Activity
    activity_ms: int
    tokens_read: int
    tokens_written: int


class Status(_Status, total=False):
    """Content of the status line."""

    context_tokens: Optional[int]
    cost: Optional[float]
    gauge: Optional[ContextGauge]
    run_ms: Optional[int]


class SteerParams(TypedDict):
    """Params of a text that interrupts a run."""

    conversation: str
    text: str


class SubAgent(TypedDict):
    """A sub-agent of the conversation's agent."""

    depth: int
    name: Text


class _SubmitParams(TypedDict):
    conversation: str
    text: str


class SubmitParams(_SubmitParams, total=False):
    """Params of a prompt."""

    images: list[str]


class SubmitResult(TypedDict):
    """Answer to a prompt or a text that was taken in."""

    seq: int


class _SubscribeParams(TypedDict):
    conversation: str


class SubscribeParams(_SubscribeParams, total=False):
    """Params of whoever follows a conversation."""

    after: Optional[int]


class SubscribeResult(TypedDict):
    """Answer to whoever follows a conversation; its notifications come behind."""

    resync: bool
    seq: int


class SwitchParams(TypedDict):
    """Params of another session in a conversation."""

    conversation: str
    to: SwitchTarget


class Tree(TypedDict):
    """Prompts of a stored session."""

    prompts: list[PromptRow]


class TreeMove(TypedDict, total=False):
    """Move of the present session's leaf."""

    summary: Optional[BranchSummary]
    to: Optional[EntryId]


class _TrustRequest(TypedDict):
    items: list[str]
    text: str


class TrustRequest(_TrustRequest, total=False):
    """Content of a project that a person can trust, exactly as it is."""

    details: list[str]


class UnqueueParams(TypedDict):
    """Params of a text that is taken back from the queue."""

    conversation: str
    id: int


class _View(TypedDict):
    agents: list[AgentRow]
    blocks: list[Block]
    cards: list[Card]
    queue: list[Queued]
    status: Status


class View(_View, total=False):
    """Snapshot of a conversation as shown. Plain data: equal patches make equal views. Blocks are searched for from the end; [`IndexedView`](crate::IndexedView) finds them in constant time."""

    checklist: list[CheckRow]
    jobs: list[JobRow]
    switches: int


class _Wider(TypedDict):
    allows: str
    kind: WiderKind


class Wider(_Wider, total=False):
    """Similar calls that a person can allow together with a call."""

    label: str
    warning: Optional[str]


Text = str


class ActivityIdle(TypedDict):
    """No run."""

    doing: Literal["idle"]


class ActivityStarting(TypedDict):
    """A run is being prepared."""

    doing: Literal["starting"]


class ActivityCompacting(TypedDict):
    """Compaction."""

    before: int
    doing: Literal["compacting"]


class ActivityWaiting(TypedDict):
    """A request was sent; no response yet."""

    doing: Literal["waiting"]
    model: Text


class ActivitySilent(TypedDict):
    """A response has been silent for some seconds."""

    doing: Literal["silent"]
    idle_ms: int
    keep_alives: bool
    limit_ms: int
    model: Text


class ActivityRetrying(TypedDict):
    """A request waits for a retry."""

    attempt: int
    doing: Literal["retrying"]
    left_ms: int
    max_attempts: int
    why: Text


class ActivityThinking(TypedDict):
    """The model reasons."""

    doing: Literal["thinking"]


class ActivityAnswering(TypedDict):
    """The model answers."""

    doing: Literal["answering"]


class ActivityWriting(TypedDict):
    """The model writes the arguments of a call."""

    doing: Literal["writing"]
    tool: Text


class _ActivityRunning(TypedDict):
    calls: list[Text]
    doing: Literal["running"]


class ActivityRunning(_ActivityRunning, total=False):
    """Tools run."""

    failed: int
    of: int
    over: int
    refused: int
    skipped: int


class ActivityAsking(TypedDict):
    """A question to the person is open."""

    doing: Literal["asking"]


class ActivityStopping(TypedDict):
    """The run is being stopped."""

    doing: Literal["stopping"]


Activity = Union[ActivityIdle, ActivityStarting, ActivityCompacting, ActivityWaiting, ActivitySilent, ActivityRetrying, ActivityThinking, ActivityAnswering, ActivityWriting, ActivityRunning, ActivityAsking, ActivityStopping]


AgentState = Union[Literal["running"], Literal["done"], Literal["failed"], Literal["stopped"]]


class AnswerOnce(TypedDict):
    """Yes, this once. Also the *yes* to a [`Question::Confirm`]."""

    answer: Literal["once"]


class AnswerSession(TypedDict):
    """Yes, and [`Approval::session`] for the rest of the session."""

    answer: Literal["session"]


class AnswerAlways(TypedDict):
    """Yes, and [`Approval::always`] from now on."""

    answer: Literal["always"]


class AnswerWiderSession(TypedDict):
    """Yes, and [`Approval::wider`] for the rest of the session."""

    answer: Literal["wider_session"]


class AnswerWiderAlways(TypedDict):
    """Yes, and [`Approval::wider`] from now on, in this project."""

    answer: Literal["wider_always"]


class AnswerMoreSession(TypedDict):
    """Yes, and the calls of one [`Approval::more`] for the rest of the session."""

    answer: Literal["more_session"]
    index: int


class AnswerMoreAlways(TypedDict):
    """Yes, and the calls of one [`Approval::more`] permanently, in this project."""

    answer: Literal["more_always"]
    index: int


class AnswerContained(TypedDict):
    """Yes, this once, in the sandbox that the call wants to leave, with the connections of [`Approval::contained`]."""

    answer: Literal["contained"]


class _AnswerNo(TypedDict):
    answer: Literal["no"]


class AnswerNo(_AnswerNo, total=False):
    """No, optionally with a message to the model."""

    message: Optional[str]


class AnswerChoice(TypedDict):
    """A choice among the options."""

    answer: Literal["choice"]
    index: int


class AnswerText(TypedDict):
    """A line of text."""

    answer: Literal["text"]
    text: str


class AnswerAbsent(TypedDict):
    """No answer: there is no front-end, the question expired, or the run was stopped."""

    answer: Literal["absent"]


Answer = Union[AnswerOnce, AnswerSession, AnswerAlways, AnswerWiderSession, AnswerWiderAlways, AnswerMoreSession, AnswerMoreAlways, AnswerContained, AnswerNo, AnswerChoice, AnswerText, AnswerAbsent]


class AnswerEndWhole(TypedDict):
    """Complete answer, or one that is still growing."""

    end: Literal["whole"]


class AnswerEndMaxTokens(TypedDict):
    """The output limit cut it."""

    end: Literal["max_tokens"]


class AnswerEndWindowFull(TypedDict):
    """The context window was full."""

    end: Literal["window_full"]


class AnswerEndEmpty(TypedDict):
    """Answer without any content."""

    end: Literal["empty"]


class AnswerEndRefused(TypedDict):
    """The model or a filter refused."""

    end: Literal["refused"]


class AnswerEndStopped(TypedDict):
    """The run was stopped."""

    end: Literal["stopped"]


class AnswerEndBroken(TypedDict):
    """The response broke off."""

    end: Literal["broken"]


class AnswerEndSentAgain(TypedDict):
    """Broken-off answer whose request was retried: not part of the conversation."""

    end: Literal["sent_again"]


class AnswerEndOther(TypedDict):
    """The provider gave a reason that zk does not know."""

    end: Literal["other"]
    reason: Text


AnswerEnd = Union[AnswerEndWhole, AnswerEndMaxTokens, AnswerEndWindowFull, AnswerEndEmpty, AnswerEndRefused, AnswerEndStopped, AnswerEndBroken, AnswerEndSentAgain, AnswerEndOther]


AskedKind = Union[Literal["outside"], Literal["network"], Literal["command"], Literal["edit"], Literal["create"], Literal["read"], Literal["fetch"], Literal["tool"]]


BlockId = str


CallId = str


CallKind = Union[Literal["read"], Literal["search"], Literal["edit"], Literal["execute"], Literal["fetch"], Literal["ask"], Literal["plan"], Literal["delegate"], Literal["other"]]


CallState = Union[Literal["writing"], Literal["waiting"], Literal["running"], Literal["done"], Literal["failed"], Literal["refused"], Literal["skipped"], Literal["parked"], Literal["invalid"], Literal["unknown"], Literal["outcome_unknown"], Literal["not_run"]]


CheckState = Union[Literal["open"], Literal["current"], Literal["done"]]


class CommandExitCode(TypedDict):
    """The command exited with this code."""

    code: int
    how: Literal["code"]


class CommandExitSignal(TypedDict):
    """A signal ended the command."""

    how: Literal["signal"]
    signal: int


class CommandExitTimedOut(TypedDict):
    """The command exceeded its time limit."""

    how: Literal["timed_out"]


class CommandExitStopped(TypedDict):
    """The command was stopped with its run."""

    how: Literal["stopped"]


CommandExit = Union[CommandExitCode, CommandExitSignal, CommandExitTimedOut, CommandExitStopped]


CompleteKind = Union[Literal["command"], Literal["argument"], Literal["file"]]


NoteLevel = Union[Literal["info"], Literal["warning"]]


class _ContentUser(TypedDict):
    attachments: int
    text: Text
    type: Literal["user"]


class ContentUser(_ContentUser, total=False):
    """Message of the person."""

    command: Optional[Text]


class ContentInjected(TypedDict):
    """Message from another source: a budget, a steering text, a plugin."""

    by: Text
    text: Text
    type: Literal["injected"]


class _ContentThinking(TypedDict):
    text: Text
    type: Literal["thinking"]


class ContentThinking(_ContentThinking, total=False):
    """Reasoning of the model; empty if its provider withholds it."""

    thought_ms: Optional[int]


class _ContentAnswer(TypedDict):
    text: Text
    type: Literal["answer"]


class ContentAnswer(_ContentAnswer, total=False):
    """The model's answer."""

    end: AnswerEnd


class ContentCall(Call):
    """A tool call."""

    type: Literal["call"]


class ContentProvider(TypedDict):
    """Server-side action of the provider, in a few words."""

    text: Text
    type: Literal["provider"]


class ContentSummary(TypedDict):
    """Summary of messages that a compaction removed from the context."""

    text: Text
    type: Literal["summary"]


class ContentPlugin(TypedDict):
    """Content that a plugin shows."""

    body: Body
    kind: Text
    source: Text
    title: Text
    type: Literal["plugin"]


class ContentEnd(RunEnd):
    """End of a run."""

    type: Literal["end"]


class ContentNote(TypedDict):
    """Transient notice. Not part of the stored session."""

    level: NoteLevel
    text: Text
    type: Literal["note"]


Content = Union[ContentUser, ContentInjected, ContentThinking, ContentAnswer, ContentCall, ContentProvider, ContentSummary, ContentPlugin, ContentEnd, ContentNote]


class DisplayLine(TypedDict):
    """One line of text."""

    kind: Literal["line"]
    text: str


class DisplayDiff(TypedDict):
    """A unified diff."""

    diff: str
    kind: Literal["diff"]
    path: str


class DisplayLines(TypedDict):
    """Several lines of text."""

    kind: Literal["lines"]
    lines: list[str]


class DisplayTable(TypedDict):
    """A table."""

    head: list[str]
    kind: Literal["table"]
    rows: list[list[str]]


class DisplayCommand(TypedDict):
    """Output of a command and its exit."""

    exit: CommandExit
    kind: Literal["command"]
    lines: list[str]
    total_lines: int


class _DisplayMarkdown(TypedDict):
    kind: Literal["markdown"]
    text: str


class DisplayMarkdown(_DisplayMarkdown, total=False):
    """Markdown, and the outcome."""

    outcome: str


class DisplayChecklist(TypedDict):
    """To-do list in its present state."""

    items: list[CheckItem]
    kind: Literal["checklist"]
    reshaped: bool


Display = Union[DisplayLine, DisplayDiff, DisplayLines, DisplayTable, DisplayCommand, DisplayMarkdown, DisplayChecklist]


class EffectReads(TypedDict):
    """Reads these paths, as the call names them; empty if the paths are not known in advance."""

    effect: Literal["reads"]
    paths: list[str]


class EffectWrites(TypedDict):
    """Writes, creates or removes these paths; empty if the paths are not known in advance."""

    effect: Literal["writes"]
    paths: list[str]


class _EffectExecutes(TypedDict):
    argv: list[str]
    effect: Literal["executes"]


class EffectExecutes(_EffectExecutes, total=False):
    """Runs a program."""

    command: Optional[str]


class EffectNetwork(TypedDict):
    """Opens connections to these hosts; empty if the hosts are not known in advance."""

    effect: Literal["network"]
    hosts: list[str]


class EffectLeavesContext(TypedDict):
    """Runs outside of the execution context (sandbox, container) that confines all other commands."""

    effect: Literal["leaves_context"]
    reason: str


Effect = Union[EffectReads, EffectWrites, EffectExecutes, EffectNetwork, EffectLeavesContext]


class EffectsUnknown(TypedDict):
    """The tool does not declare its effects. It may do anything, so a permission gate asks a person."""

    effects: Literal["unknown"]


class EffectsKnown(TypedDict):
    """Exactly these effects; none when empty."""

    effects: Literal["known"]
    list: list[Effect]


Effects = Union[EffectsUnknown, EffectsKnown]


EntryId = str


ExportFormat = Union[Literal["markdown"], Literal["jsonl"]]


class FormLine(TypedDict):
    """Single line."""

    form: Literal["line"]


class FormLines(TypedDict):
    """Text."""

    form: Literal["lines"]


class FormCommand(TypedDict):
    """The output of a command."""

    exit: CommandExit
    form: Literal["command"]


class FormDiff(TypedDict):
    """A unified diff."""

    added: int
    form: Literal["diff"]
    path: Text
    removed: int


class FormTable(TypedDict):
    """Rows of a table, cells separated by ` | `; the first is the head."""

    form: Literal["table"]


class _FormMarkdown(TypedDict):
    form: Literal["markdown"]


class FormMarkdown(_FormMarkdown, total=False):
    """Lines of Markdown."""

    outcome: Text


class FormChecklist(TypedDict):
    """To-do list; each item starts with the sign of its state."""

    form: Literal["checklist"]
    reshaped: bool


Form = Union[FormLine, FormLines, FormCommand, FormDiff, FormTable, FormMarkdown, FormChecklist]


GaugeColour = Union[Literal["green"], Literal["yellow"], Literal["red"]]


class JobStateRunning(TypedDict):
    """Command that runs."""

    state: Literal["running"]


class JobStateEnding(TypedDict):
    """Command that is being killed."""

    state: Literal["ending"]


class JobStateEnded(TypedDict):
    """Command that ended."""

    failed: bool
    how: Text
    state: Literal["ended"]


JobState = Union[JobStateRunning, JobStateEnding, JobStateEnded]


MessageId = str


Nothing = dict[str, Any]


PartKind = Union[Literal["command"], Literal["diff"], Literal["model_says"], Literal["fact"], Literal["text"], Literal["json"], Literal["preview"]]


QuestionId = int


class PatchReset(TypedDict):
    """Complete view, as the first patch of a reader and after it fell behind. After a session switch it has another [`View::switches`]."""

    patch: Literal["reset"]
    view: View


class PatchOpen(TypedDict):
    """Appends a block, open or closed."""

    block: Block
    patch: Literal["open"]


class PatchGrow(TypedDict):
    """More text of an open block; for a call, more of its output."""

    delta: Text
    id: BlockId
    patch: Literal["grow"]


class PatchChange(TypedDict):
    """Replaces an open block."""

    block: Block
    patch: Literal["change"]


class PatchClose(TypedDict):
    """An open block was closed and does not change any more."""

    block: Block
    patch: Literal["close"]


class PatchRemove(TypedDict):
    """An open block without content was removed."""

    id: BlockId
    patch: Literal["remove"]


class PatchBody(TypedDict):
    """All lines of a body, on request. Not part of the view."""

    id: BlockId
    lines: list[Text]
    patch: Literal["body"]


class PatchAsk(TypedDict):
    """A question is open."""

    card: Card
    patch: Literal["ask"]


class PatchAnswered(TypedDict):
    """A question was answered, withdrawn or dropped."""

    id: QuestionId
    patch: Literal["answered"]


class PatchQueue(TypedDict):
    """The texts that wait for their turn."""

    patch: Literal["queue"]
    queued: list[Queued]


class PatchStatus(TypedDict):
    """New status line."""

    patch: Literal["status"]
    status: Status


class PatchAgents(TypedDict):
    """The sub-agents of the run."""

    agents: list[AgentRow]
    patch: Literal["agents"]


class PatchJobs(TypedDict):
    """Background commands, running and ended."""

    jobs: list[JobRow]
    patch: Literal["jobs"]


class PatchChecklist(TypedDict):
    """New to-do list."""

    items: list[CheckRow]
    patch: Literal["checklist"]


Patch = Union[PatchReset, PatchOpen, PatchGrow, PatchChange, PatchClose, PatchRemove, PatchBody, PatchAsk, PatchAnswered, PatchQueue, PatchStatus, PatchAgents, PatchJobs, PatchChecklist]


class QuestionApprove(Approval):
    """Asks whether a tool call may run."""

    ask: Literal["approve"]


class QuestionConfirm(TypedDict):
    """Asks for yes or no."""

    ask: Literal["confirm"]
    text: str


class QuestionTrust(TrustRequest):
    """Question about trust in exact content of a project."""

    ask: Literal["trust"]


class QuestionSelect(Selection):
    """Asks for one of several options."""

    ask: Literal["select"]


class QuestionInput(TypedDict):
    """Asks for a line of text."""

    ask: Literal["input"]
    text: str


Question = Union[QuestionApprove, QuestionConfirm, QuestionTrust, QuestionSelect, QuestionInput]


QuestionDigest = str


Role = Union[Literal["viewer"], Literal["driver"], Literal["approver"]]


RunStatus = Union[Literal["completed"], Literal["aborted"], Literal["error"]]


SessionId = str


SwitchTarget = Union[Literal["new"], dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]


WiderKind = Union[Literal["prefix"], Literal["directory"], Literal["project_code"], Literal["tool"], Literal["server"]]


# Params and result of each method.
METHODS = {
    "answer": ("AnswerParams", "Nothing"),
    "body": ("BodyParams", "BodyResult"),
    "clients": ("Nothing", "Clients"),
    "close": ("ConversationParams", "Nothing"),
    "command": ("CommandParams", "CommandResult"),
    "commands": ("ConversationParams", "Commands"),
    "complete": ("CompleteParams", "Choices"),
    "conversations": ("Nothing", "Conversations"),
    "initialize": ("InitializeParams", "InitializeResult"),
    "models": ("ModelsParams", "Models"),
    "queue": ("ConversationParams", "Queue"),
    "session/delete": ("SessionParams", "Nothing"),
    "session/export": ("ExportParams", "ExportResult"),
    "session/fork": ("ForkParams", "SessionResult"),
    "session/list": ("ListParams", "Sessions"),
    "session/new": ("NewParams", "OpenConversation"),
    "session/open": ("OpenParams", "OpenConversation"),
    "session/rename": ("RenameParams", "Nothing"),
    "session/search": ("ListParams", "Sessions"),
    "session/tree": ("SessionParams", "Tree"),
    "settings/get": ("ConversationParams", "Settings"),
    "settings/set": ("SettingsParams", "Settings"),
    "steer": ("SteerParams", "SubmitResult"),
    "stop": ("ConversationParams", "Nothing"),
    "submit": ("SubmitParams", "SubmitResult"),
    "subscribe": ("SubscribeParams", "SubscribeResult"),
    "switch": ("SwitchParams", "OpenConversation"),
    "unqueue": ("UnqueueParams", "Nothing"),
    "unsubscribe": ("ConversationParams", "Nothing"),
}
