//! Many servers that misbehave, all at once.

use std::time::Duration;

use serde_json::json;
use zk_core::service::Tool;
use zk_mcp::{ServerConfig, ServerState};
use zk_testkit::{FakeMcpFault, FakeMcpScript};

use crate::support::{Host, LONG, fake, processes};

/// Number of servers in the suite; `ZK_MCP_CHAOS=50` for the full number.
const USUAL: usize = 7;
/// Maximum additional memory that they may take, in bytes: a few messages of the largest size.
pub(crate) const MEMORY: usize = 256 << 20;

#[expect(clippy::disallowed_methods, reason = "the size of a campaign is chosen outside")]
pub(crate) fn servers() -> usize {
    std::env::var("ZK_MCP_CHAOS").ok().and_then(|count| count.parse().ok()).unwrap_or(USUAL)
}

/// Memory of this process, in bytes.
pub(crate) fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn config(at: usize, mark: &str) -> ServerConfig {
    let faults = [
        FakeMcpFault::Silent,
        FakeMcpFault::DiesInFrame,
        FakeMcpFault::Floods,
        FakeMcpFault::Storms,
        FakeMcpFault::WrongIds,
        FakeMcpFault::Huge,
        FakeMcpFault::Chatty,
    ];
    let script = FakeMcpScript {
        fault: Some(faults[at % faults.len()]),
        instructions: Some(mark.to_owned()),
        ..FakeMcpScript::default()
    };
    let mut definition = fake(&script);
    definition["timeout"] = json!(300_000);
    // They all start at once, maybe on a busy machine.
    definition["start_timeout"] = json!(300_000);
    ServerConfig::read(&format!("s{at}"), &definition).unwrap()
}

#[tokio::test]
async fn servers_that_misbehave_in_every_way_hang_nothing_leave_nothing_and_fill_no_memory() {
    let (count, mark) = (servers(), "mark-chaos");
    let before = resident();
    let host = Host::of((0..count).map(|at| config(at, mark)));
    // A prompt does not wait for any of them.
    host.servers.warm_up(Duration::ZERO).await;
    let settled = |state: &ServerState| !matches!(state, ServerState::Starting);
    // The silent ones are never ready; the others settle.
    let ready = async {
        while host.servers.status().iter().filter(|one| settled(&one.state)).count()
            < count - count.div_ceil(7)
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(5 * LONG, ready).await.unwrap();
    let echoes = host.names().into_iter().filter(|name| name.ends_with("_echo"));
    let calls = echoes.map(|name| {
        let host = &host;
        async move {
            let tool = host.bus.item::<dyn Tool>(&name);
            tool.is_some() && host.call(&name, json!({"text": "x"})).await.is_ok()
        }
    });
    let answered = futures_util::future::join_all(calls).await.into_iter().filter(|is| *is).count();
    // Servers that flood, storm, chatter and answer with wrong ids still answer.
    assert!(answered >= count / 7 * 4, "{answered} of {count}");
    assert!(resident().saturating_sub(before) < MEMORY, "{} MB", (resident() - before) >> 20);
    host.bus.close().await;
    let gone = async {
        while !processes(mark).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, gone).await.unwrap();
}
