use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use zk_serve::acp::{AcpOptions, serve_acp};

use super::exec_server::stdio_stream_until_written;
use crate::app::{AppContext, runtime};
use crate::exit::{Exit, Failure, Outcome};
use crate::mode::Launcher;

/// Longest time for the last output to be written to a slow editor.
const WRITE_LIMIT: Duration = Duration::from_secs(1);

/// Serves an editor at standard input and output, until they end or a signal comes.
pub(crate) fn acp(app: AppContext) -> Outcome<Exit> {
    let (exit, written) = runtime()?.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
        let (pipes, written) = stdio_stream_until_written().map_err(Failure::failed)?;
        let (from, to) = pipes.into_split();
        let options = AcpOptions { version: env!("CARGO_PKG_VERSION").to_owned(), ..AcpOptions::default() };
        let stop = options.stop.clone();
        let mut serving = std::pin::pin!(serve_acp(Arc::new(Launcher::new(app)), from, to, options));
        let exit = tokio::select! {
            () = &mut serving => return Ok((Exit::Done, written)),
            _ = interrupt.recv() => Exit::Interrupted,
            _ = terminate.recv() => Exit::Terminated,
        };
        stop.cancel();
        serving.await;
        Ok::<_, Failure>((exit, written))
    })?;
    // After the limit the editor is considered gone.
    let _ = written.recv_timeout(WRITE_LIMIT);
    Ok(exit)
}
