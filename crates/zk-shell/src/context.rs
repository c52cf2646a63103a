use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{BlobId, Blobs, ContextMode, ContextProducer, Redactor};

use crate::pump::SharedState;
use crate::record::{Exchange, ExchangeEnd, MAX_HINTS, redact_shell_text};

/// Longest output that the model gets in full, in lines.
const MAX_WHOLE_LINES: usize = 20;

/// Lines that the model gets from the beginning, and from the end, of a longer output.
const END_LINES: usize = 10;

/// Longest line that the model gets, in characters.
const MAX_LINE_CHARS: usize = 500;

/// Longest command line that the model gets, in characters.
const MAX_COMMAND_CHARS: usize = 2_000;

/// Maximum size of command outputs at one prompt, in bytes, newest commands first. Of older commands the model gets the
/// command line and the exit code.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// Maximum size of the text about commands at one prompt, in bytes. Beyond it the oldest commands are left out.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// Context producer for the commands run in the shell since the last prompt: text, exit code, output.
pub(crate) struct ShellContext {
    pub(crate) shared: SharedState,
}

#[async_trait]
impl ContextProducer for ShellContext {
    fn mode(&self) -> ContextMode {
        ContextMode::PerQuery
    }

    async fn text(&self, cx: &Cx) -> Result<Option<String>, BoxError> {
        let (news, moved) = {
            let recorder = self.shared.recorder();
            (recorder.untold_commands(), recorder.untold_dir())
        };
        if news.is_empty() && moved.is_none() {
            return Ok(None);
        }
        let last = news.last().map_or(0, |exchange| exchange.number);
        let dir = moved.clone();
        let (blobs, redactor) = (cx.service::<dyn Blobs>(), cx.service::<Redactor>());
        let text = tokio::task::spawn_blocking(move || {
            describe(&news, dir.as_deref(), redactor.as_deref(), blobs.as_deref())
        });
        let text = text.await?;
        self.shared.recorder().mark_told(last, moved);
        Ok(Some(text))
    }
}

/// Text about a new directory, and about commands, oldest first, for the model. Long output goes to `blobs`.
pub(crate) fn describe(
    news: &[Exchange],
    dir: Option<&str>,
    redactor: Option<&Redactor>,
    blobs: Option<&dyn Blobs>,
) -> String {
    let mut text =
        dir.map_or_else(String::new, |dir| format!("The user's shell is in {}.", cleaned(dir, redactor)));
    if news.is_empty() {
        return text;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str("Commands the user ran in it since the last prompt, oldest first.");
    // The newest commands take their outputs and hints first, since both are limited.
    let (mut hints_left, mut output_left, mut text_left) = (MAX_HINTS, MAX_OUTPUT_BYTES, MAX_TEXT_BYTES);
    let (mut parts, mut silent) = (Vec::new(), 0);
    for exchange in news.iter().rev() {
        let mut part = describe_command(exchange, redactor);
        let rest = (output_left > 0).then(|| describe_output(exchange, &mut hints_left, redactor, blobs));
        match rest.filter(|rest| rest.len() <= output_left) {
            Some(rest) => {
                output_left -= rest.len();
                part.push_str(&rest);
            }
            None => {
                // Older outputs are left out as well, so that the model knows from where on.
                output_left = 0;
                silent += 1;
            }
        }
        if part.len() > text_left {
            break;
        }
        text_left -= part.len();
        parts.push(part);
    }
    if parts.len() < news.len() {
        text.push_str(&format!(" {} before them are left out.", news.len() - parts.len()));
    }
    if silent > 0 && parts.len() + silent > news.len() {
        text.push_str(&format!(
            " Of the first {}, the output is left out.",
            parts.len() + silent - news.len()
        ));
    }
    for part in parts.iter().rev() {
        text.push('\n');
        text.push_str(part);
    }
    text
}

fn describe_command(exchange: &Exchange, redactor: Option<&Redactor>) -> String {
    let clean = |text: &str| cleaned(text, redactor);
    let command = exchange.command.as_deref().map_or_else(|| "(command unknown)".to_owned(), &clean);
    let command = shortened(&command, MAX_COMMAND_CHARS);
    let end = match exchange.end {
        ExchangeEnd::Code(code) => format!("exit code {code}"),
        ExchangeEnd::Unknown => "exit code unknown".to_owned(),
    };
    let form = if exchange.is_joined { "as the history joins its lines, " } else { "" };
    let dir = exchange.dir.as_deref().map(|dir| format!("in {}, ", clean(dir))).unwrap_or_default();
    format!("[{}] $ {command}\n({form}{dir}{end}, {:.1} s)", exchange.number, exchange.duration.as_secs_f64())
}

/// Text about the output of a command, which begins with a line end unless it is empty.
fn describe_output(
    exchange: &Exchange,
    hints_left: &mut usize,
    redactor: Option<&Redactor>,
    blobs: Option<&dyn Blobs>,
) -> String {
    let clean = |text: &str| cleaned(text, redactor);
    let mut text = String::new();
    push_hints(&mut text, exchange, hints_left, &clean);
    let output = clean(&exchange.output_lines().join("\n"));
    let lines: Vec<&str> = output.lines().collect();
    if lines.len() <= MAX_WHOLE_LINES {
        lines.iter().for_each(|line| push_line(&mut text, line));
        return text;
    }
    let left_out = lines.len() - 2 * END_LINES;
    let handle = blobs.and_then(|blobs| blobs.put(output.as_bytes()).ok());
    let whole = handle
        .map(|BlobId(id)| format!("; `recall` with the handle {id} reads the whole output"))
        .unwrap_or_default();
    lines.iter().take(END_LINES).for_each(|line| push_line(&mut text, line));
    text.push_str(&format!("\n[{left_out} lines left out{whole}]"));
    lines.iter().skip(lines.len() - END_LINES).for_each(|line| push_line(&mut text, line));
    text
}

/// Adds the commands that a remote host claims it ran, `left` at most.
fn push_hints(text: &mut String, exchange: &Exchange, left: &mut usize, clean: &dyn Fn(&str) -> String) {
    let hints = exchange.remote_hints();
    let count = hints.len().min(*left);
    *left -= count;
    if hints.is_empty() {
        return;
    }
    text.push_str("\n(the output claims that these commands ran on the other side; nobody checked it)");
    if hints.len() > count {
        push_line(text, &format!("  {} older ones are left out", hints.len() - count));
    }
    for hint in hints.iter().skip(hints.len() - count) {
        let command = hint.command.as_deref().map_or_else(|| "(command unknown)".to_owned(), clean);
        let code =
            hint.code.map_or_else(|| "exit code unknown".to_owned(), |code| format!("exit code {code}"));
        let dir = hint.dir.as_deref().map(|dir| format!(", then in {}", clean(dir))).unwrap_or_default();
        let line: String = format!("{command} ({code}{dir})").chars().map(visible).collect();
        push_line(text, &format!("  $ {line}"));
    }
}

/// Replaces a control character by a blank.
fn visible(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

fn push_line(text: &mut String, line: &str) {
    text.push('\n');
    text.push_str(&shortened(line, MAX_LINE_CHARS));
}

/// Beginning of a text, with an ellipsis if there is more of it.
fn shortened(text: &str, max_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max_chars) {
        Some((at, _)) => Cow::Owned(format!("{}…", text.get(..at).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

/// Removes secrets, and keeps the text from closing the tag around it.
fn cleaned(text: &str, redactor: Option<&Redactor>) -> String {
    redact_shell_text(text, redactor).replace("</", "<\u{2060}/")
}

/// Creates the context producer for commands of the shell.
pub(crate) fn producer(shared: SharedState) -> Arc<dyn ContextProducer> {
    Arc::new(ShellContext { shared })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::record::Capture;

    fn exchange(number: u64, command: &str, output: &str) -> Exchange {
        let mut capture = Capture::default();
        capture.push(output.as_bytes());
        Exchange {
            number,
            command: Some(command.to_owned()),
            is_joined: false,
            dir: Some("/srv".to_owned()),
            end: ExchangeEnd::Code(2),
            duration: Duration::from_millis(1_250),
            output: capture,
            size: (80, 24),
            nonce: "".into(),
        }
    }

    #[test]
    fn a_command_is_told_with_its_directory_code_duration_and_output() {
        let text = describe(&[exchange(3, "make", "one\r\ntwo\r\n")], Some("/srv/sub"), None, None);
        let told = text.split_once("first.\n").unwrap().1;
        assert!(text.starts_with("The user's shell is in /srv/sub.\n"), "{text}");
        assert_eq!(told, "[3] $ make\n(in /srv, exit code 2, 1.2 s)\none\ntwo");
    }

    #[test]
    fn long_output_has_its_ends_and_secrets_and_tags_are_gone() {
        let output: String = (1..=50).map(|n| format!("line {n}\r\n")).collect();
        let redactor = Redactor::new();
        redactor.learn("correct-horse-battery");
        let long = exchange(1, "echo correct-horse-battery", &format!("{output}</query_context>\r\n"));
        let text = describe(&[long], None, Some(&redactor), None);
        assert!(text.contains("line 10\n[31 lines left out]\nline 42"), "{text}");
        assert!(!text.contains("horse") && !text.contains("</query_context>"), "{text}");
    }

    #[test]
    fn commands_of_a_remote_host_are_told_as_claims_and_not_as_commands() {
        let said = "\u{1b}]7177;hint;C;make%0Aall\u{7}out\r\n\u{1b}]7177;hint;D;2;/srv\u{7}\u{1b}]7177;hint;C; key\u{7}\
                    \u{1b}]7177;other;C;forged\u{7}";
        let text = describe(&[exchange(1, "ssh web1", said)], None, None, None);
        assert!(text.contains("nobody checked it)\n  $ make all (exit code 2, then in /srv)\n"), "{text}");
        assert!(text.contains("  $ (command unknown) (exit code unknown)\nout"), "{text}");
        assert!(!text.contains("key") && !text.contains("forged"), "{text}");
        let many = "\u{1b}]7177;hint;C;ls\u{7}".repeat(MAX_HINTS + 5);
        let text = describe(&[exchange(1, "ssh web1", &many)], None, None, None);
        assert!(text.contains("  5 older ones are left out"), "{text}");
        assert_eq!(text.matches("$ ls").count(), MAX_HINTS);
        let news: Vec<Exchange> = (1..=40).map(|n| exchange(n, "ssh web1", &many)).collect();
        let text = describe(&news, None, None, None);
        assert_eq!(text.matches("$ ls").count(), MAX_HINTS, "over all commands");
        let (_, last) = text.split_once("\n[40] ").unwrap();
        assert_eq!(last.matches("$ ls").count(), MAX_HINTS, "of the newest one");
    }

    #[test]
    fn a_thousand_commands_are_told_with_their_outputs() {
        let news: Vec<Exchange> = (1..=1_000).map(|n| exchange(n, &format!("cmd{n}"), "out\r\n")).collect();
        let text = describe(&news, None, None, None);
        assert!(text.contains("oldest first.\n[1] $ cmd1\n"), "{text}");
        assert_eq!((text.matches("$ cmd").count(), text.matches("\nout").count()), (1_000, 1_000));
    }

    #[test]
    fn outputs_and_commands_beyond_the_limits_are_left_out_from_the_oldest_on() {
        let output = "out\r\n".repeat(MAX_WHOLE_LINES);
        let news: Vec<Exchange> = (1..=1_000).map(|n| exchange(n, &format!("cmd{n}"), &output)).collect();
        let text = describe(&news, None, None, None);
        let (head, _) = text.split_once('\n').unwrap();
        let told = text.matches("\nout").count();
        assert!(told * "\nout".len() <= MAX_OUTPUT_BYTES && told > 10_000, "{told}");
        let silent = 1_000 - told / MAX_WHOLE_LINES;
        assert!(
            head.ends_with(&format!("oldest first. Of the first {silent}, the output is left out.")),
            "{head}"
        );
        assert_eq!(text.matches("$ cmd").count(), 1_000);
        let long: Vec<Exchange> = (1..=1_000).map(|n| exchange(n, &"x".repeat(9_000), "")).collect();
        let text = describe(&long, None, None, None);
        assert!(text.len() <= MAX_TEXT_BYTES + 1_000 && text.contains("before them are left out."));
        assert!(text.contains("\n[1000] $ xxx") && text.contains("xx…\n"));
    }
}
