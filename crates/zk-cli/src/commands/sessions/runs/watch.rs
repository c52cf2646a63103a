use std::time::{Duration, Instant};

use zk_core::model::{EntryId, SessionId};
use zk_core::service::{EngineRun, RelayPiece, RunPhase, SessionStore, StoreError, Wait};
use zk_engine::{LiveUpdate, RunWatch};
use zk_tui::Style;
use zk_tui::plain::{Screen, lines};

use super::question::question_lines;
use super::runs;
use crate::app::{AppContext, runtime};
use crate::exit::{Exit, Outcome};
use crate::sessions::store_failure;

/// Pause between two polls of a run.
const LOOK_PAUSE: Duration = Duration::from_millis(300);

/// Maximum number of characters in the row of the streamed answer.
const MAX_LIVE_CHARS: usize = 60;

/// Shows a run until it ends or waits for a person.
pub(crate) fn watch(app: &AppContext, run: &str) -> Outcome<Exit> {
    let machine = &app.work.machine;
    let runs = runs(machine)?;
    let mut screen = Screen::stdout(&machine.terminal());
    let exit = runtime()?.block_on(async {
        let mut shown = ShownSession::default();
        let mut before: Option<(RunPhase, u64)> = None;
        let mut found = runs.find(run).await?;
        let mut watch = RunWatch::new(&**runs.store(), found.job.session().clone());
        let mut live = LiveRow::default();
        loop {
            shown.show_new(&**runs.store(), found.job.session(), &mut screen).await?;
            let now = (found.phase, found.legs);
            if before.replace(now) != Some(now) {
                screen.line(Style::PLAIN, &describe(&found));
            }
            let ended = match (found.phase, &found.wait) {
                (RunPhase::Done, _) => Some(Exit::Done),
                (RunPhase::Failed | RunPhase::Cancelled, _) => Some(Exit::Failed),
                (RunPhase::Parked, Some(Wait::Answer(_) | Wait::Mail | Wait::Budget)) => Some(Exit::Denied),
                (RunPhase::Parked, Some(Wait::Until(_) | Wait::Children(_)) | None)
                | (RunPhase::Queued | RunPhase::Running, _) => None,
            };
            match ended {
                Some(exit) => {
                    question_lines(&**runs.store(), &found)
                        .await?
                        .iter()
                        .for_each(|line| screen.line(Style::PLAIN, line));
                    return Ok(exit);
                }
                None if screen.is_broken() => return Ok(Exit::BrokenPipe),
                None => live.follow(&mut watch, &mut screen).await,
            }
            found = runs.find(found.job.run().as_str()).await?;
        }
    });
    screen.finish()?;
    exit
}

/// Row below the entries with the end of the answer that is on its way. Its entry replaces it.
#[derive(Default)]
struct LiveRow {
    text: String,
    is_thinking: bool,
}

impl LiveRow {
    /// Shows pieces until it is time to look at the run.
    async fn follow(&mut self, watch: &mut RunWatch, screen: &mut Screen) {
        let end = Instant::now() + LOOK_PAUSE;
        while let LiveUpdate::Piece(piece) = watch.next(end.saturating_duration_since(Instant::now())).await {
            self.add(&piece);
            let kind = if self.is_thinking { "thinking" } else { "answer" };
            screen.show_status(&format!("({kind}: … {})", self.text.trim()));
            if Instant::now() >= end {
                break;
            }
        }
    }

    fn add(&mut self, piece: &RelayPiece) {
        if piece.number == 0 || piece.is_thinking != self.is_thinking {
            self.text.clear();
        }
        self.is_thinking = piece.is_thinking;
        self.text.extend(piece.text.chars().map(|char| if char.is_whitespace() { ' ' } else { char }));
        let excess = self.text.chars().count().saturating_sub(MAX_LIVE_CHARS);
        if let Some((cut, _)) = self.text.char_indices().nth(excess).filter(|_| excess > 0) {
            let begin =
                self.text.get(cut..).and_then(|rest| rest.find(' ')).map_or(cut, |space| cut + space + 1);
            self.text.drain(..begin);
        }
    }
}

fn describe(run: &EngineRun) -> String {
    let id = run.job.run();
    let more = match (&run.phase, &run.worker, &run.wait, &run.failure) {
        (RunPhase::Running, Some(worker), ..) => format!(", leg {} on {worker}", run.legs),
        (RunPhase::Parked, _, Some(wait), _) => format!(": it waits for {wait}"),
        (RunPhase::Failed, _, _, Some(failure)) => format!(": {failure}"),
        _ => String::new(),
    };
    format!("({id} is {}{more})", run.phase)
}

/// Shown part of a session: the blocks printed so far.
#[derive(Default)]
struct ShownSession {
    last: Option<EntryId>,
    blocks: usize,
}

impl ShownSession {
    /// Prints the blocks that were added since the last call.
    async fn show_new(
        &mut self,
        store: &dyn SessionStore,
        session: &SessionId,
        screen: &mut Screen,
    ) -> Outcome<()> {
        let last = match store.last_entries(session, 1).await {
            Ok(entries) => entries.into_iter().next().map(|entry| entry.id),
            // The session of a scheduled run exists once its first leg begins.
            Err(StoreError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(store_failure(error)),
        };
        if last == self.last {
            return Ok(());
        }
        self.last = last;
        let blocks = zk_view::rebuild(&store.read(session).await.map_err(store_failure)?.entries);
        for block in blocks.iter().skip(self.blocks) {
            lines::block(block).iter().for_each(|(style, line)| screen.line(*style, line));
        }
        self.blocks = self.blocks.max(blocks.len());
        Ok(())
    }
}
