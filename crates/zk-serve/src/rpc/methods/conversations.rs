use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};
use zk_chat::{HostedOptions, LaunchRequest, LaunchSession};
use zk_core::service::{Conversation as _, SwitchTarget};

use crate::rpc::client::Client;
use crate::rpc::message::{RpcError, notification};
use crate::rpc::wire::attach::{Nothing, OpenConversation, Role};
use crate::rpc::wire::conversation::{ConversationParams, SwitchParams};
use crate::rpc::wire::notes::OpeningNote;
use crate::rpc::wire::sessions::{NewParams, OpenParams};

/// Settings that a driver may set. None of them allows more without asking, allows more cost, or selects
/// another provider, which could be an agent with permissions of its own.
const SETTINGS_OF_DRIVERS: [&str; 3] = ["append_system", "max_tokens", "thinking"];

pub(super) async fn new(client: &Arc<Client>, params: NewParams) -> Result<OpenConversation, RpcError> {
    let cwd = params.cwd.map(PathBuf::from);
    if cwd.as_ref().is_some_and(|cwd| *cwd != client.server.options.cwd) {
        client.require(Role::Approver, "`cwd` of another directory than the server's")?;
    }
    if !params.add_directories.is_empty() {
        client.require(Role::Approver, "`add_directories`")?;
    }
    require_settings(client, &params.settings)?;
    let request = LaunchRequest {
        cwd,
        add_dirs: params.add_directories.into_iter().map(PathBuf::from).collect(),
        settings: params.settings,
        ..LaunchRequest::default()
    };
    let options = HostedOptions {
        attended: !params.unattended,
        asks_about_project: params.ask_about_project && !params.unattended,
    };
    let shared = client.server.open(&request, options, |id| {
        if options.asks_about_project {
            let note = OpeningNote { conversation: id.to_owned() };
            client.send(&notification("conversation/opening", &note));
        }
    });
    Ok(shared.await?.row())
}

fn require_settings(client: &Client, settings: &Map<String, Value>) -> Result<(), RpcError> {
    match settings.keys().find(|key| !SETTINGS_OF_DRIVERS.contains(&key.as_str())) {
        Some(key) => client.require(Role::Approver, &format!("the setting `{key}`")),
        None => Ok(()),
    }
}

pub(super) async fn open(client: &Arc<Client>, params: OpenParams) -> Result<OpenConversation, RpcError> {
    let session = super::sessions::find(client, &params.session).await?;
    if let Some(shared) = client.server.conversation_of(&session.id.to_string()) {
        return Ok(shared.row());
    }
    let request = LaunchRequest {
        cwd: Some(session.cwd),
        session: LaunchSession::Stored(session.id.to_string()),
        ..LaunchRequest::default()
    };
    let options = HostedOptions { attended: !params.unattended, asks_about_project: false };
    Ok(client.server.open(&request, options, |_| ()).await?.row())
}

pub(super) async fn switch(client: &Arc<Client>, params: SwitchParams) -> Result<OpenConversation, RpcError> {
    let shared = client.server.conversation(&params.conversation)?;
    if let SwitchTarget::Session(id) = &params.to {
        super::sessions::find(client, id.as_str()).await?;
    }
    let _asking = shared.journal.begin_request();
    shared.hosted()?.conversation().switch(params.to).await.map_err(RpcError::failed)?;
    Ok(shared.row())
}

pub(super) async fn close(client: &Arc<Client>, params: ConversationParams) -> Result<Nothing, RpcError> {
    client.server.conversation(&params.conversation)?;
    client.server.close_conversation(&params.conversation).await;
    Ok(Nothing {})
}
