use std::collections::HashSet;
use std::sync::Arc;

use zk_chat::HostedConversation;
use zk_core::events::ModelsQuery;
use zk_core::model::{Model, ModelRef};
use zk_core::service::{Conversation as _, Files};
use zk_permission::ModeSwitch;

use crate::rpc::client::Client;
use crate::rpc::message::RpcError;
use crate::rpc::wire::attach::Role;
use crate::rpc::wire::conversation::{
    ConversationParams, ModelRow, Models, ModelsParams, Settings, SettingsParams,
};

pub(super) async fn models(client: &Arc<Client>, params: ModelsParams) -> Result<Models, RpcError> {
    let hosted = client.server.conversation(&params.conversation)?.hosted()?.clone();
    let (agent, factory) = (hosted.agent(), hosted.factory());
    let query = ModelsQuery { refresh: params.refresh, ..ModelsQuery::default() };
    let known = agent.bus().cx().emit(query).await.map_err(RpcError::failed)?;
    let seen: HashSet<ModelRef> = known.models.iter().map(Model::reference).collect();
    let others = factory.known_models().await.into_iter().filter(|model| !seen.contains(&model.reference()));
    let current = agent.model().reference();
    let row = |model: Model| {
        let rates = model.prices.as_ref().map(|prices| prices.rates);
        ModelRow {
            name: model.reference().to_string(),
            is_current: model.reference() == current,
            window: model.window,
            input_price: rates.map(|rates| rates.input),
            output_price: rates.map(|rates| rates.output),
            thinking: factory.thinking_levels(&model).iter().map(|level| level.as_str().to_owned()).collect(),
        }
    };
    let failed = known.failed.iter().filter_map(|failed| {
        let kind = failed.error?;
        Some(format!("could not list the models of {}: {}", failed.provider, kind.as_str()))
    });
    let failed = failed.collect();
    let mut models: Vec<ModelRow> = known.models.iter().cloned().chain(others).map(row).collect();
    // The current model may be missing in all lists, such as one of a server at an address of its own.
    if !models.iter().any(|model| model.is_current) {
        models.insert(0, row(agent.model()));
    }
    Ok(Models { models, failed })
}

pub(super) async fn get(client: &Arc<Client>, params: ConversationParams) -> Result<Settings, RpcError> {
    let shared = client.server.conversation(&params.conversation)?;
    Ok(settings(shared.hosted()?))
}

fn settings(hosted: &HostedConversation) -> Settings {
    let (agent, state) = (hosted.agent(), hosted.conversation().state());
    let bus = agent.bus();
    let roots = bus.service::<dyn Files>().map(|files| files.roots()).unwrap_or_default();
    Settings {
        model: agent.model().reference().to_string(),
        thinking: agent.thinking().level.as_str().to_owned(),
        mode: bus.service::<ModeSwitch>().map(|modes| modes.name().to_owned()),
        cwd: state.cwd.display().to_string(),
        directories: roots.iter().map(|root| root.display().to_string()).collect(),
        session: state.session.map(|id| id.to_string()),
    }
}

pub(super) async fn set(client: &Arc<Client>, params: SettingsParams) -> Result<Settings, RpcError> {
    if params.mode.is_some() {
        client.require(Role::Approver, "`mode`")?;
    }
    if params.add_directory.is_some() {
        client.require(Role::Approver, "`add_directory`")?;
    }
    let shared = client.server.conversation(&params.conversation)?;
    let hosted = shared.hosted()?;
    if let Some(model) = &params.model
        && client.require(Role::Approver, "`model` of another provider").is_err()
    {
        // Another provider may be an agent with permissions of its own.
        let agent = hosted.agent();
        let found = hosted.factory().find_model(model, &agent).await;
        let found = found.map_err(|error| RpcError::field("model", error))?.model;
        if found.provider != agent.model().provider {
            client.require(Role::Approver, "`model` of another provider")?;
        }
    }
    let changes = [
        ("model", "model", params.model),
        ("thinking", "thinking", params.thinking),
        ("mode", "permissions", params.mode),
        ("cwd", "cd", params.cwd),
        ("add_directory", "add-dir", params.add_directory),
    ];
    for (field, command, value) in changes {
        let Some(value) = value else { continue };
        if value.trim().is_empty() || value.contains(char::is_control) {
            return Err(RpcError::field(field, "it is empty, or has a control character"));
        }
        let done = hosted.run_command(&format!("{command} {value}")).await;
        done.map_err(|why| RpcError::field(field, why))?;
    }
    Ok(settings(hosted))
}
