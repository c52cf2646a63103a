use std::fs::File;
use std::io::{IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::sync::mpsc;
use std::time::Duration;

use zk_tui::term::print_stderr;

use crate::exit::{Failure, Outcome};

/// Longest wait for data on a pipe if there is a prompt already, since scripts often leave a pipe open by
/// accident.
const PIPE_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum number of bytes read from standard input; more does not fit any model.
const LIMIT: u64 = 8 << 20;

pub(crate) fn is_terminal() -> bool {
    std::io::stdin().is_terminal()
}

/// Returns the text on standard input, if it is a file, a pipe or a socket. With a prompt, a pipe that stays
/// silent is ignored.
pub(crate) fn text(have_prompt: bool) -> Outcome<Option<String>> {
    let unusable = |error: std::io::Error| Failure::usage(format!("cannot read standard input: {error}"));
    let file = File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(unusable)?);
    let kind = file.metadata().map_err(unusable)?.file_type();
    if !(kind.is_file() || kind.is_fifo() || kind.is_socket()) {
        return Ok(None);
    }
    let (begun, first) = mpsc::channel();
    let (done, all) = mpsc::channel();
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            // There is no receiver after the wait.
            let _ = done.send(read(file, move || {
                let _ = begun.send(());
            }));
        })
        .map_err(unusable)?;
    if have_prompt && matches!(first.recv_timeout(PIPE_TIMEOUT), Err(mpsc::RecvTimeoutError::Timeout)) {
        print_stderr(
            "zk: nothing comes on standard input; going on with the prompt alone (`</dev/null` avoids the wait)",
        );
        return Ok(None);
    }
    let bytes =
        all.recv().map_err(|_| Failure::failed("reading standard input failed"))?.map_err(unusable)?;
    if bytes.len() as u64 > LIMIT {
        return Err(Failure::usage(format!(
            "standard input holds more than {} MiB; put it into a file and name the file in the prompt",
            LIMIT >> 20
        )));
    }
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

fn read(mut file: File, on_first: impl FnOnce()) -> std::io::Result<Vec<u8>> {
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
        file.take(LIMIT).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Joins the prompt and the text on standard input.
pub(crate) fn join(prompt: Option<String>, input: Option<String>) -> Option<String> {
    match (prompt, input) {
        (Some(prompt), Some(input)) => Some(format!("{prompt}\n\n{input}")),
        (one, other) => one.or(other),
    }
}
