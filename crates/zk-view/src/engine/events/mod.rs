//! Effect of each event on a view.

mod calls;
mod left_out;
mod runs;
mod stream;

use zk_core::events::{
    AgentAbort, AgentDone, AgentStart, ContextCompaction, ContextFill, ContextReduced, PartLeftOut,
    PermissionDecided, ProviderRetry, RunBudgetReached, SessionEnd, SessionEntry, SessionMessages,
    SessionOpenTurn, SessionStart, SessionSwitch, SpawnBefore, SpawnComplete, SpawnError, SteerInject,
    StreamIdle, StreamProvider, StreamStart, StreamText, StreamThinking, StreamToolArgs, ToolAfter,
    ToolArgsRepaired, ToolBatch, ToolBefore, ToolBegin, ToolBlocked, ToolBudgetExceeded, ToolEnd, ToolParked,
    ToolProgress, ToolRemark, ToolResultsAfter, ToolSkipped, ToolUnknown, ToolsChanged, TurnAfter,
    TurnBefore, UsageUpdate, ValidationCoerce, ValidationReject, ViewBlock,
};
use zk_core::kernel::Origin;

use super::{Engine, ObservedEvent};
use crate::Activity;

/// Invokes a macro with the list of events that the view handles.
macro_rules! with_events {
    ($do:ident) => {
        $do!(
            SessionStart,
            AgentStart,
            AgentAbort,
            AgentDone,
            SessionMessages,
            SessionOpenTurn,
            SessionEntry,
            SessionEnd,
            SessionSwitch,
            TurnBefore,
            TurnAfter,
            UsageUpdate,
            SteerInject,
            StreamStart,
            StreamText,
            StreamThinking,
            StreamToolArgs,
            ToolArgsRepaired,
            StreamProvider,
            StreamIdle,
            ProviderRetry,
            ContextReduced,
            ContextCompaction,
            ContextFill,
            PermissionDecided,
            ToolBatch,
            ToolBefore,
            ToolBegin,
            ToolProgress,
            ToolBlocked,
            ToolParked,
            ToolSkipped,
            ToolUnknown,
            ValidationReject,
            ValidationCoerce,
            ToolRemark,
            ToolEnd,
            ToolAfter,
            ToolResultsAfter,
            ToolBudgetExceeded,
            RunBudgetReached,
            SpawnBefore,
            SpawnComplete,
            SpawnError,
            PartLeftOut,
            ToolsChanged,
            ViewBlock
        );
    };
}
pub(crate) use with_events;

/// Event that changes a view.
trait Reduce {
    fn reduce(&self, engine: &mut Engine, origin: &Origin);
}

impl Engine {
    pub(super) fn reduce_event(&mut self, ObservedEvent { event, origin }: ObservedEvent<'_>) {
        macro_rules! dispatch {
            ($($event:ty),+) => {
                $(if let Some(event) = event.downcast::<$event>() {
                    return event.reduce(self, origin);
                })+
            };
        }
        with_events!(dispatch);
    }

    /// Sets the activity, for events of the main agent only.
    fn set_main_activity(&mut self, origin: &Origin, activity: Activity) {
        if origin.depth == 0 {
            self.set_activity(activity);
        }
    }
}
