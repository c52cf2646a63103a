use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zk_core::events::{
    ContextReduced, ProviderRetry, StreamProvider, StreamStart, StreamText, StreamThinking, ToolAfter,
    ToolArgsRepaired, ToolBefore, ToolBlocked,
};
use zk_core::kernel::{Cx, HookOptions, Reach, Scope};
use zk_core::model::Stats;

use super::countdown::watch_silence;
use super::notes;
use crate::term::{Screen, Style};

/// Lines of a diff that are shown.
const DIFF: usize = 20;

/// The screen of a conversation, as several parts of it write to it.
#[derive(Clone)]
pub(crate) struct Shown {
    screen: Arc<Mutex<Screen>>,
    has_keys: bool,
}

impl Shown {
    pub(crate) fn new(screen: Screen) -> Self {
        Self { screen: Arc::new(Mutex::new(screen)), has_keys: false }
    }

    /// A screen next to which keys are read during a run, where it can show what is typed.
    pub(crate) fn with_keys(screen: Screen) -> Self {
        Self { has_keys: screen.erases(), ..Self::new(screen) }
    }

    /// Whether keys stop and hurry a run.
    pub(crate) fn has_keys(&self) -> bool {
        self.has_keys
    }

    /// Shows what happens: the answer as it streams, calls and their results in a line each.
    pub(crate) fn listen(&self, scope: &Scope) {
        let tree = || HookOptions { reach: Reach::Descendants, ..HookOptions::default() };
        watch_silence(scope, self, || false);
        let shown = self.clone();
        scope.on_sync(move |event: &StreamText, _: &Cx| shown.screen().stream(&event.delta));
        let (shown, thinking) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let begun = thinking.clone();
        scope.on_sync(move |_: &StreamStart, _: &Cx| begun.store(false, Ordering::Relaxed));
        scope.on_sync(move |_: &StreamThinking, _: &Cx| {
            if !thinking.swap(true, Ordering::Relaxed) {
                shown.line(Style::Dim, "thinking …");
            }
        });
        let shown = self.clone();
        scope.on_sync(move |event: &StreamProvider, _: &Cx| {
            if !event.text.is_empty() {
                shown.line(Style::Dim, &notes::shorten(&format!("◦ {}", event.text)));
            }
        });
        let shown = self.clone();
        scope.on_sync(move |event: &ContextReduced, _: &Cx| {
            shown.line(Style::Yellow, &notes::reduced(event));
        });
        let shown = self.clone();
        scope.on_sync(move |event: &ToolArgsRepaired, _: &Cx| {
            shown.line(Style::Dim, &notes::repaired(event));
        });
        let shown = self.clone();
        scope.on_sync_at(tree(), move |event: &ToolBefore, cx: &Cx| {
            shown.line(Style::Cyan, &format!("{}● {}", indent(cx), event.summary));
        });
        let shown = self.clone();
        scope.on_sync_at(tree(), move |event: &ToolAfter, cx: &Cx| {
            let (style, sign) = if event.is_error { (Style::Red, "✗") } else { (Style::Dim, "✓") };
            shown.line(style, &format!("{}  {sign} {}", indent(cx), notes::result(event)));
            let diff = notes::diff(event);
            for line in diff.iter().take(DIFF) {
                let style = if line.starts_with('+') { Style::Green } else { Style::Red };
                shown.line(style, &format!("{}    {line}", indent(cx)));
            }
            if diff.len() > DIFF {
                shown.line(Style::Dim, &format!("    … {} more lines", diff.len() - DIFF));
            }
        });
        let shown = self.clone();
        scope.on_sync_at(tree(), move |event: &ToolBlocked, cx: &Cx| {
            let text = format!("{}✗ {} was refused: {}", indent(cx), event.call.name, event.reason);
            shown.line(Style::Yellow, &notes::shorten(&text));
        });
        let shown = self.clone();
        scope.on_sync_at(tree(), move |event: &ProviderRetry, _: &Cx| {
            shown.retry(Style::Yellow, "", &event.retry);
        });
    }

    pub(crate) fn line(&self, style: Style, text: &str) {
        for line in text.lines() {
            self.screen().line(style, line);
        }
    }

    pub(crate) fn settle(&self) {
        self.screen().settle();
    }

    pub(crate) fn screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sub-agents stand to the right, under their name.
fn indent(cx: &Cx) -> String {
    let origin = cx.origin();
    match origin.depth {
        0 => String::new(),
        depth => format!("{}[{}] ", "  ".repeat(depth as usize), origin.agent),
    }
}

/// What a run took, in a line.
pub(crate) fn totals(stats: &Stats) -> String {
    let usage = &stats.usage;
    let turns = if stats.turns == 1 { "1 turn".to_owned() } else { format!("{} turns", stats.turns) };
    let mut text = format!("{turns} · {} in, {} out", usage.read(), usage.output);
    if let Some(cost) = stats.cost.filter(|cost| *cost > 0.0) {
        let is_all = stats.flatten().iter().all(|turn| turn.cost.is_some());
        text.push_str(&format!(" · {}${cost:.4}", if is_all { "" } else { "at least " }));
    }
    text.push_str(&format!(" · {:.1} s", stats.duration_ms as f64 / 1e3));
    text
}

#[cfg(test)]
mod tests {
    use zk_core::model::{ModelRef, Stats, TurnUsage, Usage};

    use super::totals;

    #[test]
    fn a_cost_is_shown_as_far_as_it_is_known() {
        let turn = |cost| TurnUsage {
            turn_id: "t".into(),
            model: ModelRef::new("p", "m"),
            usage: Usage { input: 3, cache_read: 4, last_read: Some(2), output: 5, ..Usage::default() },
            cost,
        };
        for (costs, expected) in [
            (&[None][..], "1 turn · 7 in, 5 out · 0.0 s"),
            (&[Some(0.25)], "1 turn · 7 in, 5 out · $0.2500 · 0.0 s"),
            (&[Some(0.25), None], "2 turns · 14 in, 10 out · at least $0.2500 · 0.0 s"),
        ] {
            let mut stats = Stats::default();
            costs.iter().for_each(|cost| stats.add_turn(turn(*cost)));
            assert_eq!(totals(&stats), expected);
        }
    }
}
