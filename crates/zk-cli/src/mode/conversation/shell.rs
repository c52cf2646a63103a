use std::sync::Arc;

use super::factory::ChatFactory;
use crate::app::AppContext;
use crate::args::actions::ShellArgs;
use crate::exit::{Exit, Explain, Failure, Outcome};
use crate::signals;
use zk_chat::Interrupts;
use zk_shell::{CallKeys, ShellError, ShellOptions};

/// Runs the person's shell with the agent attached; ends with the shell's exit code.
pub(crate) fn run(app: &AppContext, args: ShellArgs) -> Outcome<Exit> {
    let machine = &app.work.machine;
    let usual = CallKeys::default();
    let trigger = match args.trigger.as_deref() {
        None => usual.trigger,
        Some("") => None,
        Some(text) => match text.as_bytes() {
            [byte @ b'!'..=b'~'] => Some(*byte),
            _ => return Err(Failure::usage("--trigger takes one character such as ?, or nothing for none")),
        },
    };
    let options = ShellOptions {
        program: args.shell,
        is_login: args.login,
        allows_nesting: args.nested,
        keys: CallKeys { trigger, ..usual },
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
