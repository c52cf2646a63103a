//! Requests, each with the least role that may send it.

mod completion;
mod conversations;
mod driving;
mod export;
mod reading;
mod sessions;
mod settings;

use std::sync::Arc;

use serde_json::Value;

use super::client::Client;
use super::message::RpcError;
use super::params::parse;
use super::wire::attach::{Clients, Conversations, Nothing, OpenConversation, Role};
use super::wire::conversation::{
    AnswerParams, BodyParams, BodyResult, Choices, CommandParams, CommandResult, Commands, CompleteParams,
    ConversationParams, Models, ModelsParams, Queue, Settings, SettingsParams, SteerParams, SubmitParams,
    SubmitResult, SubscribeParams, SubscribeResult, SwitchParams, UnqueueParams,
};
use super::wire::sessions::{
    ExportParams, ExportResult, ForkParams, ListParams, NewParams, OpenParams, RenameParams, SessionParams,
    SessionResult, Sessions, Tree,
};

/// Makes the list of methods: the least role, whether other lines wait for it, params, result and function of each.
macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $role:ident, $pace:ident, $params:ty => $result:ty, $call:path;)+) => {
        /// Method of a request, but for `initialize`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Method {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Method {
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub(super) fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Lowest role that may call the method.
            pub(super) fn role(self) -> Role {
                match self { $(Self::$variant => Role::$role,)+ }
            }

            /// Whether other requests of the client run in parallel to the method.
            pub(super) fn is_slow(self) -> bool {
                let pace = match self { $(Self::$variant => Pace::$pace,)+ };
                pace == Pace::Slow
            }

            pub(super) async fn call(self, client: &Arc<Client>, params: Value) -> Result<Value, RpcError> {
                match self {
                    $(Self::$variant => {
                        let params: $params = parse(&params)?;
                        let result: $result = $call(client, params).await?;
                        serde_json::to_value(result).map_err(RpcError::failed)
                    })+
                }
            }

            /// Description of the method, and the schemas of its params and result.
            #[cfg(feature = "schema")]
            pub(super) fn schema(self, generator: &mut schemars::SchemaGenerator) -> MethodSchema {
                match self {
                    $(Self::$variant => MethodSchema {
                        help: concat!($($doc),+).trim(),
                        params: generator.subschema_for::<$params>(),
                        result: generator.subschema_for::<$result>(),
                    },)+
                }
            }
        }
    };
}

/// Whether other requests of a client wait for a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Quick,
    Slow,
}

/// Description of a method, and the schemas of its params and result.
#[cfg(feature = "schema")]
pub(super) struct MethodSchema {
    pub(super) help: &'static str,
    pub(super) params: schemars::Schema,
    pub(super) result: schemars::Schema,
}

methods! {
    /// Lists the clients that are attached.
    Clients = "clients", Viewer, Quick, Nothing => Clients, reading::clients;
    /// Lists the conversations that are open.
    Conversations = "conversations", Viewer, Quick, Nothing => Conversations, reading::conversations;
    /// Opens a conversation with a new session.
    SessionNew = "session/new", Driver, Slow, NewParams => OpenConversation, conversations::new;
    /// Opens a conversation with a stored session, or gives the one that has it open.
    SessionOpen = "session/open", Driver, Slow, OpenParams => OpenConversation, conversations::open;
    /// Lists stored sessions, the newest first.
    SessionList = "session/list", Viewer, Slow, ListParams => Sessions, sessions::list;
    /// Finds stored sessions by a text of their titles and prompts.
    SessionSearch = "session/search", Viewer, Slow, ListParams => Sessions, sessions::search;
    /// Copies a stored session.
    SessionFork = "session/fork", Driver, Slow, ForkParams => SessionResult, sessions::fork;
    /// Lists the prompts of a stored session.
    SessionTree = "session/tree", Viewer, Slow, SessionParams => Tree, sessions::tree;
    /// Gives a stored session another title.
    SessionRename = "session/rename", Driver, Slow, RenameParams => Nothing, sessions::rename;
    /// Removes a stored session.
    SessionDelete = "session/delete", Driver, Slow, SessionParams => Nothing, sessions::delete;
    /// Gives a stored session as text.
    SessionExport = "session/export", Viewer, Slow, ExportParams => ExportResult, export::export;
    /// Replaces the session of a conversation by another one.
    Switch = "switch", Driver, Slow, SwitchParams => OpenConversation, conversations::switch;
    /// Follows a conversation: its notifications come from now on.
    Subscribe = "subscribe", Viewer, Quick, SubscribeParams => SubscribeResult, reading::subscribe;
    /// Follows a conversation no longer.
    Unsubscribe = "unsubscribe", Viewer, Quick, ConversationParams => Nothing, reading::unsubscribe;
    /// Gives all lines of a block.
    Body = "body", Viewer, Slow, BodyParams => BodyResult, reading::body;
    /// Sends a prompt; during a run it waits in the queue for the run's end.
    Submit = "submit", Driver, Quick, SubmitParams => SubmitResult, driving::submit;
    /// Interrupts the run with a text; without a run, sends a prompt.
    Steer = "steer", Driver, Quick, SteerParams => SubmitResult, driving::steer;
    /// Lists the texts that wait for their turn.
    Queue = "queue", Viewer, Quick, ConversationParams => Queue, driving::queue;
    /// Takes a text back that waits for its turn.
    Unqueue = "unqueue", Driver, Quick, UnqueueParams => Nothing, driving::unqueue;
    /// Stops the run. Texts that wait stay in the queue.
    Stop = "stop", Driver, Quick, ConversationParams => Nothing, driving::stop;
    /// Answers a question, with the digest of what was shown. The first valid answer wins.
    Answer = "answer", Approver, Quick, AnswerParams => Nothing, driving::answer;
    /// Runs a command of the conversation.
    Command = "command", Driver, Slow, CommandParams => CommandResult, driving::command;
    /// Lists the commands of the conversation.
    Commands = "commands", Viewer, Slow, ConversationParams => Commands, completion::commands;
    /// Completes a command, an argument or a path.
    Complete = "complete", Viewer, Slow, CompleteParams => Choices, completion::complete;
    /// Lists the models that the conversation may use.
    Models = "models", Viewer, Slow, ModelsParams => Models, settings::models;
    /// Gives the settings of the conversation.
    SettingsGet = "settings/get", Viewer, Slow, ConversationParams => Settings, settings::get;
    /// Changes settings of the conversation.
    SettingsSet = "settings/set", Driver, Slow, SettingsParams => Settings, settings::set;
    /// Ends the conversation, with everything saved.
    Close = "close", Driver, Slow, ConversationParams => Nothing, conversations::close;
}

impl Method {
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|method| method.name() == name)
    }

    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        std::iter::once("initialize").chain(Self::ALL.iter().map(|method| method.name()))
    }

    #[cfg(feature = "schema")]
    pub(super) fn all() -> &'static [Self] {
        Self::ALL
    }
}
