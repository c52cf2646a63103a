"""Types of the messages, made by `cargo xtask docs` from the schema of `zk rpc`."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


class AgentRow(TypedDict):
    """A sub-agent as a list shows it."""

    calls: NotRequired[int]
    context_tokens: NotRequired[int | None]
    cost: NotRequired[float | None]
    depth: int
    elapsed_ms: NotRequired[int]
    gauge: NotRequired[ContextGauge | None]
    name: Text
    state: AgentState
    task: Text
    tokens: NotRequired[int]


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


class Approval(TypedDict):
    """A tool call that needs approval."""

    always: NotRequired[str | None]
    args: Any
    connections: NotRequired[Connections | None]
    contained: NotRequired[Connections | None]
    effects: Effects
    more: NotRequired[list[Wider]]
    preview: NotRequired[Display | None]
    reasons: NotRequired[list[str]]
    session: NotRequired[str | None]
    tool: str
    wider: NotRequired[Wider | None]


class ApprovalCard(TypedDict):
    """A question about a call as a person reads it: the same words on every screen and for every front-end."""

    choices: list[CardChoice]
    kind: AskedKind
    parts: list[CardPart]
    reasons: NotRequired[list[str]]
    remarks: NotRequired[list[str]]
    title: str


class AttachedClient(TypedDict):
    """Client that is attached."""

    client: ClientInfo
    follows: list[str]
    id: str
    role: Role


class Block(TypedDict):
    """One piece of a conversation as it is shown. Once it is closed it never changes."""

    agent: NotRequired[SubAgent | None]
    closed: bool
    content: Content
    id: BlockId
    message: NotRequired[MessageId | None]


class Body(TypedDict):
    """The body of a result. Its block holds a bounded part; all lines come when asked for by [`Intent::Expand`](crate::Intent::Expand)."""

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


class Call(TypedDict):
    """A tool call as it is shown."""

    argument: NotRequired[Text | None]
    body: NotRequired[Body | None]
    call_id: CallId
    elapsed_ms: NotRequired[int | None]
    kind: NotRequired[CallKind]
    line: NotRequired[int | None]
    locations: NotRequired[list[Text]]
    progress: NotRequired[Text]
    reason: NotRequired[Text | None]
    remarks: NotRequired[list[Text]]
    state: CallState
    step: int
    summary: Text
    tool: Text


class Card(TypedDict):
    """A question that waits for the person, as structured data to draw."""

    agent: NotRequired[SubAgent | None]
    approval: NotRequired[ApprovalCard | None]
    digest: QuestionDigest
    id: QuestionId
    question: Question


class CardChoice(TypedDict):
    """An answer that a question offers."""

    allows: NotRequired[str | None]
    answer: Answer
    done: str
    is_row: bool
    key: str
    text: str


class CardPart(TypedDict):
    """A part of what will run."""

    heading: NotRequired[str]
    kind: PartKind
    lines: list[str]


class CheckItem(TypedDict):
    """One item of a [`Display::Checklist`]."""

    state: CheckState
    text: str


class CheckRow(TypedDict):
    """One item of the list of what is to be done."""

    state: CheckState
    text: Text


class Choice(TypedDict):
    """Text that may be chosen."""

    note: NotRequired[str]
    value: str


class Choices(TypedDict):
    """Texts that may be chosen."""

    choices: list[Choice]


class ClientInfo(TypedDict):
    """Program that a client is."""

    name: str
    version: NotRequired[str]


class Clients(TypedDict):
    """Clients that are attached."""

    clients: list[AttachedClient]


class ClosedNote(TypedDict):
    """End of a conversation: the notification `conversation/closed`."""

    conversation: str
    seq: int
    time_ms: int
    unsaved: NotRequired[list[str]]


class CommandParams(TypedDict):
    """Params of a command."""

    conversation: str
    line: str


class CommandResult(TypedDict):
    """Outcome of a command."""

    ended: bool
    prompted: bool
    said: NotRequired[str]


class CommandRow(TypedDict):
    """Command that a conversation has."""

    argument_hint: NotRequired[str | None]
    help: str
    name: str


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


class ContextGauge(TypedDict):
    """Fill level of the context: a gauge, and a badge where it was compacted."""

    colour: GaugeColour
    compactions: int
    percent: int
    tokens: int
    usable: int


class ConversationParams(TypedDict):
    """Conversation that is meant."""

    conversation: str


class Conversations(TypedDict):
    """Conversations that are open."""

    conversations: list[OpenConversation]


class ExportParams(TypedDict):
    """Params of an export."""

    format: NotRequired[ExportFormat]
    session: str


class ExportResult(TypedDict):
    """An exported session."""

    text: str


class ForkParams(TypedDict):
    """Params of a copy of a session."""

    entry: NotRequired[str | None]
    session: str


class GivenBackNote(TypedDict):
    """Text that waited and goes back to whoever types: the notification `conversation/given_back`."""

    conversation: str
    seq: int
    text: str
    time_ms: int


class InitializeParams(TypedDict):
    """First request of a client."""

    client: NotRequired[ClientInfo]
    protocol_version: str
    role: Role
    stop_on_disconnect: NotRequired[bool]
    token: NotRequired[str | None]


class InitializeResult(TypedDict):
    """Answer to the first request."""

    client: str
    conversations: list[OpenConversation]
    cwd: str
    protocol_version: str
    role: Role
    server: ClientInfo
    view_version: str


class JobRow(TypedDict):
    """A command in the background, as a list shows it."""

    command: Text
    detached: NotRequired[bool]
    id: Text
    state: JobState


class ListParams(TypedDict):
    """Params of a list of stored sessions."""

    cwd: NotRequired[str | None]
    limit: NotRequired[int | None]
    text: NotRequired[str]


class ModelRow(TypedDict):
    """Model that a conversation may use."""

    input_price: NotRequired[float | None]
    is_current: bool
    name: str
    output_price: NotRequired[float | None]
    thinking: list[str]
    window: NotRequired[int | None]


class Models(TypedDict):
    """Models that a conversation may use."""

    failed: NotRequired[list[str]]
    models: list[ModelRow]


class ModelsParams(TypedDict):
    """Params of a list of models."""

    conversation: str
    refresh: NotRequired[bool]


class NewParams(TypedDict):
    """Params of a conversation that is opened."""

    add_directories: NotRequired[list[str]]
    ask_about_project: NotRequired[bool]
    cwd: NotRequired[str | None]
    settings: NotRequired[dict[str, Any]]
    unattended: NotRequired[bool]


class OpenConversation(TypedDict):
    """Conversation that is open."""

    conversation: str
    cwd: str
    is_running: bool
    seq: int
    session: NotRequired[str | None]


class OpenParams(TypedDict):
    """Params of a stored session that is opened."""

    session: str
    unattended: NotRequired[bool]


class OpeningNote(TypedDict):
    """Conversation that is being opened, and asks questions before that: the notification `conversation/opening`."""

    conversation: str


class PatchNote(TypedDict):
    """Change of the view of a conversation: the notification `conversation/patch`."""

    conversation: str
    patch: Patch
    seq: int
    time_ms: int


class PromptRow(TypedDict):
    """Prompt of a stored session."""

    before: NotRequired[str | None]
    entry: str
    text: str
    time_ms: int


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


class RunEnd(TypedDict):
    """End of a run, and what the run took."""

    cost: NotRequired[float | None]
    cost_is_partial: bool
    duration_ms: int
    error: NotRequired[Text | None]
    status: RunStatus
    tokens_read: int
    tokens_written: int
    turns: int


class Selection(TypedDict):
    """A choice of one among several."""

    accepts_words: NotRequired[bool]
    descriptions: NotRequired[list[str]]
    options: list[str]
    preview: NotRequired[Display | None]
    text: str


class SessionParams(TypedDict):
    """Stored session that is meant."""

    session: str


class SessionResult(TypedDict):
    """A stored session, as a result."""

    session: str


class SessionRow(TypedDict):
    """A stored session."""

    conversation: NotRequired[str | None]
    cwd: str
    found: NotRequired[str | None]
    messages: int
    parent: NotRequired[str | None]
    session: str
    title: str
    unreadable: NotRequired[str | None]
    updated_ms: int


class Sessions(TypedDict):
    """Stored sessions."""

    sessions: list[SessionRow]


class Settings(TypedDict):
    """Settings of a conversation."""

    cwd: str
    directories: list[str]
    mode: NotRequired[str | None]
    model: str
    session: NotRequired[str | None]
    thinking: str


class SettingsParams(TypedDict):
    """Settings that are changed."""

    add_directory: NotRequired[str | None]
    conversation: str
    cwd: NotRequired[str | None]
    mode: NotRequired[str | None]
    model: NotRequired[str | None]
    thinking: NotRequired[str | None]


class SettledNote(TypedDict):
    """End of all that was asked for: the notification `conversation/settled`. Nothing follows until somebody asks for more."""

    conversation: str
    seq: int
    time_ms: int


class Status(TypedDict):
    """Content of a status line: what is going on now."""

    activity: Activity
    activity_ms: int
    context_tokens: NotRequired[int | None]
    cost: NotRequired[float | None]
    gauge: NotRequired[ContextGauge | None]
    run_ms: NotRequired[int | None]
    tokens_read: int
    tokens_written: int


class SteerParams(TypedDict):
    """Params of a text that interrupts a run."""

    conversation: str
    text: str


class SubAgent(TypedDict):
    """A sub-agent of the conversation's agent."""

    depth: int
    name: Text


class SubmitParams(TypedDict):
    """Params of a prompt."""

    conversation: str
    images: NotRequired[list[str]]
    text: str


class SubscribeParams(TypedDict):
    """Params of whoever follows a conversation."""

    after: NotRequired[int | None]
    conversation: str


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


class TrustRequest(TypedDict):
    """Something of a project that a person can trust, exactly as it is."""

    details: NotRequired[list[str]]
    items: list[str]
    text: str


class UnqueueParams(TypedDict):
    """Params of a text that is taken back from the queue."""

    conversation: str
    id: int


class View(TypedDict):
    """A conversation as it is shown at one moment. Plain data: the same patches make the same view. Blocks are searched for from the end; [`IndexedView`](crate::IndexedView) finds them in constant time."""

    agents: list[AgentRow]
    blocks: list[Block]
    cards: list[Card]
    checklist: NotRequired[list[CheckRow]]
    jobs: NotRequired[list[JobRow]]
    queue: list[Queued]
    status: Status
    switches: NotRequired[int]


class Wider(TypedDict):
    """Similar calls that a person can allow together with a call."""

    allows: str
    kind: WiderKind
    label: NotRequired[str]
    warning: NotRequired[str | None]


class ActivityIdle(TypedDict):
    """Nothing."""

    doing: Literal["idle"]


class ActivityStarting(TypedDict):
    """A run is being prepared."""

    doing: Literal["starting"]


class ActivityCompacting(TypedDict):
    """The conversation is being made smaller."""

    before: int
    doing: Literal["compacting"]


class ActivityWaiting(TypedDict):
    """The model was asked and says nothing yet."""

    doing: Literal["waiting"]
    model: Text


class ActivitySilent(TypedDict):
    """Nothing has been heard of a response for some seconds."""

    doing: Literal["silent"]
    idle_ms: int
    keep_alives: bool
    limit_ms: int
    model: Text


class ActivityRetrying(TypedDict):
    """A request waits to be sent again."""

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


class ActivityRunning(TypedDict):
    """Tools run."""

    calls: list[Text]
    doing: Literal["running"]
    failed: NotRequired[int]
    of: NotRequired[int]
    over: NotRequired[int]
    refused: NotRequired[int]
    skipped: NotRequired[int]


class ActivityAsking(TypedDict):
    """The person is asked something."""

    doing: Literal["asking"]


class ActivityStopping(TypedDict):
    """The run is being stopped."""

    doing: Literal["stopping"]


Activity: TypeAlias = "ActivityIdle | ActivityStarting | ActivityCompacting | ActivityWaiting | ActivitySilent | ActivityRetrying | ActivityThinking | ActivityAnswering | ActivityWriting | ActivityRunning | ActivityAsking | ActivityStopping"


AgentState: TypeAlias = "Literal['running'] | Literal['done'] | Literal['failed']"


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
    """Yes, and what one of [`Approval::more`] says for the rest of the session."""

    answer: Literal["more_session"]
    index: int


class AnswerMoreAlways(TypedDict):
    """Yes, and what one of [`Approval::more`] says from now on, in this project."""

    answer: Literal["more_always"]
    index: int


class AnswerContained(TypedDict):
    """Yes, this once, in the sandbox that the call wants to leave, with the connections of [`Approval::contained`]."""

    answer: Literal["contained"]


class AnswerNo(TypedDict):
    """No, optionally with a message to the model."""

    answer: Literal["no"]
    message: NotRequired[str | None]


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


Answer: TypeAlias = "AnswerOnce | AnswerSession | AnswerAlways | AnswerWiderSession | AnswerWiderAlways | AnswerMoreSession | AnswerMoreAlways | AnswerContained | AnswerNo | AnswerChoice | AnswerText | AnswerAbsent"


class AnswerEndWhole(TypedDict):
    """Answer that is whole, or still growing."""

    end: Literal["whole"]


class AnswerEndMaxTokens(TypedDict):
    """The output limit cut it."""

    end: Literal["max_tokens"]


class AnswerEndWindowFull(TypedDict):
    """The context window was full."""

    end: Literal["window_full"]


class AnswerEndEmpty(TypedDict):
    """The model said nothing at all."""

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
    """Broken off, and the request was sent again: it is no part of the conversation."""

    end: Literal["sent_again"]


class AnswerEndOther(TypedDict):
    """The provider gave a reason that zk does not know."""

    end: Literal["other"]
    reason: Text


AnswerEnd: TypeAlias = "AnswerEndWhole | AnswerEndMaxTokens | AnswerEndWindowFull | AnswerEndEmpty | AnswerEndRefused | AnswerEndStopped | AnswerEndBroken | AnswerEndSentAgain | AnswerEndOther"


AskedKind: TypeAlias = "Literal['outside'] | Literal['network'] | Literal['command'] | Literal['edit'] | Literal['create'] | Literal['read'] | Literal['fetch'] | Literal['tool']"


BlockId: TypeAlias = "str"


CallId: TypeAlias = "str"


CallKind: TypeAlias = "Literal['read'] | Literal['search'] | Literal['edit'] | Literal['execute'] | Literal['fetch'] | Literal['ask'] | Literal['plan'] | Literal['delegate'] | Literal['other']"


CallState: TypeAlias = "Literal['writing'] | Literal['waiting'] | Literal['running'] | Literal['done'] | Literal['failed'] | Literal['refused'] | Literal['skipped'] | Literal['parked'] | Literal['invalid'] | Literal['unknown'] | Literal['outcome_unknown'] | Literal['not_run']"


CheckState: TypeAlias = "Literal['open'] | Literal['current'] | Literal['done']"


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


CommandExit: TypeAlias = "CommandExitCode | CommandExitSignal | CommandExitTimedOut | CommandExitStopped"


CompleteKind: TypeAlias = "Literal['command'] | Literal['argument'] | Literal['file']"


class ContentUser(TypedDict):
    """Message of the person."""

    attachments: int
    text: Text
    type: Literal["user"]


class ContentInjected(TypedDict):
    """Message that somebody else put into the conversation: a budget, a steering message, a plugin."""

    by: Text
    text: Text
    type: Literal["injected"]


class ContentThinking(TypedDict):
    """The model's reasoning; empty where its provider withholds it."""

    text: Text
    type: Literal["thinking"]


class ContentAnswer(TypedDict):
    """The model's answer."""

    end: NotRequired[AnswerEnd]
    text: Text
    type: Literal["answer"]


class ContentCall(Call):
    """A tool call."""

    type: Literal["call"]


class ContentProvider(TypedDict):
    """Acts of the provider beside answering, in a few words."""

    text: Text
    type: Literal["provider"]


class ContentSummary(TypedDict):
    """Stands for messages that a compaction took out of the context."""

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
    """The end of a run."""

    type: Literal["end"]


class ContentNote(TypedDict):
    """A notice about something that passes. Not part of the stored session."""

    level: NoteLevel
    text: Text
    type: Literal["note"]


Content: TypeAlias = "ContentUser | ContentInjected | ContentThinking | ContentAnswer | ContentCall | ContentProvider | ContentSummary | ContentPlugin | ContentEnd | ContentNote"


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


class DisplayMarkdown(TypedDict):
    """Markdown, and what came of it."""

    kind: Literal["markdown"]
    outcome: NotRequired[str]
    text: str


class DisplayChecklist(TypedDict):
    """A list of what is to be done, as it is now."""

    items: list[CheckItem]
    kind: Literal["checklist"]
    reshaped: bool


Display: TypeAlias = "DisplayLine | DisplayDiff | DisplayLines | DisplayTable | DisplayCommand | DisplayMarkdown | DisplayChecklist"


class EffectReads(TypedDict):
    """Reads these paths, as the call names them; empty if the paths are not known in advance."""

    effect: Literal["reads"]
    paths: list[str]


class EffectWrites(TypedDict):
    """Writes, creates or removes these paths; empty if the paths are not known in advance."""

    effect: Literal["writes"]
    paths: list[str]


class EffectExecutes(TypedDict):
    """Runs a program."""

    argv: list[str]
    command: NotRequired[str | None]
    effect: Literal["executes"]


class EffectNetwork(TypedDict):
    """Opens connections to these hosts; empty if the hosts are not known in advance."""

    effect: Literal["network"]
    hosts: list[str]


class EffectLeavesContext(TypedDict):
    """Runs outside of the execution context (sandbox, container) that confines all other commands."""

    effect: Literal["leaves_context"]
    reason: str


Effect: TypeAlias = "EffectReads | EffectWrites | EffectExecutes | EffectNetwork | EffectLeavesContext"


class EffectsUnknown(TypedDict):
    """The tool does not declare its effects. It may do anything, so a permission gate asks a person."""

    effects: Literal["unknown"]


class EffectsKnown(TypedDict):
    """Exactly these effects; none when empty."""

    effects: Literal["known"]
    list: list[Effect]


Effects: TypeAlias = "EffectsUnknown | EffectsKnown"


EntryId: TypeAlias = "str"


ExportFormat: TypeAlias = "Literal['markdown'] | Literal['jsonl']"


class FormLine(TypedDict):
    """One line that says it all."""

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


class FormMarkdown(TypedDict):
    """Lines of Markdown."""

    form: Literal["markdown"]
    outcome: NotRequired[Text]


class FormChecklist(TypedDict):
    """Items of a list of what is to be done, each behind the sign of its state."""

    form: Literal["checklist"]
    reshaped: bool


Form: TypeAlias = "FormLine | FormLines | FormCommand | FormDiff | FormTable | FormMarkdown | FormChecklist"


GaugeColour: TypeAlias = "Literal['green'] | Literal['yellow'] | Literal['red']"


class JobStateRunning(TypedDict):
    """Command that runs."""

    state: Literal["running"]


class JobStateEnding(TypedDict):
    """Command that was asked to end."""

    state: Literal["ending"]


class JobStateEnded(TypedDict):
    """Command that ended."""

    failed: bool
    how: Text
    state: Literal["ended"]


JobState: TypeAlias = "JobStateRunning | JobStateEnding | JobStateEnded"


MessageId: TypeAlias = "str"


NoteLevel: TypeAlias = "Literal['info'] | Literal['warning']"


Nothing: TypeAlias = "dict[str, Any]"


PartKind: TypeAlias = "Literal['command'] | Literal['diff'] | Literal['model_says'] | Literal['fact'] | Literal['text'] | Literal['json'] | Literal['preview']"


class PatchReset(TypedDict):
    """The whole view: what every reader gets first, and again after it fell behind. When another session takes the place of the one shown, it is the new session's, with another [`View::switches`]."""

    patch: Literal["reset"]
    view: View


class PatchOpen(TypedDict):
    """A new block at the end; it may be closed already."""

    block: Block
    patch: Literal["open"]


class PatchGrow(TypedDict):
    """More text of an open block; for a call, more of its output."""

    delta: Text
    id: BlockId
    patch: Literal["grow"]


class PatchChange(TypedDict):
    """An open block in another state."""

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
    """All lines of a body, as they were asked for. Not part of the view."""

    id: BlockId
    lines: list[Text]
    patch: Literal["body"]


class PatchAsk(TypedDict):
    """A question waits for the person."""

    card: Card
    patch: Literal["ask"]


class PatchAnswered(TypedDict):
    """A question was answered, withdrawn or given up."""

    id: QuestionId
    patch: Literal["answered"]


class PatchQueue(TypedDict):
    """The texts that wait for their turn."""

    patch: Literal["queue"]
    queued: list[Queued]


class PatchStatus(TypedDict):
    """Status of what is going on now."""

    patch: Literal["status"]
    status: Status


class PatchAgents(TypedDict):
    """The sub-agents of the run."""

    agents: list[AgentRow]
    patch: Literal["agents"]


class PatchJobs(TypedDict):
    """The commands that run in the background, and those that ended."""

    jobs: list[JobRow]
    patch: Literal["jobs"]


class PatchChecklist(TypedDict):
    """The list of what is to be done."""

    items: list[CheckRow]
    patch: Literal["checklist"]


Patch: TypeAlias = "PatchReset | PatchOpen | PatchGrow | PatchChange | PatchClose | PatchRemove | PatchBody | PatchAsk | PatchAnswered | PatchQueue | PatchStatus | PatchAgents | PatchJobs | PatchChecklist"


class QuestionApprove(Approval):
    """Asks whether a tool call may run."""

    ask: Literal["approve"]


class QuestionConfirm(TypedDict):
    """Asks for yes or no."""

    ask: Literal["confirm"]
    text: str


class QuestionTrust(TrustRequest):
    """Asks whether something of a project is trusted as it is."""

    ask: Literal["trust"]


class QuestionSelect(Selection):
    """Asks for one of several options."""

    ask: Literal["select"]


class QuestionInput(TypedDict):
    """Asks for a line of text."""

    ask: Literal["input"]
    text: str


Question: TypeAlias = "QuestionApprove | QuestionConfirm | QuestionTrust | QuestionSelect | QuestionInput"


QuestionDigest: TypeAlias = "str"


QuestionId: TypeAlias = "int"


Role: TypeAlias = "Literal['viewer'] | Literal['driver'] | Literal['approver']"


RunStatus: TypeAlias = "Literal['completed'] | Literal['aborted'] | Literal['error']"


SessionId: TypeAlias = "str"


SwitchTarget: TypeAlias = "Literal['new'] | dict[str, Any] | dict[str, Any] | dict[str, Any]"


Text: TypeAlias = "str"


WiderKind: TypeAlias = "Literal['prefix'] | Literal['directory'] | Literal['project_code'] | Literal['tool'] | Literal['server']"


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
    "steer": ("SteerParams", "Nothing"),
    "stop": ("ConversationParams", "Nothing"),
    "submit": ("SubmitParams", "Nothing"),
    "subscribe": ("SubscribeParams", "SubscribeResult"),
    "switch": ("SwitchParams", "OpenConversation"),
    "unqueue": ("UnqueueParams", "Nothing"),
    "unsubscribe": ("ConversationParams", "Nothing"),
}
