use std::sync::Arc;

use zk_core::service::{EntryKind, SessionSnapshot};
use zk_transcripts::export_markdown;
use zk_view::rebuild;

use super::sessions::{find, store};
use crate::rpc::client::Client;
use crate::rpc::message::RpcError;
use crate::rpc::wire::sessions::{ExportFormat, ExportParams, ExportResult};

/// Most bytes of an exported session.
const MAX_EXPORT_BYTES: usize = 32 << 20;

pub(super) async fn export(client: &Arc<Client>, params: ExportParams) -> Result<ExportResult, RpcError> {
    let id = find(client, &params.session).await?.id;
    let snapshot = store(client)?.read(&id).await.map_err(RpcError::failed)?;
    let format = params.format;
    let text = tokio::task::spawn_blocking(move || session_text(&snapshot, format))
        .await
        .map_err(RpcError::failed)??;
    if text.len() > MAX_EXPORT_BYTES {
        let why =
            format!("the session is larger than {MAX_EXPORT_BYTES} bytes: `zk sessions export` writes it");
        return Err(RpcError::failed(why));
    }
    Ok(ExportResult { text })
}

fn session_text(snapshot: &SessionSnapshot, format: ExportFormat) -> Result<String, RpcError> {
    match format {
        ExportFormat::Markdown => {
            let model = snapshot.entries.iter().rev().find_map(|entry| match &entry.kind {
                EntryKind::Model { model } => Some(model.to_string()),
                _ => None,
            });
            let blocks = rebuild(&snapshot.entries);
            let id = snapshot.info.id.to_string();
            Ok(export_markdown(&blocks, Some(&id), model.as_deref().unwrap_or("unknown")))
        }
        ExportFormat::Jsonl => {
            let mut text = String::new();
            for entry in &snapshot.entries {
                text.push_str(&serde_json::to_string(entry).map_err(RpcError::failed)?);
                text.push('\n');
            }
            Ok(text)
        }
    }
}
