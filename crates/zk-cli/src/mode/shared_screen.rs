use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zk_core::events::{
    ContextReduced, ProviderRetry, StreamProvider, StreamStart, StreamText, StreamThinking, ToolAfter,
    ToolArgsRepaired, ToolBefore, ToolBlocked,
};
use zk_core::kernel::{Cx, HookOptions, Reach, Scope};

use super::status_line::watch_idle_streams;
use super::summary;
use crate::term::{Notices, Screen, Style};

/// Lines of a diff that are screen.
const DIFF: usize = 20;

/// The screen of a conversation, as several parts of it write to it.
#[derive(Clone)]
pub(crate) struct SharedScreen {
    screen: Arc<Mutex<Screen>>,
    has_keys: bool,
}

impl SharedScreen {
    pub(crate) fn new(screen: Screen) -> Self {
        Self { screen: Arc::new(Mutex::new(screen)), has_keys: false }
    }

    /// A screen next to which keys are read during a run, where it can show what is typed.
    pub(crate) fn with_keys(screen: Screen) -> Self {
        Self { has_keys: screen.erases(), ..Self::new(screen) }
    }

    /// Shows the notices of this process from now on.
    pub(crate) fn take_notices(&self, notices: &Notices) {
        let screen = self.clone();
        notices.route_to(move |text| screen.line(Style::Yellow, text));
    }

    /// Whether keys stop and stop_waiting a run.
    pub(crate) fn has_keys(&self) -> bool {
        self.has_keys
    }

    /// Shows what happens: the answer as it streams, calls and their results in a line each.
    pub(crate) fn listen(&self, scope: &Scope) {
        let tree = || HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
        watch_idle_streams(scope, self);
        let screen = self.clone();
        scope.on_sync(move |event: &StreamText, _: &Cx| screen.lock().stream(&event.delta));
        let (screen, thinking) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let begun = thinking.clone();
        scope.on_sync(move |_: &StreamStart, _: &Cx| begun.store(false, Ordering::Relaxed));
        scope.on_sync(move |_: &StreamThinking, _: &Cx| {
            if !thinking.swap(true, Ordering::Relaxed) {
                screen.line(Style::Dim, "thinking …");
            }
        });
        let screen = self.clone();
        scope.on_sync(move |event: &StreamProvider, _: &Cx| {
            if !event.text.is_empty() {
                screen.line(Style::Dim, &summary::shorten(&format!("◦ {}", event.text)));
            }
        });
        let screen = self.clone();
        scope.on_sync(move |event: &ContextReduced, _: &Cx| {
            screen.line(Style::Yellow, &summary::reduced(event));
        });
        let screen = self.clone();
        scope.on_sync(move |event: &ToolArgsRepaired, _: &Cx| {
            screen.line(Style::Dim, &summary::repaired(event));
        });
        let screen = self.clone();
        scope.on_sync_at(tree(), move |event: &ToolBefore, cx: &Cx| {
            screen.line(Style::Cyan, &format!("{}● {}", indent(cx), event.summary));
        });
        let screen = self.clone();
        scope.on_sync_at(tree(), move |event: &ToolAfter, cx: &Cx| {
            let (style, sign) = if event.is_error { (Style::Red, "✗") } else { (Style::Dim, "✓") };
            screen.line(style, &format!("{}  {sign} {}", indent(cx), summary::result(event)));
            let diff = summary::diff(event);
            for line in diff.iter().take(DIFF) {
                let style = if line.starts_with('+') { Style::Green } else { Style::Red };
                screen.line(style, &format!("{}    {line}", indent(cx)));
            }
            if diff.len() > DIFF {
                screen.line(Style::Dim, &format!("    … {} more lines", diff.len() - DIFF));
            }
        });
        let screen = self.clone();
        scope.on_sync_at(tree(), move |event: &ToolBlocked, cx: &Cx| {
            let text = format!("{}✗ {} was refused: {}", indent(cx), event.call.name, event.reason);
            screen.line(Style::Yellow, &summary::shorten(&text));
        });
        let screen = self.clone();
        scope.on_sync_at(tree(), move |event: &ProviderRetry, _: &Cx| {
            screen.retry(Style::Yellow, "", &event.retry);
        });
    }

    pub(crate) fn line(&self, style: Style, text: &str) {
        for line in text.lines() {
            self.lock().line(style, line);
        }
    }

    pub(crate) fn end_line(&self) {
        self.lock().end_line();
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Screen> {
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
