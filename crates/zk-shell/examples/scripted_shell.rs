//! The person's shell with a scripted agent, which answers with what it was told.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a program prints and reads its environment"
)]

use std::io::{IsTerminal, stdin};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use zk_agent::Agent;
use zk_chat::{AgentFactory, ChatSetup, Interrupts, NoInterrupts};
use zk_core::kernel::{BoxError, Bus};
use zk_core::model::AgentError;
use zk_exec::LocalHostFiles;
use zk_shell::ShellOptions;
use zk_testkit::{Script, ScriptedProvider, Turn};
use zk_tui::TerminalEnv;

pub(crate) fn main() -> ExitCode {
    run_shell(|_| Ok(()))
}

/// Runs the shell; `prepare` adds to the bus of each conversation.
pub(crate) fn run_shell(prepare: fn(&Bus) -> Result<(), BoxError>) -> ExitCode {
    if !stdin().is_terminal() {
        println!("this is a shell: run it on a terminal");
        return ExitCode::SUCCESS;
    }
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let mut setup = ChatSetup::new(cwd.clone(), Arc::new(LocalHostFiles::new()));
    setup.terminal = TerminalEnv::new(|name| std::env::var_os(name));
    let factory = AgentFactory::new(setup, move |bus| {
        prepare(&bus).map_err(|error| AgentError::Usage(error.to_string()))?;
        let script =
            Script::new().forever(|asked| Turn::new().text(format!("Told: {}", asked.last_user_text())));
        Ok(Agent::builder(Arc::new(ScriptedProvider::new(script))).bus(bus).model_id("scripted").build()?)
    });
    let options = ShellOptions {
        program: std::env::args_os().nth(1).map(PathBuf::from),
        state_dirs: std::env::var_os("HOME")
            .map(|home| PathBuf::from(home).join(".zk"))
            .into_iter()
            .collect(),
        ..ShellOptions::new(std::env::vars_os().collect(), cwd)
    };
    match zk_shell::run(&options, Arc::new(factory), |_| Ok(Arc::new(NoInterrupts) as Arc<dyn Interrupts>)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
