use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::sync::mpsc;
use std::time::Duration;

use crate::term::print_stderr;

/// Longest wait for data on a pipe if there is a prompt already, since scripts often leave a pipe open by
/// accident.
const PIPE_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum number of bytes read from standard input; more does not fit any model.
const MAX_INPUT_BYTES: u64 = 8 << 20;

/// Reason why the text on standard input cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PipedInputError {
    /// Standard input cannot be read.
    #[error("cannot read standard input: {0}")]
    Unusable(#[from] std::io::Error),
    /// The thread that reads ended without a result.
    #[error("reading standard input failed")]
    Failed,
    /// The text is longer than any model takes.
    #[error(
        "standard input holds more than {} MiB; put it into a file and name the file in the prompt",
        MAX_INPUT_BYTES >> 20
    )]
    TooLong,
}

/// Returns the text on standard input, if it is a file, a pipe or a socket. With a prompt, a pipe that stays
/// silent is ignored.
///
/// # Errors
/// [`PipedInputError`] when standard input cannot be read, or holds too much.
pub fn piped_text(have_prompt: bool) -> Result<Option<String>, PipedInputError> {
    let file = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let kind = file.metadata()?.file_type();
    if !(kind.is_file() || kind.is_fifo() || kind.is_socket()) {
        return Ok(None);
    }
    let (begun, first) = mpsc::channel();
    let (done, all) = mpsc::channel();
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        // After the time limit there is no receiver any more.
        let _ = done.send(read_text(file, move || {
            let _ = begun.send(());
        }));
    })?;
    if have_prompt && matches!(first.recv_timeout(PIPE_TIMEOUT), Err(mpsc::RecvTimeoutError::Timeout)) {
        print_stderr(
            "zk: nothing comes on standard input; going on with the prompt alone (`</dev/null` avoids the wait)",
        );
        return Ok(None);
    }
    let bytes = all.recv().map_err(|_| PipedInputError::Failed)??;
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        return Err(PipedInputError::TooLong);
    }
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

fn read_text(mut file: File, on_first: impl FnOnce()) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; 64 * 1024];
    let first = loop {
        match file.read(&mut bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    on_first();
    bytes.truncate(first?);
    if !bytes.is_empty() {
        file.take(MAX_INPUT_BYTES).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
