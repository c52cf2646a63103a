//! Text or file that is open in an editor, which has the terminal meanwhile.

use std::path::PathBuf;
use std::pin::Pin;

use zk_tui::{Input, Typed};

use crate::visits::terminal_loan::TerminalLoan;

/// Reason for which the terminal is lent: an editor with its subject, or a borrower.
pub(crate) enum EditedThing {
    /// Draft text.
    Text(String),
    /// Work that borrows the terminal.
    Loan(TerminalLoan),
    /// File of the person, which may not exist yet.
    File(PathBuf),
}

/// Open editor, with the text or file that it edits.
pub(crate) struct Edited {
    pub(crate) subject: EditedSubject,
    pub(crate) result: Pin<Box<dyn Future<Output = Result<String, String>>>>,
}

/// Text or file that an open editor edits.
#[derive(Clone)]
pub(crate) enum EditedSubject {
    /// Draft, with the text that it had before.
    Text(String),
    File,
    Loan,
}

/// Waits for the editor; returns its subject and the text after. Never returns without an editor.
pub(crate) async fn wait_for_editor(editing: Option<&mut Edited>) -> Result<(EditedSubject, String), String> {
    match editing {
        Some(Edited { subject, result }) => Ok((subject.clone(), result.await?)),
        None => std::future::pending().await,
    }
}

/// Waits for input; never returns while another reader has the terminal.
pub(crate) async fn next_input(input: Option<&mut Input>) -> Typed {
    match input {
        Some(input) => input.next().await,
        None => std::future::pending().await,
    }
}
