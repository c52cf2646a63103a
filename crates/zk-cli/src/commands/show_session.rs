//! `zk sessions show`: a session in lines, run by run: memory is bounded by the largest run, since what is kept of a run is
//! placed by counting from its beginning.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use zk_core::service::{Entry, EntryKind, EntryVisitor};
use zk_session::scan_matching;

use super::sessions::parent_remark;
use crate::app::AppContext;
use crate::exit::{Failure, Outcome};
use crate::mode::lines;
use crate::sessions::{given, refused, store};
use crate::term::{Screen, Style, print_stderr};

/// Prints a session.
pub(super) async fn show(app: &AppContext, id: &str) -> Outcome<()> {
    let shown = Arc::new(Mutex::new(Some(Shown::on(Screen::new(&app.env)))));
    let visitor = || -> EntryVisitor {
        let shown = shown.clone();
        Box::new(move |entry, _| match &mut *shown.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(shown) => shown.take(entry),
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

/// The run of a session that is being read, and where it is shown.
struct Shown {
    screen: Screen,
    /// Entries from the beginning of the run on.
    run: Vec<Entry>,
}

impl Shown {
    fn on(screen: Screen) -> Self {
        Self { screen, run: Vec::new() }
    }

    fn take(&mut self, entry: Entry) -> ControlFlow<()> {
        if matches!(entry.kind, EntryKind::RunStart { .. }) {
            self.flush();
        }
        self.run.push(entry);
        // Whoever read the output may have gone.
        if self.screen.is_broken() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn flush(&mut self) {
        for block in zk_view::rebuild(&std::mem::take(&mut self.run)) {
            lines::block(&block).iter().for_each(|(style, line)| self.screen.line(*style, line));
        }
    }
}
