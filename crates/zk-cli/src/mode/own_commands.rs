//! The names of the commands of a conversation on a terminal, which mean the same wherever a prompt is given.

use std::sync::Arc;

use zk_core::kernel::Bus;
use zk_core::service::Command;

/// Names of zk's own commands: no file takes them, and without a person they are no prompts.
pub(crate) const OWN_COMMANDS: [&str; 24] = [
    "cd",
    "clear",
    "compact",
    "context",
    "copy",
    "help",
    "history",
    "jobs",
    "mcp",
    "model",
    "models",
    "new",
    "permissions",
    "provider",
    "quit",
    "reload",
    "resume",
    "screen",
    "sessions",
    "show",
    "thinking",
    "tools",
    "tree",
    "uncompact",
];

/// Provides zk's own commands, also in the place of those of plugins with the same name. Gives a warning for each of these.
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
    fn a_command_of_a_plugin_that_gives_way_to_one_of_zk_is_named() {
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
}
