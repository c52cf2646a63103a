use std::sync::Arc;

use zk_core::model::SessionId;
use zk_core::service::{Relay, RelayListener, RelayPiece, RelaySide, RelaySignal};

use super::AbilityOutcome;
use super::{Case, ensure_equal, failed};

/// Each side of a session gets its own signals, in order, from another store of the place, and those of no other session.
pub(super) async fn check_signals(one: Case<'_>, other: Case<'_>) -> AbilityOutcome {
    let (Some(here), Some(there)) = (one.store.relay(), other.store.relay()) else { return Ok(None) };
    let (session, neighbour): (SessionId, SessionId) = ("s_1".into(), "s_11".into());
    send(&there, &session, RelaySignal::Abort).await?;
    let mut run = listen(&here, &session, RelaySide::Run).await?;
    let mut watchers = [
        listen(&here, &session, RelaySide::Watchers).await?,
        listen(&there, &session, RelaySide::Watchers).await?,
    ];
    let piece = |number, text: &str| {
        let (turn, text) = ("t_1".into(), text.to_owned());
        RelaySignal::Piece(RelayPiece { turn, number, is_thinking: false, text })
    };
    send(&there, &neighbour, RelaySignal::Abort).await?;
    let to_run = [RelaySignal::Watched { is_new: true }, RelaySignal::Abort];
    // Every character of the text takes six bytes as JSON.
    let to_watchers = [piece(0, "a 'b' \"c\" ä 🦀\n"), piece(1, &"\u{1}".repeat(1_200)), RelaySignal::Stored];
    for signal in to_run.iter().chain(&to_watchers) {
        send(&there, &session, signal.clone()).await?;
    }
    for expected in &to_run {
        ensure_equal("signal to the run", &run.next().await.as_ref(), &Some(expected))?;
    }
    for watcher in &mut watchers {
        for expected in &to_watchers {
            ensure_equal("signal to a watcher", &watcher.next().await.as_ref(), &Some(expected))?;
        }
    }
    let [first, mut second] = watchers;
    drop(first);
    send(&here, &session, RelaySignal::Stored).await?;
    ensure_equal("signal to the other watcher", &second.next().await, &Some(RelaySignal::Stored))?;
    Ok(Some(()))
}

async fn send(relay: &Arc<dyn Relay>, session: &SessionId, signal: RelaySignal) -> Result<(), String> {
    relay.send(session, &signal).await.map_err(failed("send a live signal"))
}

async fn listen(
    relay: &Arc<dyn Relay>,
    session: &SessionId,
    side: RelaySide,
) -> Result<RelayListener, String> {
    relay.listen(session, side).await.map_err(failed("listen to a session"))
}
