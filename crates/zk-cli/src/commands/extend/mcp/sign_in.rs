//! `zk mcp login` and `zk mcp logout`.

use async_trait::async_trait;
use std::io::IsTerminal;
use zk_auth::{AuthError, AuthorizationCode, Login};
use zk_mcp::{ServerState, SignInError, SignInOptions, SignInPage};
use zk_tui::term::print_stderr;

use super::selected_servers;
use super::session::Session;
use super::tools::unusable_reason;
use crate::app::{Machine, Workplace};
use crate::commands::auth::{SIGN_IN_LIMIT, open_browser, read_pasted_code};
use crate::commands::print;
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::Settings;

/// Terminal and browser of the person who signs in.
struct Terminal<'a> {
    machine: &'a Machine,
    opener: &'a [String],
    browser: bool,
}

#[async_trait]
impl SignInPage for Terminal<'_> {
    async fn code(&self, login: &Login) -> Result<AuthorizationCode, AuthError> {
        print_stderr(&format!("Open this address and sign in:\n\n{}\n", login.url()));
        if (self.browser || !self.opener.is_empty())
            && !open_browser(self.machine, self.opener, login.url()).await
        {
            print_stderr("zk: no browser could be opened; open the address yourself");
        }
        if std::io::stdin().is_terminal() {
            print_stderr("If the browser cannot come back here, paste the address it ends at.");
        }
        tokio::select! {
            code = login.callback(SIGN_IN_LIMIT) => code,
            code = read_pasted_code(login) => code,
        }
    }
}

pub(super) async fn login(
    work: &Workplace,
    settings: &Settings,
    server: &str,
    browser: bool,
) -> Outcome<Exit> {
    let servers = selected_servers(settings, Some(server))?;
    if !servers.iter().all(zk_mcp::ServerConfig::takes_sign_in) {
        return Err(Failure::usage(format!(
            "MCP server {server} has its credentials in its settings: only servers that are reached by HTTP, and that \
             have no header `Authorization`, are signed in to"
        )));
    }
    let session = Session::start(work, settings, servers).await?;
    let done = sign_in_to_server(&work.machine, settings, &session, server, browser).await;
    session.close().await;
    let (lines, exit) = done?;
    print(&work.machine, &lines)?;
    Ok(exit)
}

async fn sign_in_to_server(
    machine: &Machine,
    settings: &Settings,
    session: &Session,
    server: &str,
    browser: bool,
) -> Outcome<(Vec<String>, Exit)> {
    let state = || session.servers.status().into_iter().next().map(|status| status.state);
    if !session.servers.wants_sign_in(server).await {
        return Ok(match state().and_then(|state| unusable_reason(server, &state)) {
            None => (vec![format!("MCP server {server} wants no sign-in now")], Exit::Done),
            Some(lines) => (lines, Exit::Failed),
        });
    }
    let client_metadata_url = settings.mcp.client_metadata_url.clone();
    let page = Terminal { machine, opener: &settings.mcp.opener, browser };
    let signed_in = session.servers.sign_in(server, &page, &SignInOptions { client_metadata_url }).await;
    signed_in.map_err(|error| match error {
        SignInError::NotWanted(why) => Failure::usage(why),
        error => Failure::auth(format!("nobody is signed in to MCP server {server}: {error}")),
    })?;
    session.servers.warm_up(session.longest).await;
    Ok(match state() {
        Some(ServerState::Ready { .. }) | None => {
            (vec![format!("signed in to MCP server {server}")], Exit::Done)
        }
        Some(state) => {
            let mut lines = vec![format!("signed in to MCP server {server}, and then:")];
            lines.extend(unusable_reason(server, &state).into_iter().flatten());
            (lines, Exit::Failed)
        }
    })
}

pub(super) async fn logout(work: &Workplace, settings: &Settings, server: &str) -> Outcome<Exit> {
    let mut servers = selected_servers(settings, Some(server))?;
    // Removing a sign-in needs no request to the server, so its start is not awaited.
    servers.iter_mut().for_each(|server| server.start_cap = std::time::Duration::ZERO);
    let session = Session::start(work, settings, servers).await?;
    let removed = session.servers.sign_out(server).await;
    session.close().await;
    if !removed.map_err(Failure::failed)? {
        return Err(Failure::usage(format!("nobody is signed in to MCP server {server}")));
    }
    print(&work.machine, &[format!("the sign-in to MCP server {server} is removed")])
}
