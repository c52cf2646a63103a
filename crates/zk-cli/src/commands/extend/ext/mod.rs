//! `zk ext`: lists, tests and creates extensions, and prints their logs.

mod edit;
mod scaffold;
mod settings_text;
mod try_out;

use zk_core::service::{visible_line, visible_lines};
use zk_extensions::ExtensionConfig;

use super::{print, print_words};
use crate::app::{AppContext, Workplace, runtime};
use crate::args::ext::ExtAction;
use crate::compose::extensions::logs;
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::Settings;

/// Maximum number of printed log lines.
const MAX_LOG_LINES: usize = 500;

/// Runs a subcommand of `zk ext`.
pub(crate) fn ext(app: &AppContext, action: ExtAction) -> Outcome<Exit> {
    match action {
        ExtAction::List => list(&app.work, &app.settings),
        ExtAction::Add(add) => edit::add(&app.work, add),
        ExtAction::Remove { name } => edit::remove(&app.work.machine, &name),
        ExtAction::Test { name, call, args, command } => {
            let extension = try_out::extension_to_try(&app.settings, name.as_deref(), &command)?;
            runtime()?.block_on(try_out::try_out(&app.work, &app.settings, extension, call, args))
        }
        ExtAction::Logs { name } => print_log(&app.work, &app.settings, &name),
        ExtAction::New { name, lang, dir } => scaffold::create(&app.work, &name, lang, dir),
    }
}

fn list(work: &Workplace, settings: &Settings) -> Outcome<Exit> {
    let row = |extension: &ExtensionConfig, state: &str| {
        let command = visible_line(&extension.command_line());
        format!("{:<16} {state}  {command}  ({})", extension.name, visible_line(&extension.origin.place))
    };
    let state = |extension: &ExtensionConfig| if extension.enabled { "counts" } else { "disabled" };
    let mut lines: Vec<String> =
        settings.extensions().iter().map(|extension| row(extension, state(extension))).collect();
    let hint = "not trusted, so it does not start (`zk trust` shows it, `zk trust add` trusts it)";
    lines.extend(settings.untrusted_extensions().map(|extension| row(extension, hint)));
    if lines.is_empty() {
        lines.push(
            "no extension is set up: `zk ext new NAME` writes one, `zk ext add NAME -- COMMAND` adds one"
                .to_owned(),
        );
    }
    print_words(&work.machine, &lines)
}

/// Returns the configured extension with this name.
fn find_extension(settings: &Settings, name: &str) -> Outcome<ExtensionConfig> {
    if let Some(extension) = settings.extensions().into_iter().find(|extension| extension.name == name) {
        return Ok(extension);
    }
    if settings.untrusted_extensions().any(|extension| extension.name == name) {
        return Err(Failure::usage(format!(
            "extension {name} is the project's and not trusted; `zk trust` shows it, `zk trust add` trusts it"
        )));
    }
    let name = visible_line(name);
    Err(Failure::usage(format!("there is no extension `{name}`; `zk ext list` lists those there are")))
}

fn print_log(work: &Workplace, settings: &Settings, name: &str) -> Outcome<Exit> {
    let extension = find_extension(settings, name)?;
    let logs = logs(work).ok_or_else(|| Failure::usage("there is no place for logs: set HOME or ZK_HOME"))?;
    let Some(text) = logs.read(&extension).map_err(Failure::failed)? else {
        let text = format!("extension {name} has printed nothing to standard error yet");
        return print_words(&work.machine, &[text]);
    };
    let lines = visible_lines(text.trim_end());
    let last = lines.get(lines.len().saturating_sub(MAX_LOG_LINES)..).unwrap_or_default();
    print(&work.machine, last)
}
