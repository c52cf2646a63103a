use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{ArgumentChoice, Command, CommandOutcome, Redactor};

use crate::context::describe;
use crate::pump::SharedState;
use crate::record::CaptureState;

/// Command `/shell`: shows and clears the recorded commands, and switches recording off and on.
pub(crate) struct ShellCommand {
    pub(crate) shared: SharedState,
}

#[async_trait]
impl Command for ShellCommand {
    fn name(&self) -> &'static str {
        "shell"
    }

    fn help(&self) -> &'static str {
        "show what the model would be told of your shell; /shell forget removes it, /shell off and on stop and start recording"
    }

    async fn complete(&self, _: &str, _: &Cx) -> Vec<ArgumentChoice> {
        vec![
            ArgumentChoice::new("forget", "remove what is recorded"),
            ArgumentChoice::new("off", "record nothing from now on"),
            ArgumentChoice::new("on", "record again"),
        ]
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let mut recorder = self.shared.recorder();
        Ok(CommandOutcome::Show(match args {
            "" => {
                let news = recorder.untold_commands();
                let (state, dir) = (recorder.state(), recorder.untold_dir());
                drop(recorder);
                match (news.is_empty() && dir.is_none(), state) {
                    (_, CaptureState::Off) => "nothing is recorded: /shell on records again".to_owned(),
                    (true, CaptureState::On) => "nothing new: the model would be told nothing".to_owned(),
                    (false, CaptureState::On) => {
                        describe(&news, dir.as_deref(), cx.service::<Redactor>().as_deref(), None)
                    }
                }
            }
            "forget" => format!("{} commands were forgotten", recorder.forget_commands()),
            "off" => {
                recorder.set_state(CaptureState::Off);
                "nothing of the shell is recorded from now on, and what was recorded is forgotten".to_owned()
            }
            "on" => {
                recorder.set_state(CaptureState::On);
                "the next commands are recorded".to_owned()
            }
            other => return Err(format!("/shell knows forget, off and on, not {other}").into()),
        }))
    }
}

/// Creates the command `/shell`.
pub(crate) fn command(shared: SharedState) -> Arc<dyn Command> {
    Arc::new(ShellCommand { shared })
}
