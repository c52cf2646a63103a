use std::io::IsTerminal;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use zk_auth::{AuthError, AuthorizationCode, Credential, Login, OAuthClient};
use zk_core::service::{Exec, ExecRequest, OutputStream};
use zk_exec::{Environment, ProcessExec};
use zk_providers::Http;
use zk_tui::term::print_stderr;

use crate::app::Machine;
use crate::exit::{Failure, Outcome};

/// Longest time for a person to sign in.
pub(in crate::commands) const SIGN_IN_LIMIT: Duration = Duration::from_secs(10 * 60);

pub(super) async fn sign_in(machine: &Machine, client: OAuthClient, browser: bool) -> Outcome<Credential> {
    let failed = |error: AuthError| match error {
        AuthError::Client { .. } => Failure::usage(error.to_string()),
        error => Failure::auth(error.to_string()),
    };
    let login = Login::begin(client, Http::new()).await.map_err(failed)?;
    print_stderr(&format!("Open this address and sign in:\n\n{}\n", login.url()));
    if browser && !open_browser(machine, &[], login.url()).await {
        print_stderr("zk: no browser could be opened; open the address yourself");
    }
    if std::io::stdin().is_terminal() {
        print_stderr(
            "If the browser cannot come back here, paste the address it ends at, or the code it shows.",
        );
    }
    let code = tokio::select! {
        code = login.callback(SIGN_IN_LIMIT) => code,
        code = read_pasted_code(&login) => code,
    };
    let tokens = login.exchange(code.map_err(failed)?).await.map_err(failed)?;
    Ok(Credential::OAuth(tokens))
}

/// Returns the code of the first valid line on standard input. If the input ends, waits for the browser to deliver one.
pub(in crate::commands) async fn read_pasted_code(login: &Login) -> Result<AuthorizationCode, AuthError> {
    let (lines, mut read) = mpsc::unbounded_channel();
    // A separate thread reads, so that the program can end while a read is blocked.
    let reader = std::thread::Builder::new().name("paste".to_owned()).spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    if reader.is_ok() {
        while let Some(line) = read.recv().await {
            match login.pasted(&line) {
                _ if line.trim().is_empty() => {}
                Err(error @ AuthError::Pasted { .. }) => print_stderr(&format!("zk: {error}")),
                answer => return answer,
            }
        }
    }
    if login.listens() {
        return std::future::pending().await;
    }
    Err(AuthError::Pasted { reason: "is nothing" })
}

/// Opens an address in the person's browser, without a shell; returns whether that worked. `opener` is a
/// program and its first arguments, `xdg-open` if empty.
pub(in crate::commands) async fn open_browser(machine: &Machine, opener: &[String], url: &str) -> bool {
    let mut environment = Environment::filtered(machine.env.without_secrets());
    for name in ["BROWSER", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XDG_CURRENT_DESKTOP"] {
        if let Some(value) = machine.env.get(name) {
            environment = environment.grant(name, value);
        }
    }
    let (program, first) = match opener.split_first() {
        Some((program, first)) => (program.as_str(), first),
        None => ("xdg-open", opener),
    };
    let args = first.iter().map(String::as_str).chain([url]).map(Into::into);
    let request = ExecRequest {
        args: args.collect(),
        timeout: Some(Duration::from_secs(5)),
        ..ExecRequest::new(program, "/")
    };
    let exec = ProcessExec::new(environment);
    let mut ignored = |_: OutputStream, _: &[u8]| ();
    let outcome = exec.run(request, &mut ignored, &CancellationToken::new()).await;
    outcome.is_ok_and(|outcome| outcome.exit == zk_core::service::Exit::Code(0))
}
