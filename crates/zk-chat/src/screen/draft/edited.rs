//! A text or a file that an editor has, and with it the terminal.

use std::path::PathBuf;
use std::pin::Pin;

use zk_tui::{Input, Typed};

/// Subject of an editor.
pub(crate) enum EditedThing {
    /// Draft text.
    Text(String),
    /// File of the person, which may not exist yet.
    File(PathBuf),
}

/// Open editor and its subject.
pub(crate) struct Edited {
    /// Text given to the editor; `None` for a file.
    pub(crate) before: Option<String>,
    pub(crate) result: Pin<Box<dyn Future<Output = Result<String, String>>>>,
}

/// Waits for the editor; returns the text before and after. Never returns without an editor.
pub(crate) async fn edited(editing: Option<&mut Edited>) -> Result<(Option<String>, String), String> {
    match editing {
        Some(Edited { before, result }) => Ok((before.clone(), result.await?)),
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
