use std::io::IsTerminal as _;
use std::sync::Arc;

use zk_chat::ProviderAccess;
use zk_tui::term::print_stderr;

use super::Access;
use crate::app::{AppContext, runtime};
use crate::args::{Format, Prompt};
use crate::exit::{Exit, Failure, Outcome};
use crate::mode;

/// Question that tests a newly set-up provider.
const QUESTION: &str = "Say hello in one short sentence.";

/// Lets the person choose a provider, and asks it one question.
pub(crate) fn setup(app: &AppContext) -> Outcome<Exit> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "this asks on a terminal; without one, `zk auth login PROVIDER` reads a key from standard input and \
             `zk config set provider NAME` chooses who answers",
        ));
    }
    let access: Arc<dyn ProviderAccess> = Arc::new(Access(app.clone()));
    let is_usable = !runtime()?.block_on(access.is_missing());
    if is_usable {
        print_stderr(&format!("{} can be used as it is: Esc keeps it.", selected_provider(app)?));
    }
    let app = match zk_chat::set_up(&access, &app.work.machine.terminal())? {
        Some(_) => app.reread()?.0,
        None if is_usable => app.clone(),
        None => return Err(Failure::new(Exit::Interrupted, "nothing was chosen, and nothing is changed")),
    };
    let used = selected_provider(&app)?;
    print_stderr(&format!("Asking {used}: {QUESTION}"));
    let question = Prompt {
        goal: None,
        text: Some(QUESTION.to_owned()),
        print: true,
        format: Format::Text,
        resume: None,
        schema: None,
        verbose: false,
    };
    let exit = mode::run(&app, question)?;
    if exit == Exit::Done {
        print_stderr("zk is set up. `zk` starts a conversation, `zk doctor` looks at everything else.");
    }
    Ok(exit)
}

/// Returns the name of the selected provider.
fn selected_provider(app: &AppContext) -> Outcome<String> {
    let endpoint = runtime()?.block_on(app.endpoint())?;
    Ok(endpoint.provider.name)
}
