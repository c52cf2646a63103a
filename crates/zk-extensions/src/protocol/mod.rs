//! Messages between zk and an extension: JSON-RPC 2.0, one message a line.

mod ability;
mod backend;
mod effects;
mod message;
mod person;
mod work;

pub use ability::{
    AskRegistration, BackendRegistration, CommandRegistration, ContextRegistration, ContextTime,
    RemovedRegistrations, RendererRegistration, RowRule, RuleRole, SectionRegistration, StageName,
    ToolRegistration,
};
pub use backend::{AskedCall, BackendReply, BackendText, BackendTurn, OfferedTool};
pub use effects::DeclaredEffects;
pub use message::{
    Cancel, ErrorObject, EventsLost, Hello, HelloAnswer, HostLimits, LeftOut, Notice, Registered,
    Registrations,
};
pub use person::{
    AppendEntry, Appended, AskPerson, AskedForm, Deliver, Delivered, EntriesQuery, OwnEntry, PersonAnswer,
    RunMessage, RunOrder, ShowBlock, SideQuestion, SideReply,
};
pub use work::{
    ArgumentNote, CommandCompletion, CommandReply, CommandRun, ContextQuery, EventQuestion, EventTold,
    Preview, SectionQuery, ToolCall, ToolProgress, ToolReply,
};

pub(crate) use message::{Incoming, notification, request, response};

/// Longest line in either direction, in bytes.
pub(crate) const MAX_LINE_BYTES: usize = 8 << 20;

/// Version of the protocol: the second part grows with additions, the first with incompatible changes.
pub const EXTENSION_PROTOCOL: &str = "1.1";

/// Part of a version before its first point, which both sides must share.
pub(crate) fn major(version: &str) -> &str {
    version.split('.').next().unwrap_or_default()
}
