use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use zk_core::events::*;
use zk_core::kernel::AnyEvent;
use zk_core::model::wire::Repair;
use zk_core::model::{
    Block, Budget, Display, Effects, ErrorKind, Message, Model, ModelRef, Spent, Stats, ThinkingLevel,
    ThinkingRequest, ToolContent, ToolError, TurnId, TurnUsage, Usage,
};
use zk_core::service::{CallPlace, Compacted, RetryNotice, RunStatus, ToolChoice, WindowLevel};

fn model() -> ModelRef {
    ModelRef::new("anthropic", "claude")
}

fn turn() -> TurnId {
    TurnId::from("t_1")
}

fn call() -> Arc<CallRef> {
    Arc::new(CallRef {
        turn_id: turn(),
        call_id: "call_1".into(),
        name: "shell".into(),
        display_name: "Bash".into(),
    })
}

fn usage() -> TurnUsage {
    TurnUsage {
        turn_id: turn(),
        model: model(),
        usage: Usage { input: 3, ..Usage::default() },
        cost: Some(0.5),
    }
}

fn message() -> Arc<Message> {
    Message::assistant(vec![Block::text("hello")]).shared()
}

fn place() -> CallPlace {
    CallPlace { cx: zk_core::kernel::Bus::new().cx(), cwd: ".".into() }
}

fn counts() -> Arc<BTreeMap<String, u32>> {
    Arc::new(BTreeMap::from([("shell".into(), 2)]))
}

/// Returns one sample of each event of the catalogue.
pub(crate) fn samples() -> Vec<Box<dyn AnyEvent>> {
    let mut all: Vec<Box<dyn AnyEvent>> = Vec::new();
    add_agent_events(&mut all);
    add_session_events(&mut all);
    add_turn_events(&mut all);
    add_provider_events(&mut all);
    add_tool_call_events(&mut all);
    add_tool_result_events(&mut all);
    all
}

macro_rules! add {
    ($all:ident: $($event:expr),+ $(,)?) => { $($all.push(Box::new($event));)+ };
}

fn add_agent_events(all: &mut Vec<Box<dyn AnyEvent>>) {
    add!(all:
        AgentBeforeStart { prompt: Some(message()), system: "be brief".into(), messages: vec![message()] },
        SystemBefore { system: "be brief".into() },
        AgentStart {
            missing_tools: Vec::new(),
            run_id: "r_1".into(),
            model: model(),
            thinking: ThinkingLevel::Low,
            tools: vec!["shell".into()],
        },
        AgentAbort { run_id: "r_1".into(), reason: Some("budget".into()) },
        AgentDone {
            run_id: "r_1".into(),
            status: RunStatus::Completed,
            error: None,
            text: "done".into(),
            stats: Stats::default(),
        },
        ModelSelect { from: None, to: model(), window: Some(200_000), cause: Cause::Set },
        ThinkingSelect { from: ThinkingLevel::Off, to: ThinkingLevel::High, cause: Cause::Restore },
        ModelsQuery {
            provider: Some("lab".into()),
            refresh: true,
            models: vec![Model::unknown("lab", "lab-1")],
            failed: vec![ListingFailed { provider: "lab".into(), error: Some(ErrorKind::Transport) }],
        },
        ModelsChanged { provider: "lab".into(), cause: ModelsCause::Registered },
        SystemSections {
            sections: vec![SectionSize { id: "system".into(), source: "zk-agent".into(), bytes: 8 }],
        },
        ViewBlock {
            source: "todo".into(),
            key: "list".into(),
            kind: "todo".into(),
            title: "2 of 3 done".into(),
            body: Display::Line { text: "[x] look".into() },
            last: false,
        },
        AgentWarmUp { model: model() },
        PartLeftOut {
            kind: PartKind::PromptSection,
            name: "skills".into(),
            source: "zk-skills".into(),
            error: "the folder is gone".into(),
        },
        Input { text: "hi".into(), images: Vec::new(), handled: false, added: Vec::new() },
        UserBash { command: "ls".into(), private: true },
        SpawnBefore { child: "helper".into(), call_id: "c_1".into(), depth: 1, prompt: "look".into(), model: model(), background: false },
        SpawnComplete { child: "helper".into(), depth: 1, stats: Stats::default() },
        SpawnError { child: "helper".into(), depth: 1, error: "lost".into(), stats: Stats::default() },
        ResourcesDiscover { cwd: "/home".into() },
        CwdChanged { from: "/home".into(), to: "/home/demo".into() },
        GoalChanged {
            number: 1,
            text: "make the tests pass".into(),
            state: GoalState::Active,
            reason: None,
            autonomous: true,
            turns: 2,
            max_turns: Some(50),
            cost: 0.02,
            budget: Some(1.0),
            waiting: vec!["whether `shell` may run".into()],
        },
        ToolsOffer {
            model: Model::unknown("lab", "lab-1"),
            tools: BTreeMap::from([("shell".to_owned(), Offer::Always)]),
        },
        GoalVerdict { number: 1, turns: 5, achieved: Some(false), reason: "two fail".into() },
        FileChanged { path: "/home/.envrc".into(), change: FileChange::Removed },
    );
}

fn add_session_events(all: &mut Vec<Box<dyn AnyEvent>>) {
    add!(all:
        SessionStart { session_id: Some("s_1".into()), run_id: "r_1".into(), messages: 3 },
        SessionMessages {
            run_id: "r_1".into(),
            messages: vec![message()],
            usage: Some(usage()),
            cause: MessagesCause::Answer,
        },
        SessionOpenTurn { run_id: "r_1".into(), turn_id: turn(), message: message(), usage: usage() },
        SessionLoaded { session_id: Some("s_1".into()), entries: Arc::from([]) },
        SessionSwitch { from: Some("s_1".into()), to: None, entries: Arc::from([]) },
        SessionEntry {
            entry: zk_core::service::NewEntry::hidden("goal", 1, json!({"done": true})).by(
                &zk_core::kernel::Source::new("goals"),
            ),
        },
        SessionBeforeEnd {
            session_id: None,
            run_id: "r_1".into(),
            status: RunStatus::Completed,
            entries: vec![zk_core::service::NewEntry::hidden("goal", 1, json!({"done": true})).by(
                &zk_core::kernel::Source::new("goals"),
            )],
        },
        SessionEnd {
            session_id: None,
            run_id: "r_1".into(),
            status: RunStatus::Aborted,
            from: 3,
            to: 5,
            entries: Vec::new(),
        },
        SessionBeforeSwitch { from: Some("s_1".into()), to: None },
        SessionBeforeFork { session_id: "s_1".into(), entry: "e_1".into() },
        SessionBeforeTree { session_id: "s_1".into(), from: None, to: Some("e_1".into()) },
        SessionTree { session_id: "s_1".into(), from: None, to: Some("e_1".into()), has_summary: true },
        SessionBeforeCompact {
            session_id: None,
            tokens: 100,
            instructions: Some("keep names".into()),
            trigger: CompactionTrigger::Manual,
        },
    );
}

fn add_turn_events(all: &mut Vec<Box<dyn AnyEvent>>) {
    add!(all:
        ContextTransform::new(turn(), vec![message()], Some(200_000)),
        ContextOverflow {
            turn_id: turn(),
            model: model(),
            window: Some(8192),
            size: 40_000,
            error: "prompt is too long".into(),
        },
        ContextReduced { turn_id: turn(), strategy: "shorten".into(), results: 3, messages: 12, before: 40_000, after: 12_000 },
        ContextCompaction {
            turn_id: turn(),
            trigger: CompactionTrigger::Hard,
            stage: CompactionStage::Done,
            before: 170_000,
            after: 30_000,
            strategies: vec!["summary".into()],
            note: None,
        },
        ContextFill {
            turn_id: turn(),
            tokens: 30_000,
            usable: Some(183_616),
            level: WindowLevel::Low,
            compactions: 1,
            last: Some(Compacted { before: 170_000, after: 30_000, at_ms: 1_700_000_000_000 }),
            age_ms: Some(90_000),
        },
        SystemTransform::new(turn(), 1, "be brief".into()),
        PrefixBreak {
            turn_id: turn(),
            part: PrefixPart::Section { id: "directory".into(), source: "clock".into() },
            cause: PrefixCause::Unexplained,
            lost_tokens: 1200,
            cost: Some(0.01),
        },
        HistoryRepaired {
            turn_id: turn(),
            repairs: vec![Repair::MissingResult { call_id: "call_1".into() }, Repair::Boundary],
        },
        TurnBefore { turn_id: turn(), turn: 1, model: model(), messages: 4, thinking: ThinkingRequest::default() },
        MessageEnd { turn_id: turn(), message: Message::assistant(Vec::new()) },
        TurnAfter {
            turn_id: turn(),
            turn: 1,
            usage: Usage::default(),
            cost: None,
            message: None,
            error: Some("stalled".into()),
            tool_counts: counts(),
        },
        SideCallEnd { source: "titles".into(), purpose: "title".into(), part: None, usage: usage() },
        UsageUpdate { turn: usage(), total: Usage::default(), cost: Some(0.5) },
        SteerInject { kind: SteerKind::FollowUp, messages: vec![message()], sent: vec![message()] },
        OutputReady { output: json!({"answer": 42}), schema: json!({"type": "object"}) },
        BudgetExceeded { turn: 1, turn_id: turn(), bytes: 9, budget: 8 },
        RunBudgetReached {
            turn: 1,
            turn_id: turn(),
            budget: Budget::usd(1.0),
            spent: Spent { usd: 0.95, tokens: 40_000 },
            wanted: Spent { usd: 0.12, tokens: 9_000 },
            outcome: BudgetOutcome::Raised { to: Budget::usd(2.0) },
        },
        ToolBudgetExceeded {
            tool: "shell".into(),
            count: 4,
            max: 3,
            turn_id: turn(),
            mode: BudgetMode::Steer,
        },
    );
}

fn add_provider_events(all: &mut Vec<Box<dyn AnyEvent>>) {
    add!(all:
        ProviderRequest {
            model: model(),
            thinking: ThinkingRequest::default(),
            max_tokens: 4096,
            tool_choice: ToolChoice::Tool("shell".into()),
        },
        ProviderPayload { model: model(), payload: json!({"stream": true}) },
        ProviderResponse {
            model: model(),
            status: 200,
            request_id: Some("req_1".into()),
            limits: vec![("retry-after".into(), "3".into())],
            elapsed_ms: 12,
        },
        ProviderReport { turn_id: turn(), model: model(), report: json!({"server_tool_use": {"web_search_requests": 1}}) },
        StreamIdle {
            model: model(),
            phase: zk_core::model::Phase::Stream,
            idle_ms: 5000,
            idle_limit_ms: 600_000,
            no_data_ms: 400,
            no_data_limit_ms: Some(120_000),
        },
        ProviderRetry {
            model: model(),
            retry: RetryNotice {
                attempt: 1,
                max_attempts: 3,
                delay: Duration::from_millis(1500),
                kind: ErrorKind::Overloaded,
                message: "busy".into(),
                discards: false,
            },
        },
        StreamStart { turn_id: turn(), model: Some("claude".into()), request_id: None },
        StreamTransform { turn_id: turn(), delta: "hel".into(), last: false },
        StreamText { turn_id: turn(), delta: "hel".into() },
        StreamThinking { turn_id: turn(), delta: "hm".into() },
        StreamToolArgs { turn_id: turn(), call_id: "call_1".into(), name: "shell".into(), delta: "{".into() },
        ToolArgsRepaired {
            turn_id: turn(),
            call_id: "call_1".into(),
            name: "shell".into(),
            text: "{\"command\":\"a\tb\"}".into(),
        },
        StreamProvider { turn_id: turn(), text: "web search: rust".into() },
        StreamEnd { turn_id: turn(), text: "hello".into() },
    );
}

fn add_tool_call_events(all: &mut Vec<Box<dyn AnyEvent>>) {
    let coercion = Coercion { key: "limit".into(), from: json!("3"), to: json!(3) };
    add!(all:
        ToolsChanged {
            turn_id: turn(),
            turn: 2,
            changes: vec![ToolChange { name: "search".into(), source: "mcp".into(), kind: ToolChangeKind::Added }],
            breaks_prefix: true,
            tools: vec!["shell".into(), "search".into()],
            left_out: vec![ToolLeftOut {
                name: "a b".into(),
                source: "mcp".into(),
                reason: "no provider takes the name".into(),
            }],
        },
        ToolPrepare {
            call: call(),
            args: json!({"command": "ls"}),
            rewritten_by: Some(zk_core::kernel::Source::new("aliases")),
        },
        ToolGate {
            effects: Effects::executes("ls"),
            run_tool_counts: counts(),
            decision: Some(Decision::Refuse { reason: "no".into() }),
            decided_by: Some(zk_core::kernel::Source::new("guard")),
            consents: vec!["a hook had a person asked: sure?".into()],
            ..ToolGate::new(call(), json!({"command": "ls"}), None, place())
        },
        PermissionRequest {
            call: call(),
            args: json!({"command": "ls"}),
            effects: Effects::executes("ls"),
            by_rule: true,
        },
        PermissionDecided {
            call: call(),
            args: json!({"command": "ls"}),
            effects: Effects::executes("ls"),
            cwd: "/work".into(),
            allowed: false,
            by: DecidedBy::Nobody,
            reasons: vec!["ask: `ls`".into()],
            allowed_by: Some("auto".into()),
        },
        ToolParked { call: call(), args: json!({}), reason: "night".into(), by: Some("hours".into()) },
        ToolBatch {
            turn_id: "t_1".into(),
            groups: vec![CallGroup { kind: zk_core::model::CallKind::Execute, calls: vec![call()] }],
        },
        ToolBatchEnd {
            turn_id: "t_1".into(),
            calls: vec![EndedCall { call: call(), is_error: true, error: Some("no such file".into()) }],
            counts: OutcomeCounts { calls: 3, errors: 2, resolved: 1 },
        },
        ToolBegin {
            run_id: "r_1".into(),
            call: call(),
            args: json!({"command": "ls"}),
            effects: Effects::executes("ls"),
            summary: "$ ls".into(),
            title: None,
            kind: zk_core::model::CallKind::Execute,
            locations: Vec::new(),
            read_only: false,
        },
        ToolEnd {
            run_id: "r_1".into(),
            call: call(),
            summary: "$ ls".into(),
            read_only: false,
            result: zk_core::model::ToolResult {
                call_id: "call_1".into(),
                content: ToolContent::Text("out".into()),
                is_error: false,
            },
            display: None,
            exit_code: Some(0),
            details: Some(json!({"exit": 0})),
            elapsed_ms: 4,
        },
        ToolBlocked { call: call(), args: json!({}), reason: "no".into(), by: None },
        ToolSkipped { call: call(), reason: "stopped".into() },
        ToolUnknown { call: call(), args: json!({}), result: None, suppress_error: false },
        ValidationReject { call: call(), args: json!({}), issues: vec!["command is missing".into()] },
        ValidationCoerce { call: call(), coercions: vec![coercion.clone()] },
        ToolBefore {
            call: call(),
            args: json!({"limit": 3}),
            summary: "ls".into(),
            coercions: Some(vec![coercion]),
            run_tool_counts: counts(),
        },
        ToolProgress { call: call(), text: "…".into() },
        ToolRemark { call: call(), text: "90 of 100 lines left out".into() },
    );
}

fn add_tool_result_events(all: &mut Vec<Box<dyn AnyEvent>>) {
    add!(all:
        ToolErrored { call: call(), error: ToolError::failed("exit 1"), result: None },
        ToolTransform {
            call: call(),
            content: ToolContent::Text("out".into()),
            is_error: false,
            details: None,
            output_bytes: 3,
        },
        ToolAfter {
            call: call(),
            content: ToolContent::Blocks(vec![Block::text("out")]),
            is_error: false,
            display: None,
            exit_code: None,
            details: None,
            output_bytes: 3,
            elapsed_ms: 4,
            run_tool_counts: counts(),
        },
        ToolResultsAfter {
            run_id: "r_1".into(),
            turn_id: turn(),
            assistant: message(),
            results: Message::user(vec![Block::result("call_1", "out", false)]).shared(),
            usage: usage(),
        },
    );
}
