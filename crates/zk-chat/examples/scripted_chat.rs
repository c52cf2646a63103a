//! A conversation on the terminal with a scripted model, which is kept nowhere.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program prints and reads its environment"
)]

use std::error::Error;
use std::io::{IsTerminal, stdin};
use std::sync::Arc;

use zk_agent::Agent;
use zk_chat::{AgentFactory, ChatSetup, ChatStart, NoInterrupts};
use zk_exec::LocalHostFiles;
use zk_testkit::{Script, ScriptedProvider, Turn};
use zk_tui::TerminalEnv;

fn main() -> Result<(), Box<dyn Error>> {
    if !stdin().is_terminal() {
        println!("this is a conversation: run it on a terminal");
        return Ok(());
    }
    let mut setup = ChatSetup::new(std::env::current_dir()?, Arc::new(LocalHostFiles::new()));
    setup.terminal = TerminalEnv::new(|name| std::env::var_os(name));
    let factory = AgentFactory::new(setup, |bus| {
        let script = Script::new().forever(|_| Turn::new().text("Hello, world."));
        let provider = Arc::new(ScriptedProvider::new(script));
        Ok(Agent::builder(provider).bus(bus).model_id("scripted").build()?)
    });
    // Without a prompt, the conversation ends once it is open.
    let prompt = std::env::args().nth(1).unwrap_or_else(|| "/quit".to_owned());
    let start = ChatStart { prompt: Some(prompt), ..ChatStart::default() };
    zk_chat::run(Arc::new(factory), start, |_| Ok(Arc::new(NoInterrupts)))?;
    Ok(())
}
