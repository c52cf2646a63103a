use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use zk_core::model::{
    Approved, CallKind, Display, Effects, ToolError, ToolErrorKind, ToolOutput, ToolSpec, utc_time,
};
use zk_core::service::{CallPlace, Clock, Leg, ParkedCall, Tool, ToolCx};

use super::parse;
use crate::args;
use crate::options::WAIT;
use crate::text::one_line;

/// Maximum length of a wait.
const MAX_WAIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Maximum number of bytes of a reason.
const MAX_REASON_BYTES: usize = 200;

/// Tool `wait`: parks a run that outlives its worker for some time. No worker has the run meanwhile; a message of the user
/// ends the wait early.
///
/// ```
/// use zk_core::service::Tool;
/// use zk_tools::Wait;
///
/// let args = serde_json::json!({ "hours": 2, "minutes": 30, "reason": "the build" });
/// assert_eq!(Wait::new().summary(&args), "wait 2 h 30 min for: the build");
/// ```
#[derive(Debug)]
pub struct Wait {
    spec: Arc<ToolSpec>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Added to the hours
    minutes: Option<u32>,
    hours: Option<u32>,
    /// In a few words, for the user
    reason: Option<String>,
}

impl Args {
    fn length(&self) -> Duration {
        let minutes = u64::from(self.minutes.unwrap_or(0)) + 60 * u64::from(self.hours.unwrap_or(0));
        Duration::from_secs(60 * minutes)
    }

    /// Returns the length of the wait.
    ///
    /// # Errors
    /// [`ToolError`] for none, and for one that is too long.
    fn checked_length(&self) -> Result<Duration, ToolError> {
        let length = self.length();
        if length.is_zero() {
            return Err(ToolError::invalid("give `minutes`, `hours` or both, above 0"));
        }
        if length > MAX_WAIT {
            let hours = MAX_WAIT.as_secs() / 3600;
            return Err(ToolError::invalid(format!(
                "a wait has {hours} hours at most; wait that long, then look and wait again"
            )));
        }
        Ok(length)
    }

    fn described_reason(&self) -> Option<String> {
        let reason = self.reason.as_deref().filter(|reason| !reason.trim().is_empty())?;
        Some(one_line(reason, MAX_REASON_BYTES))
    }
}

impl Default for Wait {
    fn default() -> Self {
        Self::new()
    }
}

impl Wait {
    /// Creates the tool.
    #[must_use]
    pub fn new() -> Self {
        let about = "Go on after some time, such as when a build or a review may be done. Nothing runs meanwhile, and a message \
            of the user wakes you early.";
        Self { spec: args::spec::<Args>(WAIT, about) }
    }
}

#[async_trait]
impl Tool for Wait {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    fn kind(&self) -> Option<CallKind> {
        Some(CallKind::Plan)
    }

    fn summary(&self, args: &Value) -> String {
        let Ok(args) = serde_json::from_value::<Args>(args.clone()) else { return WAIT.to_owned() };
        let minutes = args.length().as_secs() / 60;
        let length = match (minutes / 60, minutes % 60) {
            (0, minutes) => format!("{minutes} min"),
            (hours, 0) => format!("{hours} h"),
            (hours, minutes) => format!("{hours} h {minutes} min"),
        };
        let reason = args.described_reason().map(|reason| format!(" for: {reason}")).unwrap_or_default();
        format!("wait {length}{reason}")
    }

    fn wait_before(&self, call: &Approved, place: &CallPlace) -> Option<ParkedCall> {
        let leg = place.cx.service::<Leg>()?;
        // The call itself tells the model of arguments that do not fit.
        let args: Args = parse(WAIT, call.args().clone()).ok()?;
        let length = args.checked_length().ok()?;
        let now = <dyn Clock>::now_in(&place.cx);
        let until = match leg.waits_until(call.call()) {
            Some(until) if until <= now => return None,
            Some(until) => until,
            None => now.checked_add(length)?,
        };
        Some(ParkedCall::until(
            until,
            args.described_reason().unwrap_or_else(|| "the agent waits".to_owned()),
        ))
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args: Args = parse(WAIT, call.args().clone())?;
        args.checked_length()?;
        let until = cx.cx.service::<Leg>().and_then(|leg| leg.waits_until(call.call()));
        let Some(until) = until else {
            return Err(ToolError::new(
                ToolErrorKind::Denied,
                "this run cannot wait without its worker, as a sub-agent inside of a call cannot; go on, and say what there is to \
                 wait for",
            ));
        };
        let text = format!("Waited until {}.", utc_time(until));
        Ok(ToolOutput::text(text.clone()).with_display(Display::Line { text }))
    }
}
