//! A text or a file that an editor has, and with it the terminal.

use std::path::PathBuf;
use std::pin::Pin;

use zk_tui::{Input, Typed};

use crate::visits::terminal_loan::TerminalLoan;

/// Subject of an editor, or of another borrower of the terminal.
pub(crate) enum EditedThing {
    /// Draft text.
    Text(String),
    /// Work that borrows the terminal.
    Loan(TerminalLoan),
    /// File of the person, which may not exist yet.
    File(PathBuf),
}

/// Open editor and its subject.
pub(crate) struct Edited {
    pub(crate) subject: EditedSubject,
    pub(crate) result: Pin<Box<dyn Future<Output = Result<String, String>>>>,
}

/// Subject of an open editor.
#[derive(Clone)]
pub(crate) enum EditedSubject {
    /// Draft, with its text before.
    Text(String),
    File,
    Loan,
}

/// Waits for the editor; returns its subject and the text after. Never returns without an editor.
pub(crate) async fn edited(editing: Option<&mut Edited>) -> Result<(EditedSubject, String), String> {
    match editing {
        Some(Edited { subject, result }) => Ok((subject.clone(), result.await?)),
        None => std::future::pending().await,
    }
}

/// Waits for input; never returns while another reader has the terminal.
pub(crate) async fn typed(input: Option<&mut Input>) -> Typed {
    match input {
        Some(input) => input.next().await,
        None => std::future::pending().await,
    }
}
