use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::{Absorb, BoxError, Cx, EmitError, Event, Fold, OnError, Reach, Source, WireReply};
use crate::model::{Approved, CallRef, Effects, ToolOutput};
use crate::service::{CallPlace, ParkedCall, ParkedWait, Tool};

/// Request to approve a call. All checks that can refuse a call handle this event: a failing handler refuses
/// the call.
///
/// The arguments are final: no handler can change them any more. A refusal wins over a substitute and ends
/// the emission; so does parking. Handlers that only apply to undecided calls check [`ToolGate::is_decided`].
#[derive(Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolGate {
    /// Call to decide about.
    pub call: Arc<CallRef>,
    /// Arguments of the call, prepared, validated and coerced.
    pub args: Value,
    /// Effects of the call, as declared by its tool.
    pub effects: Effects,
    /// Calls of this run before this batch, counted by the tools' canonical names.
    pub run_tool_counts: Arc<BTreeMap<String, u32>>,
    /// The decision so far.
    pub decision: Option<Decision>,
    /// Source of the current decision.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub decided_by: Option<Source>,
    /// Parts of the call that a person consented to before the decision, for the audit record.
    pub consents: Vec<String>,
    /// The tool that will run; `None` for an unknown name.
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub tool: Option<Arc<dyn Tool>>,
    /// Place where the call will run.
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
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

impl ToolGate {
    /// Creates the request to judge a call, with the effects that `tool` declares. If the tool panics, the
    /// effects count as undeclared.
    #[must_use]
    pub fn new(call: Arc<CallRef>, args: Value, tool: Option<Arc<dyn Tool>>, place: CallPlace) -> Self {
        let effects = match &tool {
            Some(tool) => catch_unwind(AssertUnwindSafe(|| tool.effects(&args, &place))).unwrap_or_default(),
            // A call of an unknown tool runs nothing.
            None => Effects::none(),
        };
        Self {
            call,
            args,
            effects,
            run_tool_counts: Arc::default(),
            decision: None,
            decided_by: None,
            consents: Vec::new(),
            tool,
            place,
        }
    }

    /// Whether an earlier handler decided about the call.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.decision.is_some()
    }

    /// Returns the string argument `key`.
    #[must_use]
    pub fn input_str(&self, key: &str) -> Option<&str> {
        self.args.get(key)?.as_str()
    }

    /// Asks all gates on the bus of `cx`. Only this function creates an [`Approved`] call.
    ///
    /// # Errors
    /// [`EmitError`] when a gate failed or the run was stopped: the call must not run.
    pub async fn pass(self, cx: &Cx) -> Result<GateDecision, EmitError> {
        let gate = cx.emit(self).await?;
        let by = gate.decided_by;
        Ok(match gate.decision {
            None => GateDecision::Approved(Approved::new(gate.call, gate.args, gate.effects)),
            Some(Decision::Refuse { reason }) => GateDecision::Refused { reason, by },
            Some(Decision::Park { reason, wait }) => GateDecision::Parked { reason, wait, by },
            Some(Decision::Substitute { output }) => GateDecision::Substituted { output },
        })
    }
}

impl Event for ToolGate {
    const NAME: &'static str = "tool:gate";
    const ON_ERROR: OnError = OnError::Throw;
    const TIME_LIMIT: Option<Duration> = Some(Duration::from_secs(30));
    /// A call that is refused to an agent is refused to its sub-agents too.
    const REACH: Reach = Reach::Descendants;
    type Reply = Ruling;
    type Mode = Fold;
}

impl Absorb for ToolGate {
    fn absorb(&mut self, reply: Ruling, from: &Source) -> ControlFlow<()> {
        let (decision, flow) = match reply {
            Ruling::Substitute(output) => (Decision::Substitute { output }, ControlFlow::Continue(())),
            Ruling::Refuse(reason) => (Decision::Refuse { reason }, ControlFlow::Break(())),
            Ruling::Park(ParkedCall { reason, wait }) => {
                (Decision::Park { reason, wait }, ControlFlow::Break(()))
            }
            Ruling::Consent(said) => {
                self.consents.push(said);
                return ControlFlow::Continue(());
            }
        };
        self.decision = Some(decision);
        self.decided_by = Some(from.clone());
        flow
    }
}

/// Decision of a gate about a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
pub enum Decision {
    /// The call does not run; the model gets the reason.
    Refuse {
        /// Reason for the refusal.
        reason: String,
    },
    /// The call is parked: it waits for a person who is not present. The run ends after this batch.
    Park {
        /// Reason for the wait.
        reason: String,
        /// Event with which a later leg of the run asks the gates again.
        #[serde(skip)]
        #[cfg_attr(feature = "schema", schemars(skip))]
        wait: Option<ParkedWait>,
    },
    /// The call does not run and gets this result.
    Substitute {
        /// Result to give instead.
        output: ToolOutput,
    },
}

/// Answer to [`ToolGate`]; no answer lets the call through.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// Refuses the call for this reason; later handlers are not asked.
    Refuse(String),
    /// Parks the call; later handlers are not asked.
    Park(ParkedCall),
    /// Gives the call this result without running it, unless a later handler refuses.
    Substitute(ToolOutput),
    /// Records that a person consented to this part. It decides nothing: later handlers are still asked.
    Consent(String),
}

/// JSON has the form of a [`Decision`]: `{"decision": "refuse", "reason": "…"}`.
impl WireReply for Ruling {
    fn from_json(value: Value) -> Result<Self, BoxError> {
        Ok(match serde_json::from_value::<Decision>(value)? {
            Decision::Refuse { reason } => Self::Refuse(reason),
            Decision::Park { reason, .. } => Self::Park(reason.into()),
            Decision::Substitute { output } => Self::Substitute(output),
        })
    }
}

impl Ruling {
    /// Refuses the call for `reason`.
    pub fn refuse(reason: impl Into<String>) -> Self {
        Self::Refuse(reason.into())
    }
}

/// Outcome of the gates for a call.
#[derive(Clone, Debug)]
pub enum GateDecision {
    /// The call may run with exactly these arguments.
    Approved(Approved),
    /// The call is refused.
    Refused {
        /// Reason for the refusal.
        reason: String,
        /// Source that refused the call.
        by: Option<Source>,
    },
    /// The call is parked.
    Parked {
        /// Reason for the wait.
        reason: String,
        /// Event with which a later leg of the run asks the gates again.
        wait: Option<ParkedWait>,
        /// Source that parked the call.
        by: Option<Source>,
    },
    /// The call gets this result without running.
    Substituted {
        /// Result to give instead.
        output: ToolOutput,
    },
}
