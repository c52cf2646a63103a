//! `zk ext test`: starts an extension, and prints what it registers.

use std::sync::Arc;

use serde_json::Value;
use zk_core::kernel::Bus;
use zk_core::service::{Backend, Command, CommandOutcome, Exec, Tool, ToolCx, visible_line, visible_lines};
use zk_exec::{Environment, ProcessExec, Supervision};
use zk_extensions::{ExtensionConfig, ExtensionHandle, ExtensionOrigin, Registration};

use super::find_extension;
use crate::app::Workplace;
use crate::commands::extend::mcp::tools::content_lines;
use crate::commands::print;
use crate::compose::extensions;
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::Settings;

/// Returns the extension to try: a configured one, or a command.
pub(super) fn extension_to_try(
    settings: &Settings,
    name: Option<&str>,
    command: &[String],
) -> Outcome<ExtensionConfig> {
    match (name, command.is_empty()) {
        (Some(name), true) => find_extension(settings, name),
        (name, false) => {
            let entry = serde_json::json!([{ "name": name.unwrap_or("tried"), "command": command }]);
            let read = ExtensionConfig::read_all(&entry, &ExtensionOrigin::person("the command line"));
            let read = read.map_err(|error| Failure::usage(error.to_string()))?;
            read.into_iter().next().ok_or_else(|| Failure::failed("there is no extension to try"))
        }
        (None, true) => Err(Failure::usage("name an extension, or a command behind `--`")),
    }
}

/// Starts the extension and prints its registrations, and the result of a requested call.
pub(super) async fn try_out(
    work: &Workplace,
    settings: &Settings,
    extension: ExtensionConfig,
    call: Option<String>,
    args: Option<String>,
) -> Outcome<Exit> {
    let children = Environment::filtered(work.machine.env.without_secrets());
    let own = Arc::new(ProcessExec::supervised(children, Supervision::of_this_program()));
    let exec: Arc<dyn Exec> = match extension.origin.is_project {
        true => extensions::sandbox_of(work, settings)
            .ok_or_else(|| Failure::failed("an extension of a project runs in the sandbox only"))?,
        false => own.clone(),
    };
    let bus = Bus::new();
    let plugin = extensions::build(work, settings, extension).exec(exec);
    let handle = plugin.handle();
    bus.install(&plugin).map_err(Failure::failed)?;
    let tried = start_and_call(work, &bus, &handle, call, args).await;
    bus.close().await;
    own.close().await;
    let (lines, exit) = tried?;
    print(&work.machine, &lines)?;
    Ok(exit)
}

async fn start_and_call(
    work: &Workplace,
    bus: &Bus,
    handle: &ExtensionHandle,
    call: Option<String>,
    args: Option<String>,
) -> Outcome<(Vec<String>, Exit)> {
    let introduction = match handle.ready().await {
        Ok(introduction) => introduction,
        Err(error) => return Ok((visible_lines(&error.to_string()), Exit::Failed)),
    };
    let who = format!("{} {}", introduction.name, introduction.version);
    let mut lines = vec![visible_line(&format!("{who}, protocol {}", introduction.protocol))];
    let row = |one: &Registration| {
        visible_line(&format!("{:<9} {}{}", one.kind, one.name, describe_registration(bus, one)))
    };
    lines.extend(handle.registered().iter().map(row));
    let Some(name) = call else { return Ok((lines, Exit::Done)) };
    let args = args.unwrap_or_default();
    if let Some(command) = name.strip_prefix('/') {
        let found = bus.item::<dyn Command>(command);
        let found = found.ok_or_else(|| Failure::usage(format!("it has no command `{name}`")))?;
        return Ok(match found.run(&args, &bus.cx()).await {
            Ok(CommandOutcome::Show(text) | CommandOutcome::Prompt(text)) => {
                (visible_lines(&text), Exit::Done)
            }
            Ok(CommandOutcome::Done | CommandOutcome::Quit | CommandOutcome::Reload) => (lines, Exit::Done),
            Err(error) => (visible_lines(&error.to_string()), Exit::Failed),
        });
    }
    let tool =
        bus.item::<dyn Tool>(&name).ok_or_else(|| Failure::usage(format!("it has no tool `{name}`")))?;
    let text = if args.is_empty() { "{}" } else { &args };
    let args: Value = serde_json::from_str(text)
        .map_err(|error| Failure::usage(format!("the arguments are no JSON: {error}")))?;
    let end = ToolCx::new(bus.cx(), &work.cwd).run(tool, args).await.map_err(Failure::failed)?;
    Ok(match end.into_output() {
        Ok(output) => (content_lines(&output.content), Exit::Done),
        Err(error) => (visible_lines(&error.message), Exit::Failed),
    })
}

/// Returns the description of a registration, which is printed after its name.
fn describe_registration(bus: &Bus, of: &Registration) -> String {
    let text = match of.kind {
        "tool" => bus.item::<dyn Tool>(&of.name).map(|tool| tool.spec().description.clone()),
        "command" => bus.item::<dyn Command>(&of.name).map(|command| command.help().to_owned()),
        "backend" => bus.item::<dyn Backend>(&of.name).map(|backend| backend.describe()),
        _ => None,
    };
    text.filter(|text| !text.is_empty()).map_or(String::new(), |text| format!("  {text}"))
}
