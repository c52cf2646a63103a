//! `zk sessions show`: a session in lines, run by run, so that no more than one is in memory.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use zk_core::model::Role;
use zk_core::service::{Entry, EntryKind, EntryVisitor};
use zk_session::scan_matching;

use super::sessions::parent_remark;
use crate::app::AppContext;
use crate::exit::{Failure, Outcome};
use crate::mode::lines;
use crate::sessions::{given, refused, store};
use crate::term::{Screen, Style, print_stderr};

/// Bytes of a run that is shown at once; a longer one is shown in parts, each of whole turns.
const MAX_PART_BYTES: usize = 8 << 20;

/// Prints a session.
pub(super) async fn show(app: &AppContext, id: &str) -> Outcome<()> {
    let shown = Arc::new(Mutex::new(Some(Shown::on(Screen::new(&app.env)))));
    let visitor = || -> EntryVisitor {
        let shown = shown.clone();
        Box::new(move |entry, bytes| match &mut *shown.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(shown) => shown.take(entry, bytes),
            None => ControlFlow::Break(()),
        })
    };
    let scanned = scan_matching(&store(app)?, given(id, "`zk sessions show`")?, visitor).await;
    let scan = scanned.map_err(refused)?;
    let shown = shown.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut shown) = shown else { return Err(Failure::failed("the session was shown already")) };
    shown.flush();
    let mut screen = shown.screen;
    if let Some(remark) = parent_remark(&scan.info) {
        screen.line(Style::Plain, &remark);
    }
    if let Some(lock) = &scan.info.lock {
        screen.line(Style::Plain, &format!("(open in process {})", lock.pid));
    } else if scan.info.interrupted {
        screen.line(Style::Plain, "(interrupted)");
    }
    screen.finish()?;
    for notice in &scan.notices {
        print_stderr(&format!("zk: {notice}"));
    }
    Ok(())
}

/// The part of a session that is being read, and where it is shown.
struct Shown {
    screen: Screen,
    part: Vec<Entry>,
    part_bytes: usize,
    /// Beginning of the present run, which each part of it has.
    run: Option<Entry>,
}

impl Shown {
    fn on(screen: Screen) -> Self {
        Self { screen, part: Vec::new(), part_bytes: 0, run: None }
    }

    fn take(&mut self, entry: Entry, bytes: usize) -> ControlFlow<()> {
        if matches!(entry.kind, EntryKind::RunStart { .. }) {
            self.flush();
            self.run = Some(entry.clone());
        } else if self.part_bytes > MAX_PART_BYTES && self.part.last().is_some_and(ends_turn) {
            self.flush();
            self.part.extend(self.run.clone());
        }
        self.part.push(entry);
        self.part_bytes += bytes;
        // Whoever read the output may have gone.
        if self.screen.is_broken() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn flush(&mut self) {
        let part = std::mem::take(&mut self.part);
        self.part_bytes = 0;
        for block in zk_view::rebuild(&part) {
            lines::block(&block).iter().for_each(|(style, line)| self.screen.line(*style, line));
        }
    }
}

/// Whether the results of all calls before an entry's end are stored: the next one begins a turn, or the end of the run.
fn ends_turn(entry: &Entry) -> bool {
    match &entry.kind {
        EntryKind::Message { message, .. } => message.role == Role::User || message.calls().next().is_none(),
        _ => false,
    }
}
