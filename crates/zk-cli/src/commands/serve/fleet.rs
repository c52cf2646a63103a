use std::path::Path;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use zk_core::service::StateFiles;
use zk_exec::LocalStateFiles;
use zk_serve::LoopbackListener;
use zk_serve::fleet::{FleetServer, FleetTokens, FleetTokensError};
use zk_serve::sessions::new_token;
use zk_tui::term::print_stderr;

use crate::app::{AppContext, Machine, runtime};
use crate::args::fleet::FleetServeArgs;
use crate::commands::runs::runs;
use crate::exit::{Exit, Failure, Outcome};

/// Name of the file of tokens in the directory of access.
const TOKENS_FILE: &str = "fleet-tokens";

/// Variable with a token for all runs, in place of the file.
const TOKEN_VARIABLE: &str = "ZK_FLEET_TOKEN";

/// Size limit of a file of tokens, in bytes.
const MAX_TOKENS_BYTES: usize = 64 << 10;

/// Interval between two looks at the file of tokens.
const TOKENS_INTERVAL: Duration = Duration::from_secs(1);

/// Serves the runs of this user over HTTP, until a signal ends it.
pub(crate) fn serve_fleet(app: &AppContext, args: &FleetServeArgs) -> Outcome<Exit> {
    let machine = &app.work.machine;
    let variable = machine.env.get(TOKEN_VARIABLE).filter(|_| args.token_file.is_none());
    let (text, file) = match variable {
        Some(token) => (format!("* {}", token.to_string_lossy()), None),
        None => {
            let no_place = || Failure::usage("there is no place for tokens: name a file with --token-file");
            let path = match &args.token_file {
                Some(path) => app.work.cwd.join(path),
                None => machine.dirs.access().ok_or_else(no_place)?.join(TOKENS_FILE),
            };
            (read_tokens(machine, &path)?, Some(path))
        }
    };
    let place = file.as_ref().map_or_else(|| TOKEN_VARIABLE.to_owned(), |path| path.display().to_string());
    let tokens = FleetTokens::parse(&text).map_err(|error| Failure::usage(format!("{place}: {error}")))?;
    tokens.reveal().for_each(|token| machine.redactor.learn(token));
    let server = FleetServer::new(runs(machine)?, tokens, app.work.cwd.clone());
    runtime()?.block_on(async {
        let cannot = |error| Failure::failed(format!("cannot listen at {}: {error}", args.listen));
        let listener = LoopbackListener::bind(args.listen).await.map_err(cannot)?;
        print_stderr(&format!(
            "zk: runs at {}, with the tokens in {place}; Ctrl-C ends the server",
            listener.url()
        ));
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
        tokio::select! {
            () = watch_tokens(&server, machine, file.as_deref(), text) => Ok(Exit::Done),
            done = server.serve(&listener) => done.map(|()| Exit::Done).map_err(Failure::failed),
            _ = interrupt.recv() => Ok(Exit::Interrupted),
            _ = terminate.recv() => Ok(Exit::Terminated),
        }
    })
}

/// Gives the server the tokens of the file whenever it changes. Never returns.
async fn watch_tokens(server: &FleetServer, machine: &Machine, file: Option<&Path>, mut known: String) {
    let Some(path) = file else { return std::future::pending().await };
    let files = LocalStateFiles::new(machine.host_files.clone());
    loop {
        tokio::time::sleep(TOKENS_INTERVAL).await;
        let (files, at) = (files.clone(), path.to_owned());
        let read = tokio::task::spawn_blocking(move || files.read(&at, MAX_TOKENS_BYTES)).await;
        // A file that cannot be read now is read again later.
        let Ok(Ok(found)) = read else { continue };
        let text = String::from_utf8_lossy(&found.unwrap_or_default()).into_owned();
        if text == known {
            continue;
        }
        let place = path.display();
        let news = match FleetTokens::parse(&text) {
            Ok(tokens) => {
                tokens.reveal().for_each(|token| machine.redactor.learn(token));
                server.replace_tokens(tokens);
                format!("the tokens in {place} have changed, and hold from now on")
            }
            Err(FleetTokensError::Empty) => {
                server.replace_tokens(FleetTokens::none());
                format!("{place} has no token any more: every client is refused until it has one")
            }
            Err(error @ FleetTokensError::Line { .. }) => {
                format!("{place}: {error}; the tokens from before hold until that is corrected")
            }
        };
        print_stderr(&format!("zk: {news}"));
        known = text;
    }
}

/// Reads the file of tokens; writes one with a new token for all runs if it is missing.
fn read_tokens(machine: &Machine, path: &Path) -> Outcome<String> {
    let files = LocalStateFiles::new(machine.host_files.clone());
    if let Some(bytes) = files.read(path, MAX_TOKENS_BYTES).map_err(Failure::failed)? {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    let text = format!("* {}\n", new_token().map_err(Failure::failed)?);
    files.replace(path, text.as_bytes()).map_err(Failure::failed)?;
    Ok(text)
}
