//! State of the server, and of its entries that cannot be read.

use temporalio_client::tonic::IntoRequest;
use temporalio_common::protos::temporal::api::workflowservice::v1::GetSystemInfoRequest;
use zk_core::service::{
    EngineError, EngineHealth, RunFilter, RunPhase, UnreadableEntry, UnreadableKind, WorkerHealth,
};

use super::server::Server;
use super::{runs, schedules, sessions, workers};

/// Reason for which an entry cannot be read.
const WHY: &str = "a newer zk wrote it, or it is damaged";

/// Returns the state of the server and its workers.
pub(super) async fn look(server: &Server) -> Result<EngineHealth, EngineError> {
    let info = server.calls().get_system_info(GetSystemInfoRequest::default().into_request()).await;
    let info = info.map_err(|status| server.error("look at the server", &status))?.into_inner();
    // Fails where the server has no activities outside of workflows.
    let clock = sessions::server_time(server).await?;
    let running = runs::list(server, &RunFilter::phases([RunPhase::Running])).await?;
    let mut found = Vec::new();
    for (name, is_draining) in workers::list_held(server).await? {
        let legs = running.iter().filter(|leg| leg.run.worker.as_ref() == Some(&name)).count();
        let legs = u64::try_from(legs).unwrap_or(u64::MAX);
        found.push(WorkerHealth { name, is_alive: true, is_draining, legs });
    }
    Ok(EngineHealth {
        version: format!("Temporal {}", info.server_version),
        place: server.target().location.to_string(),
        clock: Some(clock),
        workers: found,
        // The server misses a lease by itself.
        expired_leases: 0,
    })
}

/// Lists the runs and schedules that this version cannot read.
pub(super) async fn list_unreadable(server: &Server) -> Result<Vec<UnreadableEntry>, EngineError> {
    let entry = |kind| move |id| UnreadableEntry { kind, id, why: WHY.to_owned() };
    let mut found: Vec<UnreadableEntry> =
        runs::list_unreadable(server).await?.into_iter().map(entry(UnreadableKind::Run)).collect();
    let schedules = schedules::list_all(server).await?;
    found.extend(schedules.into_iter().filter_map(Result::err).map(entry(UnreadableKind::Schedule)));
    Ok(found)
}
