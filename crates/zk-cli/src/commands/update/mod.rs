//! `zk update --check`: looks for a newer release, and tells how to install it.

mod installed;
mod newest;

use std::cmp::Ordering;

use semver::Version;
use zk_core::service::visible_line;

use crate::app::{AppContext, runtime};
use crate::commands::print_words as print;
use crate::exit::{Exit, Failure, Outcome};
use installed::Installed;
use newest::newest;

/// Address of the newest release's description, unless the settings name another.
const RELEASES_URL: &str = "https://api.github.com/repos/zk-agent/zk/releases/latest";

/// Asks for the newest release and tells how to get it. Nothing is downloaded.
pub(crate) fn check(app: &AppContext) -> Outcome<Exit> {
    let ours = Version::parse(env!("CARGO_PKG_VERSION")).map_err(Failure::failed)?;
    let url = app.settings.program.releases.as_deref().unwrap_or(RELEASES_URL);
    let release = runtime()?.block_on(newest(url))?;
    let theirs = &release.version;
    let lines = match theirs.cmp_precedence(&ours) {
        Ordering::Equal => vec![format!("zk {ours} is the newest release.")],
        Ordering::Less => vec![format!("This is zk {ours}, newer than the newest release, {theirs}.")],
        Ordering::Greater => {
            let program = std::env::current_exe().map_err(Failure::failed)?;
            let installed = Installed::of(&program, &app.work.machine.env);
            let mut lines = vec![format!("zk {theirs} is out; this is {ours}, {}.", installed.from())];
            lines.push(format!("To update: {}", installed.advice(&theirs.to_string())));
            lines.extend(release.page.map(|page| format!("About it: {}", visible_line(&page))));
            lines
        }
    };
    print(&app.work.machine, &lines)
}
