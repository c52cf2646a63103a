use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zk_core::events::{
    AgentBeforeStart, AgentDone, BeforeStart, ContextReduced, SessionBeforeCompact, SessionBeforeFork,
    SessionBeforeSwitch, SessionBeforeTree, SessionLoaded, SessionStart, SessionSwitch, ToolAfter,
};
use zk_core::kernel::{BoxError, Cx, Plugin, Reach, Scope};
use zk_core::model::Message;
use zk_core::service::{ContextProducer, Files, PromptSection, SharedReads, Tool};

use crate::files::mentions::Mentions;
use crate::files::read_state::reader;
use crate::guidance::ToolGuidance;
use crate::options::{ASKING, Presence, WAIT};
use crate::person::Planning;
use crate::policy::ResultCaps;
use crate::shell::jobs::RunningJobs;
use crate::shell::{StayingCalls, UnaskedCalls};
use crate::{
    AskUser, Edit, Glob, Grep, Jobs, JobsTool, ListFiles, MultiEdit, NAMES, PresentPlan, ReadFile, ReadState,
    Recall, Shell, TodoRead, TodoWrite, Todos, ToolsOptions, Wait, WriteFile, todo,
};

/// Plugin that registers the built-in tools, which share one [`ReadState`]. It also cuts results of any tool
/// above 1 MB, or above 4 MB together with the others of their turn. If the bus's [`Files`] cannot search,
/// `grep` is left out.
///
/// ```
/// use zk_core::kernel::Bus;
/// use zk_core::service::Tool;
/// use zk_tools::{NAMES, ToolsOptions, ToolsPlugin};
///
/// let bus = Bus::new();
/// bus.install(&ToolsPlugin::new(ToolsOptions::default())).unwrap();
/// let names: Vec<_> = bus.items::<dyn Tool>().into_iter().map(|tool| tool.name.to_string()).collect();
/// assert_eq!(names, NAMES);
/// ```
#[derive(Debug)]
pub struct ToolsPlugin {
    options: ToolsOptions,
    state: Arc<ReadState>,
    jobs: Arc<Jobs>,
    todos: Arc<Todos>,
}

impl ToolsPlugin {
    /// Plugin with these options.
    #[must_use]
    pub fn new(options: ToolsOptions) -> Self {
        Self { options, state: Arc::default(), jobs: Arc::default(), todos: Arc::default() }
    }

    fn make_tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let (options, state) = (&self.options, self.state.clone());
        Some(match name {
            "ask_user" => Arc::new(AskUser::new()),
            "edit" => Arc::new(Edit::new(options, state)),
            "glob" => Arc::new(Glob::new(options)),
            "grep" => Arc::new(Grep::new(options)),
            "jobs" => Arc::new(JobsTool::new(options, self.jobs.clone())),
            "list_files" => Arc::new(ListFiles::new()),
            "multi_edit" => Arc::new(MultiEdit::new(options, state)),
            "present_plan" => Arc::new(PresentPlan::new()),
            "read_file" => Arc::new(ReadFile::new(options, state)),
            "recall" => Arc::new(Recall::new()),
            "shell" => {
                let shell = Shell::new(options);
                let has_jobs = names_tool(options.only.as_deref(), "jobs");
                Arc::new(if has_jobs { shell.with_jobs(self.jobs.clone()) } else { shell })
            }
            "todo_read" => Arc::new(TodoRead::new(self.todos.clone())),
            "todo_write" => Arc::new(TodoWrite::new(self.todos.clone())),
            WAIT => Arc::new(Wait::new()),
            "write_file" => Arc::new(WriteFile::new(options, state)),
            _ => return None,
        })
    }
}

/// Whether a tool is among the requested ones.
fn names_tool(only: Option<&[String]>, name: &str) -> bool {
    only.is_none_or(|only| only.iter().any(|wanted| wanted == name))
}

impl Plugin for ToolsPlugin {
    fn name(&self) -> &'static str {
        "tools"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let files = scope.bus().and_then(|bus| bus.service::<dyn Files>());
        let can_search = files.is_none_or(|files| files.can_search());
        let all: Vec<String> = NAMES.into_iter().chain([WAIT]).map(str::to_owned).collect();
        let names = self.options.only.as_deref().unwrap_or(&all).iter();
        // A host that lists tools by name gets them in any case.
        let has_person = self.options.person == Presence::Here || self.options.only.is_some();
        let answers_later = self.options.person == Presence::Later;
        let can_be_used = |name: &String| match name.as_str() {
            "grep" => can_search,
            WAIT => answers_later,
            "ask_user" => has_person || answers_later,
            name => has_person || !ASKING.contains(&name),
        };
        for name in names.filter(|name| can_be_used(name)) {
            let tool = self.make_tool(name).ok_or_else(|| {
                format!("there is no built-in tool `{name}`; there are {}", NAMES.join(", "))
            })?;
            scope.provide::<dyn Tool>(name, tool)?;
        }
        if names_tool(self.options.only.as_deref(), "read_file") {
            let (read, state) = (ReadFile::new(&self.options, self.state.clone()), self.state.clone());
            Mentions::new(read, ListFiles::new(), state).register(scope);
        }
        scope.provide_service(self.jobs.clone());
        scope.provide::<dyn ContextProducer>("jobs", Arc::new(RunningJobs(self.jobs.clone())))?;
        if has_person {
            scope.provide::<dyn ContextProducer>("plan", Arc::new(Planning))?;
        }
        scope.provide::<dyn PromptSection>("tools", Arc::new(ToolGuidance))?;
        todo::register(&self.todos, scope)?;
        self.reset_with_conversation(scope);
        let jobs = self.jobs.clone();
        scope.on_sync_at(Reach::Own, move |_: &AgentBeforeStart, _: &Cx| {
            let ends = jobs.take_ends();
            let messages = vec![Message::injected(ends.join("\n"), "jobs")];
            (!ends.is_empty()).then_some(BeforeStart { messages, system: None })
        });
        let jobs = self.jobs.clone();
        scope.on_close(async move || jobs.close().await);
        ResultCaps::register(scope);
        UnaskedCalls::watch(scope);
        StayingCalls::watch(scope);
        Ok(())
    }
}

impl ToolsPlugin {
    /// Resets the read state when earlier results leave the conversation, since "unchanged since you read it"
    /// refers to them.
    fn reset_with_conversation(&self, scope: &Scope) {
        let state = || self.state.clone();
        let reach = Reach::Descendants;
        let one = state();
        scope.on_sync_at(reach, move |_: &ContextReduced, _| one.forget_shown());
        let one = state();
        // Own agent only: a sub-agent's conversation replaces no other.
        scope.on_sync_at(Reach::Own, move |_: &SessionLoaded, _| one.forget());
        self.forget_jobs(scope);
        let one = state();
        scope.on_sync_at(reach, move |_: &SessionStart, cx: &Cx| {
            if let Some(shared) = cx.service::<SharedReads>().filter(|_| cx.origin().depth > 0) {
                one.share(reader(cx), shared.0.to_string());
            }
        });
        // A sub-agent has only one run.
        let one = state();
        scope.on_sync_at(reach, move |_: &AgentDone, cx: &Cx| {
            if cx.origin().depth > 0 {
                one.forget_reader(&reader(cx));
            }
        });
        let one = state();
        scope.on_sync_at(reach, move |after: &ToolAfter, _| {
            one.take_result(&after.call.call_id, &after.content)
        });
        let one = state();
        scope.on_sync_at(reach, move |_: &SessionBeforeCompact, _| one.forget_shown());
        let one = state();
        scope.on_sync_at(reach, move |_: &SessionBeforeSwitch, _| one.forget_shown());
        let one = state();
        scope.on_sync_at(reach, move |_: &SessionBeforeFork, _| one.forget_shown());
        let one = state();
        scope.on_sync_at(reach, move |_: &SessionBeforeTree, _| one.forget_shown());
    }
    /// Ends background jobs with their conversation: when another one replaces it, or when a run requests
    /// that. Jobs from before a conversation's first run belong to it.
    fn forget_jobs(&self, scope: &Scope) {
        let has_run = Arc::new(AtomicBool::new(false));
        let begun = has_run.clone();
        scope.on_sync_at(Reach::Own, move |_: &SessionStart, _| begun.store(true, Ordering::Relaxed));
        let (jobs, ran) = (self.jobs.clone(), has_run.clone());
        scope.on_sync_at(Reach::Own, move |switch: &SessionSwitch, _| {
            ran.store(false, Ordering::Relaxed);
            if !switch.is_same_session() {
                jobs.forget();
            }
        });
        let jobs = self.jobs.clone();
        scope.on_sync_at(Reach::Own, move |_: &SessionLoaded, _| {
            if has_run.swap(false, Ordering::Relaxed) {
                jobs.forget();
            }
        });
    }
}
