use serde::{Deserialize, Serialize};

/// Version of the protocol: the second part grows with what is added, the first with what a client of the old one would
/// miss.
pub const RPC_VERSION: &str = "1.5";

/// Role of a client. Each may do all that the one before may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Client that may only read.
    #[default]
    Viewer,
    /// Client that opens conversations, and sends prompts and commands.
    Driver,
    /// Client that answers questions, and widens what runs without asking.
    Approver,
}

impl Role {
    /// Name of the role.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Driver => "driver",
            Self::Approver => "approver",
        }
    }
}

/// Program that a client is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientInfo {
    /// Name of the program.
    pub name: String,
    /// Version of the program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
}

/// First request of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InitializeParams {
    /// Version of the protocol that the client was made for, such as `1.0`.
    pub protocol_version: String,
    /// Program that the client is.
    #[serde(default)]
    pub client: ClientInfo,
    /// Role that it wants.
    pub role: Role,
    /// Token that allows the role, where the connection itself does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Whether runs of conversations that this client sent prompts to stop when its connection ends.
    #[serde(default)]
    pub stop_on_disconnect: bool,
}

/// Answer to the first request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InitializeResult {
    /// Version of the protocol that the server speaks.
    pub protocol_version: String,
    /// Version of the patches' shape.
    pub view_version: String,
    /// Name and version of the server.
    pub server: ClientInfo,
    /// Id of this client.
    pub client: String,
    /// Role of this client.
    pub role: Role,
    /// Directory of the server.
    pub cwd: String,
    /// Conversations that are open.
    pub conversations: Vec<OpenConversation>,
}

/// Client that is attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AttachedClient {
    /// Id of the client.
    pub id: String,
    /// Program that the client is.
    pub client: ClientInfo,
    /// Role of the client.
    pub role: Role,
    /// Conversations that it follows.
    pub follows: Vec<String>,
}

/// Clients that are attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Clients {
    /// All of them, the oldest first.
    pub clients: Vec<AttachedClient>,
}

/// Conversation that is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpenConversation {
    /// Id of the conversation, for as long as this server runs.
    pub conversation: String,
    /// Id of its session, once it is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Directory that it works in.
    pub cwd: String,
    /// Whether a run goes on.
    pub is_running: bool,
    /// Number of its last notification.
    pub seq: u64,
}

/// Conversations that are open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conversations {
    /// All of them.
    pub conversations: Vec<OpenConversation>,
}

/// Params of a method that takes none, and result of one that gives nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Nothing {}
