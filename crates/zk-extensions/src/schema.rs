use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use zk_core::model::Display;

use crate::protocol::{
    AppendEntry, Appended, ArgumentNote, AskPerson, BackendReply, BackendText, BackendTurn, Cancel,
    CommandCompletion, CommandReply, CommandRun, ContextQuery, Deliver, Delivered, EXTENSION_PROTOCOL,
    EntriesQuery, ErrorObject, EventQuestion, EventTold, EventsLost, Hello, HelloAnswer, Notice, OwnEntry,
    PersonAnswer, Preview, Registered, Registrations, RemovedRegistrations, RunMessage, RunOrder,
    SectionQuery, ShowBlock, SideQuestion, SideReply, ToolCall, ToolProgress, ToolReply,
};

/// JSON Schema of the protocol: for each method the parameters, and the result where there is one.
///
/// ```
/// let schema = zk_extensions::protocol_schema();
/// assert_eq!(schema["version"], zk_extensions::EXTENSION_PROTOCOL);
/// assert!(schema["from_zk"]["tool/call"]["result"].is_object());
/// ```
#[must_use]
pub fn protocol_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    macro_rules! method {
        ($params:ty) => {
            json!({ "params": generator.subschema_for::<$params>() })
        };
        ($params:ty, $result:ty) => {
            json!({ "params": generator.subschema_for::<$params>(), "result": generator.subschema_for::<$result>() })
        };
    }
    let from_zk = json!({
        "hello": method!(Hello, HelloAnswer),
        "event/ask": method!(EventQuestion<'_>, Value),
        "event/tell": method!(EventTold<'_>),
        "events/lost": method!(EventsLost),
        "tool/call": method!(ToolCall<'_>, ToolReply),
        "tool/preview": method!(Preview<'_>, Option<Display>),
        "command/run": method!(CommandRun<'_>, Option<CommandReply>),
        "command/complete": method!(CommandCompletion<'_>, Vec<ArgumentNote>),
        "section/text": method!(SectionQuery<'_>, Option<String>),
        "context/text": method!(ContextQuery<'_>, Option<String>),
        "backend/turn": method!(BackendTurn<'_>, BackendReply),
        "cancel": method!(Cancel),
    });
    let from_extension = json!({
        "register": method!(Registrations, Registered),
        "unregister": method!(RemovedRegistrations, ()),
        "ask": method!(AskPerson, PersonAnswer),
        "notify": method!(Notice),
        "show": method!(ShowBlock),
        "tool/progress": method!(ToolProgress),
        "backend/text": method!(BackendText),
        "session/append": method!(AppendEntry, Appended),
        "session/entries": method!(EntriesQuery, Vec<OwnEntry>),
        "side_call": method!(SideQuestion, SideReply),
        "run/steer": method!(RunMessage, ()),
        "run/follow_up": method!(RunMessage, ()),
        "run/next_prompt": method!(RunMessage, ()),
        "run/abort": method!(RunOrder, ()),
        "deliver": method!(Deliver, Delivered),
        "ping": method!((), ()),
        "cancel": method!(Cancel),
    });
    let error = generator.subschema_for::<ErrorObject>();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Protocol of zk's extensions",
        "version": EXTENSION_PROTOCOL,
        "from_zk": from_zk,
        "from_extension": from_extension,
        "error": error,
        "$defs": generator.take_definitions(true),
    })
}
