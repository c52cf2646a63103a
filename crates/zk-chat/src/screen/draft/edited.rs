//! A text or a file that an editor has, and with it the terminal.

use std::path::PathBuf;
use std::pin::Pin;

use zk_tui::{Input, Typed};

/// Thing to give to an editor.
pub(crate) enum EditedThing {
    /// Text that is being typed.
    Text(String),
    /// A file of the person's, which need not be there yet.
    File(PathBuf),
}

/// A thing that is being edited.
pub(crate) struct Edited {
    /// Text that the editor was given; nothing where it was given a file.
    pub(crate) before: Option<String>,
    pub(crate) result: Pin<Box<dyn Future<Output = Result<String, String>>>>,
}

/// The text that an editor was given, and the one that it gives; waits for good where there is none.
pub(crate) async fn edited(editing: Option<&mut Edited>) -> Result<(Option<String>, String), String> {
    match editing {
        Some(Edited { before, result }) => Ok((before.clone(), result.await?)),
        None => std::future::pending().await,
    }
}

/// Waits for input; for good while somebody else reads it.
pub(crate) async fn typed(input: Option<&mut Input>) -> Typed {
    match input {
        Some(input) => input.next().await,
        None => std::future::pending().await,
    }
}
