//! The commands that show something and end.

mod auth;
mod config;
mod cost;
mod demo;
mod doctor;
mod extend;
mod help;
mod logs;
mod models;
mod policy;
mod serve;
mod sessions;
mod trust;
mod update;
mod window;

pub(crate) use auth::{Access, auth, setup};
pub(crate) use config::edit::config_edit;
pub(crate) use config::{config_change, config_get};
pub(crate) use cost::cost;
pub(crate) use cost::records::{record_prefix_breaks, record_savings};
pub(crate) use demo::run as demo;
pub(crate) use doctor::run as doctor;
pub(crate) use extend::{command_hooks, ext, learned, mcp, plugin, registry, skills};
pub(crate) use help::{completions, help, known_words, manual_pages};
pub(crate) use logs::logs;
pub(crate) use models::models;
pub(crate) use policy::policy;
#[cfg(feature = "acp")]
pub(crate) use serve::acp;
pub(crate) use serve::{agent_sdk, exec_server, rpc, rpc_schema, serve_fleet, serve_sessions, web, worker};
pub(crate) use sessions::replay::{bug_command, replay};
pub(crate) use sessions::{attach, fleet, handoff, memory, redo, runs, sessions, turn_diff, undo};
pub(crate) use trust::trust;
pub(crate) use update::check as update_check;
pub(crate) use window::{context, prompt_command};

use zk_serve::print::RunResult;
use zk_tui::Style;
use zk_tui::plain::Screen;

use crate::app::Machine;
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::{Settings, json_schema, reference};

/// Prints every setting.
pub(crate) fn config_show(machine: &Machine, settings: &Settings, origin: bool) -> Outcome<Exit> {
    print(machine, &settings.lines(origin))
}

/// Prints the reference of all settings, as Markdown.
pub(crate) fn config_keys(machine: &Machine) -> Outcome<Exit> {
    print_text(machine, &reference())
}

/// Prints the JSON Schema of the settings, or of a run's result.
pub(crate) fn config_schema(machine: &Machine, of_result: bool) -> Outcome<Exit> {
    let schema = if of_result { RunResult::json_schema() } else { json_schema() };
    let schema = serde_json::to_string_pretty(&schema).map_err(Failure::failed)?;
    print_text(machine, &schema)
}

/// Prints lines of text; on a terminal they are wrapped at words.
fn print_words(machine: &Machine, lines: &[String]) -> Outcome<Exit> {
    let mut screen = Screen::stdout(&machine.terminal());
    lines.iter().for_each(|line| screen.prose(Style::PLAIN, line));
    screen.finish()?;
    Ok(Exit::Done)
}

/// Prints lines of text as they are.
pub(crate) fn print(machine: &Machine, lines: &[String]) -> Outcome<Exit> {
    let mut screen = Screen::stdout(&machine.terminal());
    lines.iter().for_each(|line| screen.line(Style::PLAIN, line));
    screen.finish()?;
    Ok(Exit::Done)
}

/// Prints a text as it is.
pub(crate) fn print_text(machine: &Machine, text: &str) -> Outcome<Exit> {
    print(machine, &text.lines().map(str::to_owned).collect::<Vec<_>>())
}

/// Size in the unit that people read.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
        _ => format!("{}.{} GB", bytes / 1_000_000_000, bytes % 1_000_000_000 / 100_000_000),
    }
}

/// Count with its noun, in the singular or the plural.
fn counted(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}
