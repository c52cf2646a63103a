use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::notify;
use crate::kernel::{Absorb, Cx, EmitError, Event, Fold, Notify, OnError, Reach, Source};
pub use crate::model::CallRef;
use crate::model::{
    Approved, Display, Effects, Message, RunId, ToolContent, ToolError, ToolOutput, ToolResult, TurnId,
    TurnUsage,
};
use crate::service::{CallPlace, Tool};

/// A valid call about to be judged: handlers may rewrite its arguments here and nowhere later.
///
/// A handler that fails refuses the call, and is named. Arguments that changed are validated again.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolPrepare {
    /// The call.
    pub call: Arc<CallRef>,
    /// Its arguments, valid and coerced, or as an earlier handler rewrote them.
    pub args: Value,
    /// Who rewrote them last.
    #[schemars(with = "Option<String>")]
    pub rewritten_by: Option<Source>,
}

impl Event for ToolPrepare {
    const NAME: &'static str = "tool:prepare";
    /// What a parent rewrites, such as a path prefix, holds for its sub-agents too.
    const REACH: Reach = Reach::Descendants;
    const ON_ERROR: OnError = OnError::Throw;
    const TIME_LIMIT: Option<Duration> = Some(Duration::from_secs(30));
    type Reply = Value;
    type Mode = Fold;
}

impl Absorb for ToolPrepare {
    fn absorb(&mut self, args: Value, from: &Source) -> ControlFlow<()> {
        if self.args != args {
            self.args = args;
            self.rewritten_by = Some(from.clone());
        }
        ControlFlow::Continue(())
    }
}

/// May this call run? Everything that can say no says it here: a handler that fails means *no*.
///
/// The arguments are the ones that will run: no handler can change them any more. A refusal wins over a
/// substitute and ends the matter; so does parking. Handlers that only apply to undecided calls look at
/// [`ToolGate::is_decided`].
#[derive(Clone, Serialize, JsonSchema)]
pub struct ToolGate {
    /// The call.
    pub call: Arc<CallRef>,
    /// Its arguments, prepared, validated and coerced.
    pub args: Value,
    /// What it does, as its tool says.
    pub effects: Effects,
    /// Calls of this run before this batch, by canonical name.
    pub run_tool_counts: Arc<BTreeMap<String, u32>>,
    /// The decision so far.
    pub decision: Option<Decision>,
    /// Who made it.
    #[schemars(with = "Option<String>")]
    pub decided_by: Option<Source>,
    /// The tool that will run; nothing for a name nobody has.
    #[serde(skip)]
    #[schemars(skip)]
    pub tool: Option<Arc<dyn Tool>>,
    /// Where it will run.
    #[serde(skip)]
    #[schemars(skip)]
    pub place: CallPlace,
}

impl fmt::Debug for ToolGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolGate")
            .field("call", &self.call)
            .field("args", &self.args)
            .field("effects", &self.effects)
            .field("decision", &self.decision)
            .field("decided_by", &self.decided_by)
            .finish_non_exhaustive()
    }
}

/// What a gate decided.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// The call does not run; the model is told why.
    Refuse {
        /// Why.
        reason: String,
    },
    /// The call does not run now: it waits for somebody who is not here. The run ends after this batch.
    Park {
        /// What it waits for.
        reason: String,
    },
    /// The call does not run; this is its result.
    Substitute {
        /// The result.
        output: ToolOutput,
    },
}

/// An answer to [`ToolGate`]. No answer lets the call through.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// The call does not run; later handlers are not asked.
    Refuse(String),
    /// The call does not run now, for this reason; later handlers are not asked.
    Park(String),
    /// The call does not run and this is its result, unless a later handler refuses.
    Substitute(ToolOutput),
}

impl Ruling {
    /// A refusal.
    pub fn refuse(reason: impl Into<String>) -> Self {
        Self::Refuse(reason.into())
    }
}

/// What the gates made of a call.
#[derive(Clone, Debug)]
pub enum Passed {
    /// It may run, exactly so.
    Approved(Approved),
    /// It does not run.
    Refused {
        /// Why.
        reason: String,
        /// Who refused.
        by: Option<Source>,
    },
    /// It does not run now.
    Parked {
        /// What it waits for.
        reason: String,
        /// Who parked it.
        by: Option<Source>,
    },
    /// It does not run; this is its result.
    Substituted {
        /// The result.
        output: ToolOutput,
    },
}

impl ToolGate {
    /// A call to be judged. Its effects are those `tool` tells; a tool that panics over them tells nothing.
    #[must_use]
    pub fn new(call: Arc<CallRef>, args: Value, tool: Option<Arc<dyn Tool>>, place: CallPlace) -> Self {
        let effects = match &tool {
            Some(tool) => catch_unwind(AssertUnwindSafe(|| tool.effects(&args, &place))).unwrap_or_default(),
            // Nothing runs for a name nobody has.
            None => Effects::none(),
        };
        Self {
            call,
            args,
            effects,
            run_tool_counts: Arc::default(),
            decision: None,
            decided_by: None,
            tool,
            place,
        }
    }

    /// Whether an earlier handler settled the call.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.decision.is_some()
    }

    /// The string argument `key`.
    #[must_use]
    pub fn input_str(&self, key: &str) -> Option<&str> {
        self.args.get(key)?.as_str()
    }

    /// Asks the gates of the context's bus. This is the only way to an [`Approved`] call.
    ///
    /// # Errors
    /// [`EmitError`] when a gate failed or the run was stopped: the call must not run.
    pub async fn pass(self, cx: &Cx) -> Result<Passed, EmitError> {
        let gate = cx.emit(self).await?;
        let by = gate.decided_by;
        Ok(match gate.decision {
            None => Passed::Approved(Approved::new(gate.call, gate.args, gate.effects)),
            Some(Decision::Refuse { reason }) => Passed::Refused { reason, by },
            Some(Decision::Park { reason }) => Passed::Parked { reason, by },
            Some(Decision::Substitute { output }) => Passed::Substituted { output },
        })
    }
}

impl Event for ToolGate {
    const NAME: &'static str = "tool:gate";
    const ON_ERROR: OnError = OnError::Throw;
    const TIME_LIMIT: Option<Duration> = Some(Duration::from_secs(30));
    /// A call that is refused to an agent is not allowed to its sub-agents.
    const REACH: Reach = Reach::Descendants;
    type Reply = Ruling;
    type Mode = Fold;
}

impl Absorb for ToolGate {
    fn absorb(&mut self, reply: Ruling, from: &Source) -> ControlFlow<()> {
        let (decision, flow) = match reply {
            Ruling::Substitute(output) => (Decision::Substitute { output }, ControlFlow::Continue(())),
            Ruling::Refuse(reason) => (Decision::Refuse { reason }, ControlFlow::Break(())),
            Ruling::Park(reason) => (Decision::Park { reason }, ControlFlow::Break(())),
        };
        self.decision = Some(decision);
        self.decided_by = Some(from.clone());
        flow
    }
}

/// A call was let through and is about to run. Whoever stores sessions makes that durable here, before the
/// call has any effect: a handler that fails refuses the call.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolBegin {
    /// The run.
    pub run_id: RunId,
    /// The call.
    pub call: Arc<CallRef>,
    /// The arguments that run.
    pub args: Value,
    /// What it does, as its tool says.
    pub effects: Effects,
    /// Whether it only reads: nothing needs to be remembered of a call that has no effect.
    pub read_only: bool,
}

impl Event for ToolBegin {
    const NAME: &'static str = "tool:begin";
    const ON_ERROR: OnError = OnError::Throw;
    const TIME_LIMIT: Option<Duration> = Some(Duration::from_secs(30));
    type Reply = ();
    type Mode = Notify;
}

/// A call that had begun is over. Whoever stores sessions makes its result durable here, before anybody acts
/// on it: a handler that fails stops the run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolEnd {
    /// The run.
    pub run_id: RunId,
    /// The call.
    pub call: Arc<CallRef>,
    /// Whether it only read, as its `tool:begin` said.
    pub read_only: bool,
    /// The result as the model gets it.
    pub result: ToolResult,
    /// How to show it to a person.
    pub display: Option<Display>,
    /// The tool's own data.
    pub details: Option<Value>,
    /// Milliseconds the tool ran.
    pub elapsed_ms: u64,
}
notify!(ToolEnd, "tool:end", ON_ERROR = OnError::Throw, CANCELLABLE = false);

/// A call waits for somebody who is not here. It is not counted, and the run ends after its batch.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolParked {
    /// The call.
    pub call: Arc<CallRef>,
    /// Its arguments.
    pub args: Value,
    /// What it waits for.
    pub reason: String,
    /// Who parked it.
    pub by: Option<String>,
}
notify!(ToolParked, "tool:parked");

/// A call was refused. It is not counted, and no other tool event follows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolBlocked {
    /// The call.
    pub call: Arc<CallRef>,
    /// Its arguments.
    pub args: Value,
    /// Why.
    pub reason: String,
    /// Who refused; nobody in particular when a guard failed.
    pub by: Option<String>,
}
notify!(ToolBlocked, "tool:blocked");

/// A call was not run because the batch ended early; it got a result that says so.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolSkipped {
    /// The call.
    pub call: Arc<CallRef>,
    /// Why.
    pub reason: String,
}
notify!(ToolSkipped, "tool:skipped", CANCELLABLE = false);

/// The model called a tool that does not exist.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolUnknown {
    /// The call.
    pub call: Arc<CallRef>,
    /// Its arguments.
    pub args: Value,
    /// The result so far, instead of the error text.
    pub result: Option<ToolContent>,
    /// Whether this is no error: `tool:error` is not announced.
    pub suppress_error: bool,
}

/// An answer to [`ToolUnknown`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnknownReply {
    /// The result to give.
    pub result: Option<ToolContent>,
    /// Whether this is no error.
    pub suppress_error: bool,
}

impl Event for ToolUnknown {
    const NAME: &'static str = "tool:unknown";
    type Reply = UnknownReply;
    type Mode = Fold;
}

impl Absorb for ToolUnknown {
    fn absorb(&mut self, reply: UnknownReply, _: &Source) -> ControlFlow<()> {
        if reply.result.is_some() {
            self.result = reply.result;
        }
        self.suppress_error |= reply.suppress_error;
        ControlFlow::Continue(())
    }
}

/// A call's arguments do not fit the tool's schema, and no coercion helped.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ValidationReject {
    /// The call.
    pub call: Arc<CallRef>,
    /// The arguments.
    pub args: Value,
    /// What is wrong with them.
    pub issues: Vec<String>,
}
notify!(ValidationReject, "validation:reject");

/// One argument that was converted to the type the schema asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coercion {
    /// The argument.
    pub key: String,
    /// As given.
    pub from: Value,
    /// As the tool gets it.
    pub to: Value,
}

/// A call's arguments fit after at least one coercion.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ValidationCoerce {
    /// The call.
    pub call: Arc<CallRef>,
    /// What was converted.
    pub coercions: Vec<Coercion>,
}
notify!(ValidationCoerce, "validation:coerce");

/// A tool is about to run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolBefore {
    /// The call.
    pub call: Arc<CallRef>,
    /// The arguments the tool gets.
    pub args: Value,
    /// What it will do, in one line.
    pub summary: String,
    /// What was converted; absent when nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coercions: Option<Vec<Coercion>>,
    /// Calls of this run before this batch, by canonical name.
    pub run_tool_counts: Arc<BTreeMap<String, u32>>,
}
notify!(ToolBefore, "tool:before");

/// A running tool printed something.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolProgress {
    /// The call.
    pub call: Arc<CallRef>,
    /// What it printed.
    pub text: String,
}
notify!(ToolProgress, "tool:progress");

/// A tool failed. A handler may answer with the result to give instead; the call then counts as done.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolErrored {
    /// The call.
    pub call: Arc<CallRef>,
    /// Why.
    pub error: ToolError,
    /// The result so far, instead of the error.
    pub result: Option<ToolContent>,
}

impl Event for ToolErrored {
    const NAME: &'static str = "tool:error";
    type Reply = ToolContent;
    type Mode = Fold;
}

impl Absorb for ToolErrored {
    fn absorb(&mut self, reply: ToolContent, _: &Source) -> ControlFlow<()> {
        self.result = Some(reply);
        ControlFlow::Continue(())
    }
}

/// A result about to be given to the model. Handlers patch it; each sees the patches before it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolTransform {
    /// The call.
    pub call: Arc<CallRef>,
    /// The content so far.
    pub content: ToolContent,
    /// Whether it is an error.
    pub is_error: bool,
    /// The tool's own data.
    pub details: Option<Value>,
    /// The size before any patch, as it weighs on the wire.
    pub output_bytes: usize,
}

/// An answer to [`ToolTransform`]: what is set is changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultPatch {
    /// The content.
    pub content: Option<ToolContent>,
    /// Whether it is an error.
    pub is_error: Option<bool>,
    /// The tool's own data.
    pub details: Option<Value>,
}

impl Event for ToolTransform {
    const NAME: &'static str = "tool:transform";
    /// What has to be cut or masked has to be also when the run is stopped.
    const CANCELLABLE: bool = false;
    /// What is masked for an agent is masked for its sub-agents.
    const REACH: Reach = Reach::Descendants;
    type Reply = ResultPatch;
    type Mode = Fold;
}

impl Absorb for ToolTransform {
    fn absorb(&mut self, reply: ResultPatch, _: &Source) -> ControlFlow<()> {
        if let Some(content) = reply.content {
            self.content = content;
        }
        if let Some(is_error) = reply.is_error {
            self.is_error = is_error;
        }
        if reply.details.is_some() {
            self.details = reply.details;
        }
        ControlFlow::Continue(())
    }
}

/// A call has its final result.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolAfter {
    /// The call.
    pub call: Arc<CallRef>,
    /// The content the model gets.
    pub content: ToolContent,
    /// Whether it is an error.
    pub is_error: bool,
    /// How to show it to a person.
    pub display: Option<Display>,
    /// The tool's own data.
    pub details: Option<Value>,
    /// The size after all patches, as it weighs on the wire.
    pub output_bytes: usize,
    /// Milliseconds the tool ran.
    pub elapsed_ms: u64,
    /// Calls of this run before this batch, by canonical name.
    pub run_tool_counts: Arc<BTreeMap<String, u32>>,
}
notify!(ToolAfter, "tool:after");

/// Every call of a turn has its result. The assistant message and its results are stored here, as one unit,
/// before the next request is sent. A handler that fails stops the run: nothing goes on unstored.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolResultsAfter {
    /// The run.
    pub run_id: RunId,
    /// The turn.
    pub turn_id: TurnId,
    /// The assistant message with the calls.
    pub assistant: Arc<Message>,
    /// The user message with the results.
    pub results: Arc<Message>,
    /// The usage of the turn.
    pub usage: TurnUsage,
}
notify!(ToolResultsAfter, "tool-results:after", ON_ERROR = OnError::Throw, CANCELLABLE = false);
