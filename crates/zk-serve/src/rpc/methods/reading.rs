use std::sync::Arc;

use crate::rpc::client::Client;
use crate::rpc::message::RpcError;
use crate::rpc::wire::attach::{Clients, Conversations, Nothing};
use crate::rpc::wire::conversation::{
    BodyParams, BodyResult, ConversationParams, SubscribeParams, SubscribeResult,
};

pub(super) async fn clients(client: &Arc<Client>, Nothing {}: Nothing) -> Result<Clients, RpcError> {
    Ok(Clients { clients: client.server.attached() })
}

pub(super) async fn conversations(
    client: &Arc<Client>,
    Nothing {}: Nothing,
) -> Result<Conversations, RpcError> {
    Ok(Conversations { conversations: client.server.rows() })
}

pub(super) async fn subscribe(
    client: &Arc<Client>,
    params: SubscribeParams,
) -> Result<SubscribeResult, RpcError> {
    let shared = client.server.conversation(&params.conversation)?;
    Ok(client.follow(&shared, params.after))
}

pub(super) async fn unsubscribe(
    client: &Arc<Client>,
    params: ConversationParams,
) -> Result<Nothing, RpcError> {
    client.server.conversation(&params.conversation)?;
    client.unfollow(&params.conversation);
    Ok(Nothing {})
}

pub(super) async fn body(client: &Arc<Client>, params: BodyParams) -> Result<BodyResult, RpcError> {
    let shared = client.server.conversation(&params.conversation)?;
    let lines = shared.body(params.block).await?;
    Ok(BodyResult { lines: lines.to_vec() })
}
