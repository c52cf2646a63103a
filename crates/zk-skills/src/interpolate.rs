//! Commands in the text of a skill, `` !`git status` ``, whose output takes their place.

use std::sync::Arc;

use serde_json::json;
use zk_core::service::{NotRun, Tool, ToolCx};

/// The most commands that a text may have.
const MAX_COMMANDS: usize = 20;

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Command(&'a str),
}

/// Runs the commands of `text` with the tool `shell`, each whole as a call of its own, and puts their outputs in their
/// places. One that does not run leaves a note that says why.
pub(crate) async fn interpolate(text: &str, cx: &ToolCx) -> String {
    let pieces = pieces(text);
    if !pieces.iter().any(|piece| matches!(piece, Piece::Command(_))) {
        return text.to_owned();
    }
    let shell = cx.cx.item::<dyn Tool>("shell");
    let mut out = String::with_capacity(text.len());
    let mut count = 0;
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Command(command) => {
                count += 1;
                let output = match &shell {
                    _ if count > MAX_COMMANDS => Err(format!("only {MAX_COMMANDS} commands of a skill run")),
                    None => Err("nothing here runs commands".to_owned()),
                    Some(shell) => run(shell, command, cx).await,
                };
                match output {
                    Ok(output) => out.push_str(output.trim_end()),
                    Err(why) => out.push_str(&format!("(`{command}` was not run: {why})")),
                }
            }
        }
    }
    out
}

async fn run(shell: &Arc<dyn Tool>, command: &str, cx: &ToolCx) -> Result<String, String> {
    let end = cx.run(shell.clone(), json!({ "command": command })).await.map_err(|why| match why {
        NotRun::Blocked { reason } | NotRun::Parked { reason } => reason,
        NotRun::Invalid { .. } | NotRun::Stopped => why.to_string(),
    });
    match end?.into_output() {
        Ok(output) => Ok(output.content.to_text()),
        // A command that fails has an output as well.
        Err(error) => Ok(error.message),
    }
}

/// Commands begin at the start of a line or after a blank, and end in the same line; those inside of fenced code are
/// examples.
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
