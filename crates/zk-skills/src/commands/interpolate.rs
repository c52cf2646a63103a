//! Commands in the text of a skill, `` !`git status` ``, which are replaced by their output.

use std::sync::Arc;

use serde_json::json;
use zk_core::service::{NotRun, Tool, ToolCx};

use crate::commands::arguments::Arguments;

/// Maximum number of commands in one text.
const MAX_COMMANDS: usize = 20;

/// Part of a text.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Command(&'a str),
}

/// Runs the commands of `text`, each as a separate call of the tool `shell`, and inserts their outputs and
/// `arguments`. A command that does not run is replaced by a note with the reason.
///
/// Only commands of the text itself run: arguments and outputs are inserted as text, and quoted inside of
/// commands. Also returns whether there was a placeholder for arguments.
pub(crate) async fn interpolate(text: &str, arguments: &Arguments<'_>, cx: &ToolCx) -> (String, bool) {
    let shell = cx.cx.item::<dyn Tool>("shell");
    let mut out = String::with_capacity(text.len());
    let (mut count, mut placed) = (0, false);
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => {
                let (text, used) = arguments.substitute(text);
                placed |= used;
                out.push_str(&text);
            }
            Piece::Command(command) => {
                count += 1;
                let given = arguments.substitute_quoted(command);
                placed |= given.as_ref().map_or(true, |(_, used)| *used);
                let (command, output) = match (given, &shell) {
                    (Err(why), _) => (command.to_owned(), Err(why.to_string())),
                    (Ok((command, _)), _) if count > MAX_COMMANDS => {
                        (command, Err(format!("only {MAX_COMMANDS} commands of a text run")))
                    }
                    (Ok((command, _)), None) => (command, Err("nothing here runs commands".to_owned())),
                    (Ok((command, _)), Some(shell)) => {
                        let output = run_command(shell, &command, cx).await;
                        (command, output)
                    }
                };
                match output {
                    Ok(output) => out.push_str(output.trim_end()),
                    Err(why) => out.push_str(&format!("(`{command}` was not run: {why})")),
                }
            }
        }
    }
    (out, placed)
}

async fn run_command(shell: &Arc<dyn Tool>, command: &str, cx: &ToolCx) -> Result<String, String> {
    let end = cx.run(shell.clone(), json!({ "command": command })).await.map_err(|why| match why {
        NotRun::Blocked { reason } | NotRun::Parked { reason, .. } => reason,
        NotRun::Invalid { .. } | NotRun::Stopped => why.to_string(),
    });
    match end?.into_output() {
        Ok(output) => Ok(output.content.to_text()),
        // A failed command has an output as well.
        Err(error) => Ok(error.message),
    }
}

/// Splits a text at its commands. They begin at the start of a line or after a blank, and end on the same
/// line; fenced code is left unchanged.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut is_code = false;
    let (mut begun, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let mut from = 0;
        while !is_code && let Some(found) = line.get(from..).and_then(|rest| rest.find("!`")) {
            let sign = from + found;
            let after = sign + 2;
            let opens = line
                .get(..sign)
                .is_none_or(|before| before.is_empty() || before.ends_with(char::is_whitespace));
            let length = line.get(after..).and_then(|rest| rest.find('`'));
            match length.filter(|length| opens && *length > 0) {
                Some(length) => {
                    pieces.extend(text.get(begun..at + sign).map(Piece::Text));
                    pieces.extend(line.get(after..after + length).map(Piece::Command));
                    from = after + length + 1;
                    begun = at + from;
                }
                None => from = after,
            }
        }
        at += line.len();
    }
    pieces.extend(text.get(begun..).map(Piece::Text));
    pieces.retain(|piece| *piece != Piece::Text(""));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_outside_of_code_only() {
        let text = "State: !`git status` and !`date`\n```\n!`not this`\n```\nnor`!`x`, wow!`y`\n!`last`";
        let commands: Vec<&str> = pieces(text)
            .into_iter()
            .filter_map(|piece| match piece {
                Piece::Command(command) => Some(command),
                Piece::Text(_) => None,
            })
            .collect();
        assert_eq!(commands, ["git status", "date", "last"]);
        let whole: String = pieces(text)
            .into_iter()
            .map(|piece| match piece {
                Piece::Command(command) => format!("!`{command}`"),
                Piece::Text(text) => text.to_owned(),
            })
            .collect();
        assert_eq!(whole, text);
    }
}
