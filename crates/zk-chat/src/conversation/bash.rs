use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_core::events::{BashOutput, UserBash};
use zk_core::model::Message;
use zk_core::service::{Conversation, Exec, ExecRequest, Exit, OutputSink, OutputStream};
use zk_tools::CommandOutput;
use zk_tui::Style;
use zk_tui::plain::{Backlog, SharedScreen};
use zk_tui::term::{Utf8Decoder, redacted};

use super::chat::{Chat, LineOutcome};
use crate::opening::person_exec::PersonExec;

/// Runs a shell command of the person: the model sees the output of `!command`, not that of `!!command`.
pub(crate) async fn run(chat: &Chat, command: &str, private: bool, stop: CancellationToken) -> LineOutcome {
    if command.is_empty() {
        return LineOutcome::Done;
    }
    let cx = chat.agent.bus().cx();
    // The output is not stored in a file, which the model's tools could read.
    let mut kept = (!private).then(|| CommandOutput::new(&cx, chat.factory.setup().output_file_bytes));
    let exit_code = match cx.emit(UserBash { command: command.to_owned(), private }).await {
        Ok(Some(BashOutput { output, exit_code })) => {
            chat.screen.line(Style::PLAIN, &output);
            if let Some(kept) = &mut kept {
                kept.write(output.as_bytes());
            }
            exit_code
        }
        Ok(None) => match execute(chat, command, &mut kept, &stop).await {
            Ok(exit_code) => exit_code,
            Err(error) => return failed(chat, &error),
        },
        Err(error) => return failed(chat, &error.to_string()),
    };
    if exit_code != 0 {
        chat.screen.line(Style::RED, &format!("exit code {exit_code}"));
    }
    let Some(kept) = kept else { return LineOutcome::Done };
    let output = kept.finish();
    let text =
        format!("The user ran a command.\n$ {command}\n{}\n(exit code {exit_code})", output.trim_end());
    match chat.agent.inject(Message::injected(redacted(&text), "user:bash")) {
        Ok(()) => LineOutcome::Done,
        Err(error) => failed(chat, &error.to_string()),
    }
}

fn failed(chat: &Chat, why: &str) -> LineOutcome {
    chat.screen.line(Style::RED, why);
    LineOutcome::Failed
}

/// Writer of a command's output to the screen and for the model.
struct Shown<'a> {
    screen: SharedScreen,
    backlog: Option<Backlog>,
    decoders: [Utf8Decoder; 2],
    /// Output for the model; `None` for a private command.
    kept: &'a mut Option<CommandOutput>,
}

#[async_trait]
impl OutputSink for Shown<'_> {
    fn write(&mut self, stream: OutputStream, bytes: &[u8]) {
        let [stdout, stderr] = &mut self.decoders;
        let decoder = match stream {
            OutputStream::Stdout => stdout,
            OutputStream::Stderr => stderr,
        };
        self.screen.lock().stream(&decoder.push(bytes));
        if let Some(kept) = &mut *self.kept {
            kept.write(bytes);
        }
    }

    async fn ready(&mut self) {
        if let Some(backlog) = &self.backlog {
            backlog.room().await;
        }
    }
}

/// Runs a command and returns its exit code.
async fn execute(
    chat: &Chat,
    command: &str,
    kept: &mut Option<CommandOutput>,
    stop: &CancellationToken,
) -> Result<i32, String> {
    let bus = chat.agent.bus();
    // Limits on the model's commands do not apply to the person's own commands.
    let outside = bus.service::<PersonExec>().map(|outside| outside.0.clone());
    let exec = outside.or_else(|| bus.service::<dyn Exec>()).ok_or("nothing here can run commands")?;
    let mut shown = Shown {
        backlog: chat.screen.lock().backlog(),
        screen: chat.screen.clone(),
        decoders: Default::default(),
        kept,
    };
    let request = ExecRequest::shell(command, chat.conversation.state().cwd);
    let outcome = exec.run(request, &mut shown, stop).await.map_err(|error| error.to_string())?;
    let Shown { decoders: [stdout, stderr], .. } = shown;
    chat.screen.lock().stream(&(stdout.finish() + &stderr.finish()));
    chat.screen.end_line();
    Ok(match outcome.exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128 + signal,
        Exit::TimedOut => 124,
        Exit::Stopped => 130,
    })
}
