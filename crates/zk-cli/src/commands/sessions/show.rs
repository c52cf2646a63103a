//! `zk sessions show`: prints a session run by run, so that memory is bounded by the largest run.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use zk_core::service::{Entry, EntryKind, EntryVisitor, SessionOutline, SessionStore};
use zk_session::scan_matching;
use zk_tui::Style;
use zk_tui::plain::{Screen, lines};
use zk_tui::term::print_stderr;

use crate::app::Machine;
use crate::exit::{Failure, Outcome};
use crate::sessions::{require_id, store, store_failure};
use zk_chat::{parent_remark, tree_lines};

/// Prints a session.
pub(super) async fn show(machine: &Machine, id: &str) -> Outcome<()> {
    show_on(Screen::stdout(&machine.terminal()), &store(machine)?, require_id(id, "`zk sessions show`")?)
        .await
}

/// Lines of a session's tree.
pub(super) async fn tree(store: &dyn SessionStore, id: &str) -> Outcome<Vec<String>> {
    let nothing = || -> EntryVisitor { Box::new(|_, _| ControlFlow::Break(())) };
    let found = scan_matching(store, id, nothing).await.map_err(store_failure)?.info.id;
    let outline = Arc::<Mutex<SessionOutline>>::default();
    let scan = store.scan_tree(&found, SessionOutline::visitor(&outline)).await.map_err(store_failure)?;
    for notice in &scan.notices {
        print_stderr(&format!("zk: {notice}"));
    }
    let outline = outline.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(tree_lines(&outline))
}

pub(super) async fn show_on(screen: Screen, store: &dyn SessionStore, id: &str) -> Outcome<()> {
    let shown = Arc::new(Mutex::new(Some(Shown::new(screen))));
    let visitor = || -> EntryVisitor {
        let shown = shown.clone();
        Box::new(move |entry, _| match &mut *shown.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(shown) => shown.add_entry(entry),
            None => ControlFlow::Break(()),
        })
    };
    let scanned = scan_matching(store, id, visitor).await;
    let shown = shown.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut shown) = shown else { return Err(Failure::failed("the session was shown already")) };
    shown.print_run();
    let Shown { mut screen, entries, .. } = shown;
    let scan = match scanned {
        Ok(scan) => scan,
        Err(error) if entries == 0 => return Err(store_failure(error)),
        Err(error) => {
            screen.finish()?;
            let Failure { exit, message } = store_failure(error);
            let place =
                format!("the session is shown up to its entry number {entries}, and the rest is missing");
            return Err(Failure::new(exit, format!("{place}: {message}; show it again when that is mended")));
        }
    };
    if let Some(remark) = parent_remark(&scan.info) {
        screen.line(Style::PLAIN, &remark);
    }
    if let Some(lock) = &scan.info.lock {
        screen.line(Style::PLAIN, &format!("(open in process {})", lock.pid));
    } else if scan.info.interrupted {
        screen.line(Style::PLAIN, "(interrupted)");
    }
    screen.finish()?;
    for notice in &scan.notices {
        print_stderr(&format!("zk: {notice}"));
    }
    Ok(())
}

/// State of the printing: the run that is being read, and the screen.
struct Shown {
    screen: Screen,
    /// Session entries of the current run.
    run: Vec<Entry>,
    /// Number of entries read so far, of all runs.
    entries: usize,
}

impl Shown {
    fn new(screen: Screen) -> Self {
        Self { screen, run: Vec::new(), entries: 0 }
    }

    fn add_entry(&mut self, entry: Entry) -> ControlFlow<()> {
        if matches!(entry.kind, EntryKind::RunStart { .. }) {
            self.print_run();
        }
        self.run.push(entry);
        self.entries += 1;
        // Stops if the reader of the output is gone.
        if self.screen.is_broken() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn print_run(&mut self) {
        for block in zk_view::rebuild(&std::mem::take(&mut self.run)) {
            lines::block(&block).iter().for_each(|(style, line)| self.screen.line(*style, line));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;
    use zk_core::model::Message;
    use zk_core::service::{Durability, NewSession};
    use zk_session::MemoryStore;
    use zk_tui::TerminalEnv;
    use zk_tui::plain::{Backlog, Printed, Sink};

    use super::*;
    use crate::commands::sessions::breaking_store::BreakingStore;

    #[tokio::test]
    async fn a_session_that_cannot_be_read_to_its_end_is_shown_up_to_there() {
        let store = MemoryStore::new();
        let new = NewSession { id: Some("s_broken".into()), cwd: "/project".into(), parent: None };
        let open = store.create(new).await.unwrap();
        let says = |text| EntryKind::Message { message: Message::user_text(text).shared(), usage: None };
        let begin = EntryKind::RunStart { run_id: "r_1".into() };
        let entries = vec![begin, says("one"), says("two"), says("three")];
        open.append(entries, Durability::Process).await.unwrap();
        open.close().await.unwrap();
        let store = BreakingStore { inner: store, id: "s_broken".into(), entries: 3 };
        let (sender, mut drawn) = unbounded_channel();
        let sink = Sink { sender, backlog: Backlog::default() };
        let failure =
            show_on(Screen::drawn_by(sink, &TerminalEnv::default()), &store, "s_broken").await.unwrap_err();
        let mut text = String::new();
        while let Ok(Printed::Text(_, piece) | Printed::Words(_, piece) | Printed::Echo(piece)) =
            drawn.try_recv()
        {
            text.push_str(&piece);
        }
        assert_eq!(text, "› one\n› two\n");
        for part in ["entry number 3", "s_broken.db", "show it again"] {
            assert!(failure.message.contains(part), "{part}: {}", failure.message);
        }
    }
}
