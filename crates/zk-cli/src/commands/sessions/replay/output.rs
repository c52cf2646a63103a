use std::sync::Arc;
use std::time::Duration;

use zk_core::kernel::Bus;
use zk_core::service::Entry;
use zk_serve::print::{write_event, write_value};
use zk_tui::plain::Screen;
use zk_tui::term::{Output, WriteFailure};
use zk_view::{Patch, rebuild};

use super::super::show::show_on;
use super::{Replayed, in_memory};
use crate::app::AppContext;
use crate::exit::{Exit, Failure, Outcome};

/// Longest wait for the reader of the output; practically unlimited.
const FLUSH_LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Prints the session in lines for a person.
pub(super) async fn print_lines(app: &AppContext, replayed: &Replayed) -> Outcome<Exit> {
    let screen = Screen::stdout(&app.work.machine.terminal());
    show_on(screen, &in_memory(replayed).await?, replayed.id.as_str()).await?;
    Ok(Exit::Done)
}

/// Prints each stored event as one line of `stream-json`.
pub(super) fn print_events(app: &AppContext, entries: &[Entry]) -> Outcome<Exit> {
    let (output, redactor) = (output()?, &app.work.machine.redactor);
    let cx = Bus::new().cx();
    for event in zk_replay::replay(entries) {
        output.add(|out| write_event(event.as_event(), &cx, redactor, out));
    }
    finish(&output)
}

/// Prints each block as one patch of `--view json`.
pub(super) fn print_patches(app: &AppContext, entries: &[Entry]) -> Outcome<Exit> {
    let (output, redactor) = (output()?, &app.work.machine.redactor);
    for block in rebuild(entries) {
        output.add(|out| write_value(&Patch::Open { block: Arc::clone(&block) }, redactor, out));
    }
    finish(&output)
}

pub(super) fn output() -> Outcome<Output> {
    Output::stdout(|| ()).map_err(|error| Failure::failed(format!("cannot start: {error}")))
}

pub(super) fn finish(output: &Output) -> Outcome<Exit> {
    match output.finish(FLUSH_LIMIT) {
        None => Ok(Exit::Done),
        Some(WriteFailure::Pipe) => Ok(Exit::BrokenPipe),
        Some(WriteFailure::Failed(why)) => Err(Failure::failed(format!("cannot write the output: {why}"))),
    }
}
