//! Names of zk's own commands in a conversation on a terminal, the same wherever a prompt is given.

use std::sync::Arc;

use zk_core::kernel::Bus;
use zk_core::service::Command;

/// Names of zk's own commands. Command files cannot use them, and without a person they are not prompts.
pub const OWN_COMMANDS: [&str; 46] = [
    "add-dir",
    "agents",
    "back",
    "backend",
    "background",
    "btw",
    "cd",
    "clear",
    "compact",
    "config",
    "context",
    "copy",
    "cost",
    "effort",
    "exit",
    "export",
    "fork",
    "help",
    "history",
    "jobs",
    "label",
    "login",
    "logout",
    "loop",
    "mcp",
    "model",
    "models",
    "name",
    "new",
    "permissions",
    "provider",
    "quit",
    "recap",
    "reload",
    "resume",
    "screen",
    "search",
    "sessions",
    "show",
    "skills",
    "status",
    "theme",
    "thinking",
    "tools",
    "tree",
    "uncompact",
];

/// Commands that are safe during a run: they only show something, or change the display, the permission mode
/// or the next turn's model.
const HARMLESS: [&str; 27] = [
    "agents",
    "background",
    "btw",
    "cd",
    "context",
    "cost",
    "done",
    "effort",
    "export",
    "fleet",
    "goal",
    "help",
    "history",
    "mcp",
    "model",
    "models",
    "permissions",
    "recap",
    "screen",
    "search",
    "sessions",
    "show",
    "skills",
    "status",
    "theme",
    "thinking",
    "tools",
];

/// Commands that are safe during a run without arguments.
const HARMLESS_ALONE: [&str; 4] = ["backend", "config", "jobs", "provider"];

/// Verbs of `/jobs` that are safe during a run, as in the list of jobs on a drawn screen.
const HARMLESS_OF_JOBS: [&str; 3] = ["kill", "list", "tail"];

/// Whether a line is a command that can be run during a run of the agent.
pub(crate) fn is_harmless(line: &str) -> bool {
    let Some(rest) = line.strip_prefix('/') else { return false };
    let (name, args) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    HARMLESS.contains(&name)
        || HARMLESS_ALONE.contains(&name) && args.trim().is_empty()
        || name == "jobs"
            && args.split_whitespace().next().is_some_and(|verb| HARMLESS_OF_JOBS.contains(&verb))
}

/// Whether a line is a command of a file, plugin or server, which may return a prompt. A skill is part of the
/// prompt itself.
pub(crate) fn makes_prompt(line: &str) -> bool {
    let Some(rest) = line.strip_prefix('/') else { return false };
    let name = rest.split_whitespace().next().filter(|_| !rest.starts_with(char::is_whitespace));
    name.is_some_and(|name| !name.starts_with("skill:") && !OWN_COMMANDS.contains(&name))
}

/// Registers zk's own commands, over those of plugins with the same name. Returns a warning for each replaced
/// one.
pub(crate) fn provide_own(bus: &Bus, commands: &[Arc<dyn Command>]) -> Vec<String> {
    let others = bus.items::<dyn Command>();
    let scope = bus.scope("commands");
    let mut warnings = Vec::new();
    for command in commands {
        let name = command.name();
        debug_assert!(OWN_COMMANDS.contains(&name), "/{name} is not reserved");
        if let Some(other) = others.iter().find(|other| &*other.name == name) {
            warnings.push(format!(
                "warning: /{name} of the plugin {} is not used: zk has a command of that name",
                other.source
            ));
        }
        scope.provide_replacing::<dyn Command>(name, command.clone());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use zk_core::kernel::{BoxError, Cx};
    use zk_core::service::CommandOutcome;

    use super::*;

    struct Named(&'static str, &'static str);

    #[async_trait]
    impl Command for Named {
        fn name(&self) -> &str {
            self.0
        }

        fn help(&self) -> &str {
            self.1
        }

        async fn run(&self, _: &str, _: &Cx) -> Result<CommandOutcome, BoxError> {
            Ok(CommandOutcome::Done)
        }
    }

    #[test]
    fn a_plugin_command_replaced_by_one_of_zk_is_reported() {
        let bus = Bus::new();
        let plugin = bus.scope("tracker");
        for name in ["model", "issues"] {
            plugin.provide::<dyn Command>(name, Arc::new(Named(name, "of the plugin"))).unwrap();
        }
        let own: [Arc<dyn Command>; 2] = [Arc::new(Named("model", "of zk")), Arc::new(Named("new", "of zk"))];
        let warnings = provide_own(&bus, &own);
        let expected = "warning: /model of the plugin tracker is not used: zk has a command of that name";
        assert_eq!(warnings, [expected]);
        let help = |name: &str| bus.item::<dyn Command>(name).unwrap().help().to_owned();
        assert_eq!((help("model"), help("issues")), ("of zk".to_owned(), "of the plugin".to_owned()));
    }

    #[test]
    fn commands_not_of_zk_may_return_a_prompt() {
        for (line, expected) in [
            ("/review src", true),
            ("/git commit", true),
            ("/etc/hosts is wrong", true),
            ("/compact", false),
            ("/skill:pdf page", false),
            ("/ review", false),
            ("!ls", false),
            ("review", false),
        ] {
            assert_eq!(makes_prompt(line), expected, "{line}");
        }
    }

    #[test]
    fn only_commands_that_do_not_change_the_run_run_beside_it() {
        for line in [
            "/cd src",
            "/help",
            "/show 3",
            "/screen plain",
            "/permissions auto",
            "/model",
            "/model opus",
            "/effort high",
            "/btw why this file?",
            "/config",
            "/jobs ",
            "/jobs tail j1",
            "/jobs kill j1",
        ] {
            assert!(is_harmless(line), "{line}");
        }
        for line in [
            "/compact",
            "/new",
            "/config edit",
            "/provider x",
            "/jobs start ls",
            "!ls",
            "help",
            "/helpless",
            "/",
        ] {
            assert!(!is_harmless(line), "{line}");
        }
    }
}
