use std::sync::Arc;

use super::factory::ChatFactory;
use crate::app::{AppContext, terminal};
use crate::args::actions::ShellArgs;
use crate::exit::{Exit, Explain, Failure, Outcome};
use crate::signals;
use zk_chat::Interrupts;
use zk_exec::ProgramEnv;
use zk_shell::{ShellError, ShellKind, ShellOptions};
use zk_tui::Style;
use zk_tui::plain::Screen;

/// Prints the script for the start file of a remote shell.
pub(crate) fn print_init(env: &ProgramEnv, shell: &str) -> Outcome<Exit> {
    let kind: ShellKind = shell.parse().map_err(|error| Failure::usage(format!("{error}")))?;
    let mut screen = Screen::stdout(&terminal(env));
    kind.hints().lines().for_each(|line| screen.line(Style::PLAIN, line));
    screen.finish()?;
    Ok(Exit::Done)
}

/// Runs the person's shell with the agent attached; ends with the shell's exit code.
pub(crate) fn run(app: &AppContext, args: ShellArgs) -> Outcome<Exit> {
    let machine = &app.work.machine;
    let mut settings = app.settings.shell.clone();
    if let Some(text) = args.trigger.as_deref() {
        settings.trigger = text.parse().map_err(|error| Failure::usage(format!("--trigger: {error}")))?;
    }
    let options = ShellOptions {
        program: args.shell,
        is_login: args.login,
        allows_nesting: args.nested,
        settings,
        state_dirs: machine.dirs.state.iter().cloned().chain([machine.env.runtime_dir()]).collect(),
        ..ShellOptions::new(crate::host::whole_env(), app.work.cwd.clone())
    };
    let factory = Arc::new(ChatFactory::new(app.clone(), None).keep_choices(true));
    let ended = zk_shell::run(&options, factory, |leave| {
        signals::watch(leave).map(|signals| Arc::new(signals) as Arc<dyn Interrupts>)
    });
    match ended {
        Ok(code) => Ok(Exit::OfShell(code)),
        Err(ShellError::Chat(error)) => Err(error.into()),
        Err(error) => Err(error.into()),
    }
}

impl Explain for ShellError {
    fn exit(&self) -> Exit {
        match self {
            Self::Nested { .. } | Self::NoTerminal => Exit::Usage,
            Self::Start { .. } | Self::Terminal(_) | Self::Chat(_) => Exit::Failed,
        }
    }
}
