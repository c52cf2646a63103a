//! Hooks of refused calls, changed directories and changed files. They are only notified: their answers have no
//! effect.

use std::sync::Arc;

use serde_json::json;
use zk_core::events::{CwdChanged, FileChange, FileChanged, ToolBlocked};
use zk_core::kernel::{Answer, Cx, Handler, HookOptions, Reach, Scope};
use zk_core::service::Redactor;

use super::super::event::HookEvent;
use super::super::file_watcher::FileWatcher;
use super::super::runner::{Chosen, Runner};
use super::calls::call_fields;

pub(super) fn register(scope: &Scope, runner: &Arc<Runner>) {
    let has = |event| runner.set.hooks.iter().any(|hook| hook.event == event);
    let at = |event| HookOptions { time_limit: runner.time_limit(&[event]), ..HookOptions::default() };
    let changes = Arc::new(Changes(runner.clone()));
    if has(HookEvent::PermissionDenied) {
        let everywhere = HookOptions { reach: Some(Reach::Descendants), ..at(HookEvent::PermissionDenied) };
        scope.handle_at::<ToolBlocked, _>(everywhere, changes.clone());
    }
    if has(HookEvent::CwdChanged) {
        scope.handle_at::<CwdChanged, _>(at(HookEvent::CwdChanged), changes.clone());
    }
    if has(HookEvent::FileChanged) {
        let watched = runner.set.hooks.iter().filter(|hook| hook.event == HookEvent::FileChanged);
        let matchers = watched.map(|hook| hook.matcher.clone()).collect();
        let tell = runner.tell.clone();
        FileWatcher::of(runner.project.clone(), matchers).watch(scope, move |why| {
            tell(&format!("warning: hooks of {} do not run: {why}", HookEvent::FileChanged));
        });
        scope.handle_at::<FileChanged, _>(at(HookEvent::FileChanged), changes);
    }
}

struct Changes(Arc<Runner>);

impl Changes {
    async fn run_hooks(&self, chosen: Vec<Chosen>, fields: serde_json::Value, cx: &Cx) {
        let answered = self.0.run(chosen, cx, |_| fields.clone()).await;
        self.0.report(&answered);
    }
}

impl Handler<ToolBlocked> for Changes {
    async fn call(&self, blocked: &ToolBlocked, cx: &Cx) -> Answer<ToolBlocked> {
        let chosen = self.0.for_tool(HookEvent::PermissionDenied, &blocked.call.name);
        let redactor = cx.service::<Redactor>();
        let answered = self.0.run(chosen, cx, |names| {
            let mut fields = call_fields(names, &blocked.call, &blocked.args);
            if let Some(fields) = fields.as_object_mut() {
                fields.insert("reason".to_owned(), blocked.reason.clone().into());
            }
            if let Some(redactor) = &redactor {
                redactor.redact_value(&mut fields);
            }
            fields
        });
        self.0.report(&answered.await);
        Ok(None)
    }
}

impl Handler<CwdChanged> for Changes {
    async fn call(&self, changed: &CwdChanged, cx: &Cx) -> Answer<CwdChanged> {
        let fields = json!({"old_cwd": changed.from, "new_cwd": changed.to});
        self.run_hooks(self.0.for_any(HookEvent::CwdChanged), fields, cx).await;
        Ok(None)
    }
}

impl Handler<FileChanged> for Changes {
    async fn call(&self, changed: &FileChanged, cx: &Cx) -> Answer<FileChanged> {
        let below = changed.path.strip_prefix(&self.0.project).unwrap_or(&changed.path);
        let chosen = self.0.for_word(HookEvent::FileChanged, &below.to_string_lossy());
        let event = match changed.change {
            FileChange::Written => "change",
            FileChange::Removed => "unlink",
        };
        self.run_hooks(chosen, json!({"file_path": changed.path, "event": event}), cx).await;
        Ok(None)
    }
}
