use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::{Effect, Effects};
use zk_core::service::{CallPlace, Tool};
use zk_permission::quote_all;
use zk_tools::{ToolsOptions, ToolsPlugin};

use super::judged::print_verdict;
use crate::app::Workplace;
use crate::exit::{Exit, Failure, Outcome};
use crate::sandbox;
use crate::settings::Settings;

/// Options of zk that change a verdict, besides the mode. Many other programs have options with these names.
pub(super) const VERDICT_OPTIONS: [&str; 3] = ["--config", "--cwd", "--preset"];

pub(super) fn test(work: &Workplace, settings: &Settings, command: &[String]) -> Outcome<Exit> {
    refuse_late_options(command)?;
    let text = match command {
        // The shell that started zk has removed the outer quotes.
        [only] => only.clone(),
        words => quote_all(words),
    };
    let args = json!({ "command": text });
    // The effects are those of the command line that the tool runs, which may have a prefix from the
    // settings.
    print_verdict(
        work,
        settings,
        "shell",
        &|has_sandbox| effects(work, settings, "shell", &args, has_sandbox),
        Some(&args),
    )
}

/// Refuses options of zk after the command: they would be judged as arguments of the command.
pub(super) fn refuse_late_options(command: &[String]) -> Outcome<()> {
    let Some((first, rest)) = command.split_first() else { return Ok(()) };
    let is_text = first.contains(char::is_whitespace);
    let is_option = |word: &&String| {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        name == "--permission-mode" || (is_text && VERDICT_OPTIONS.contains(&name))
    };
    let Some(option) = rest.iter().find(is_option) else { return Ok(()) };
    let name = option.split_once('=').map_or(option.as_str(), |(name, _)| name);
    Err(Failure::usage(format!(
        "`{name}` stands behind the command, where it would be judged as a part of it: options of zk come first, as in \
         `zk policy test {name} … 'COMMAND'`; a command with an option of that name is one text in quotes"
    )))
}

/// Judges a call of a built-in tool by its declared effects; those of other tools are unknown.
pub(super) fn test_tool(work: &Workplace, settings: &Settings, name: &str, args: &[String]) -> Outcome<Exit> {
    refuse_late_options(args)?;
    let text = args.join(" ");
    let args: Value = serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!("the arguments of `{name}` are not JSON: {error}: {text}"))
    })?;
    print_verdict(
        work,
        settings,
        name,
        &|has_sandbox| effects(work, settings, name, &args, has_sandbox),
        Some(&args),
    )
}

/// Returns the effects that the built-in tool `name` declares for a call.
pub(super) fn effects(
    work: &Workplace,
    settings: &Settings,
    name: &str,
    args: &Value,
    has_sandbox: bool,
) -> Outcome<Effects> {
    let bus = Bus::new();
    let options = ToolsOptions {
        outside: has_sandbox,
        shell_bounds: has_sandbox.then(String::new),
        ..sandbox::with_git(&work.machine, settings.tools.clone().sorted_limits())
    };
    bus.install(&ToolsPlugin::new(options)).map_err(Failure::failed)?;
    #[cfg(feature = "fetch")]
    bus.install(&zk_tools::FetchPlugin::new(settings.fetch.clone())).map_err(Failure::failed)?;
    Ok(match bus.item::<dyn Tool>(name) {
        Some(tool) => tool.effects(args, &CallPlace { cx: bus.cx(), cwd: work.cwd.clone() }),
        None => Effects::Unknown,
    })
}

pub(super) fn test_host(work: &Workplace, settings: &Settings, host: &str) -> Outcome<Exit> {
    if host.contains('/') {
        let text = format!("rules are about hosts, not about pages; give the host of `{host}` alone");
        return Err(Failure::usage(text));
    }
    let effects = Effects::one(Effect::Network { hosts: vec![host.to_owned()] });
    print_verdict(work, settings, "fetch", &|_| Ok(effects.clone()), None)
}
