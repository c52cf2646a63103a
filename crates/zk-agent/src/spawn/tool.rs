use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zk_core::events::SpawnBefore;
use zk_core::kernel::EmitError;
use zk_core::model::{
    Approved, CallKind, Concurrency, Display, Effects, ToolError, ToolErrorKind, ToolOutput, ToolSpec,
};
use zk_core::service::{CallPlace, EXPLORE_PART, IsolatedCopy, Isolation, Tool, ToolCx};

use super::child::{ChildPlan, Closing};
use super::handed::HandedContext;
use super::launch::{EndGuard, Launch};
use super::limits::{Place, SpawnCount, count_calls, limit_output};
use super::own_model::{OwnModel, Rerun};
use super::run_child::run_starter;
use super::subagents::{Beginning, Subagents};
use super::{AgentDefinition, IsolationKind, SpawnOptions, agents_tool, record};
use crate::RunOptions;
use crate::agent::AgentInner;
use crate::run::Lineage;

pub(super) const NAME: &str = "spawn";

const ABOUT: &str =
    "Delegate a task to a sub-agent with the same tools and an empty context. It returns its final answer.";

/// Arguments of the tool `spawn`.
#[derive(Debug, Deserialize)]
pub(super) struct Args {
    #[serde(default)]
    pub(super) task: String,
    pub(super) agent: Option<String>,
    #[serde(default)]
    pub(super) background: bool,
    #[serde(default)]
    pub(super) context: HandedContext,
    pub(super) turns: Option<u32>,
    pub(super) isolation: Option<IsolationKind>,
}

/// Background of sub-agents, as the model is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Background {
    /// Sub-agents work within their call.
    None,
    /// Sub-agents work in this process.
    InProcess,
    /// Sub-agents are runs of their own.
    AsRuns,
}

impl Background {
    /// Returns the background that an agent offers at a depth of the tree. In a leg, the first agent alone starts runs of
    /// their own.
    pub(super) fn choose(is_on: bool, is_leg: bool, depth: u32) -> Self {
        match (is_on, is_leg) {
            (true, true) if depth == 0 => Self::AsRuns,
            (true, false) => Self::InProcess,
            (true, true) | (false, _) => Self::None,
        }
    }

    fn description(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::InProcess => {
                Some("Go on meanwhile: gives a name for the tool `agents`, and you are told of its end once")
            }
            Self::AsRuns => Some(
                "Go on meanwhile: starts a run of its own, without other arguments than `task`, `context` and `turns`, and you \
                 are told its result once",
            ),
        }
    }
}

pub(super) fn spec(options: &SpawnOptions, has_isolation: bool, background: Background) -> Arc<ToolSpec> {
    let agents = &options.agents;
    let mut properties = serde_json::Map::new();
    let mut add = |name: &str, schema: Value| _ = properties.insert(name.to_owned(), schema);
    add("task", json!({"type": "string", "description": "All the sub-agent needs to know"}));
    if !agents.is_empty() {
        let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
        add(
            "agent",
            json!({"type": "string", "enum": names, "description": "One for the task, if there is"}),
        );
    }
    if let Some(about) = background.description() {
        add("background", json!({"type": "boolean", "description": about}));
    }
    if options.background {
        let about = "What it begins with of this conversation: nothing (default), your last answer, or your last turns";
        let names = ["none", "last_answer", "last_turns"];
        add("context", json!({"type": "string", "enum": names, "description": about}));
        let about = "Number of turns for `last_turns`, default 1";
        let most = super::handed::MAX_HANDED_TURNS;
        add("turns", json!({"type": "integer", "minimum": 1, "maximum": most, "description": about}));
    }
    if has_isolation {
        let about = "`worktree`: it writes to a copy of the project, and its changes come back as one patch";
        add("isolation", json!({"type": "string", "enum": ["worktree"], "description": about}));
    }
    let schema = json!({"type": "object", "properties": properties, "required": ["task"]});
    if agents.is_empty() {
        return ToolSpec::new(NAME, ABOUT, schema);
    }
    let lines: Vec<String> = agents.iter().map(AgentDefinition::line).collect();
    ToolSpec::new(NAME, format!("{ABOUT} Agents:\n{}", lines.join("\n")), schema)
}

pub(super) struct SpawnTool {
    pub(super) spec: Arc<ToolSpec>,
    pub(super) parent: Weak<AgentInner>,
    pub(super) options: SpawnOptions,
    pub(super) running: Arc<AtomicUsize>,
    pub(super) subagents: Arc<Subagents>,
    /// Number of sub-agents started in the whole tree.
    pub(super) total: Arc<SpawnCount>,
}

#[async_trait]
impl Tool for SpawnTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    /// The tool has no effects itself: the calls of the sub-agent pass the gates, including those of its
    /// parent.
    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    fn starts_calls(&self) -> bool {
        true
    }

    /// A sub-agent in the background of a leg is a run whose id comes from its call, so that the call starts it once.
    fn idempotency(&self, args: &Value) -> Option<String> {
        args.get("background").and_then(Value::as_bool).unwrap_or(false).then(|| NAME.to_owned())
    }

    fn kind(&self) -> Option<CallKind> {
        Some(CallKind::Delegate)
    }

    fn summary(&self, args: &Value) -> String {
        let text = |key: &str| args.get(key).and_then(Value::as_str).unwrap_or_default();
        let task = text("task").trim().lines().next().unwrap_or_default();
        match text("agent") {
            "" if task.is_empty() => NAME.to_owned(),
            "" => task.to_owned(),
            agent => format!("{agent}: {task}"),
        }
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args: Args = call.parse()?;
        let background = args.background;
        self.check_task(&args)?;
        if background && let Some(runs) = run_starter(cx)? {
            return self.start_run(&*runs, args, cx).await;
        }
        let launch = self.prepare_launch(args, cx).await?;
        if !background {
            return match launch.copy {
                Some(_) => launch.finish_beyond_call().await,
                None => launch.run_to_end().await,
            };
        }
        let name = launch.ended.handle.name.clone();
        self.subagents.tasks.spawn(launch.finish_in_background());
        let text = format!(
            "{name} works in the background. You are told once when it ends; `{}` follows it.",
            agents_tool::NAME
        );
        let details = json!({"child": name, "background": true});
        let line = Display::Line { text: format!("{name} in the background") };
        Ok(ToolOutput { details: Some(details), ..ToolOutput::text(text).with_display(line) })
    }
}

impl SpawnTool {
    fn check_task(&self, args: &Args) -> Result<(), ToolError> {
        if args.task.trim().is_empty() {
            return Err(ToolError::invalid(
                "`task` is empty; say what the sub-agent is to do, it knows nothing of this conversation",
            ));
        }
        if args.background && !self.options.background {
            return Err(ToolError::invalid("sub-agents do not work in the background here"));
        }
        Ok(())
    }

    /// Creates the sub-agent for a call, and its run, which has not begun.
    async fn prepare_launch(&self, args: Args, cx: &ToolCx) -> Result<Launch, ToolError> {
        let Args { task, agent, background, context, turns, isolation } = args;
        let parent = self.parent.upgrade().ok_or_else(|| ToolError::failed("the parent agent is gone"))?;
        let definition = match agent.as_deref() {
            None | Some("") => None,
            Some(name) => Some(self.definition(name)?),
        };
        let depth = parent.bus.origin().depth + 1;
        let place = self.take_slot(depth)?;
        let (history, parent_context) = {
            let state = parent.state();
            (state.history.clone(), state.context.clone())
        };
        let history = context.messages(&history, turns)?;
        let part = definition.map_or(EXPLORE_PART, |definition| &*definition.name);
        let own = OwnModel::choose_for_part(part, &cx.cx).await?;
        let name =
            format!("{}.{}", parent.bus.origin().agent, parent.sub_agents.fetch_add(1, Ordering::AcqRel) + 1);
        let copy = match isolation.or_else(|| definition.and_then(|definition| definition.isolation)) {
            None => None,
            Some(IsolationKind::Worktree) => Some(isolate(&name, cx).await?),
        };
        let plan = ChildPlan { options: &self.options, definition, part, history, copy: copy.as_deref() };
        let child = plan.build(&parent, &name, cx).map_err(|error| ToolError::failed(error.to_string()))?;
        let child = Closing::new(child);
        let before = SpawnBefore {
            child: name.clone(),
            call_id: cx.call_id.clone(),
            depth,
            prompt: task.clone(),
            model: own.as_ref().map_or_else(|| child.child.model(), |own| own.model.clone()).reference(),
            background,
        };
        if background {
            record::record_begin(&parent, &name, &task).await?;
        }
        if let Err(error) = cx.cx.emit(before).await {
            if background {
                record::record_told(&parent, &name).await;
            }
            return Err(match error {
                EmitError::Cancelled { .. } => ToolError::new(ToolErrorKind::Aborted, error.to_string()),
                EmitError::Hook(_) => ToolError::failed(error.to_string()),
            });
        }
        // A background sub-agent outlives the run that started it, but not its agent.
        let (stop, cx_of_end) = if background {
            let cx = parent.bus.cx().for_run(cx.cx.run_id(), CancellationToken::new());
            (parent.token.child_token(), cx)
        } else {
            (cx.cx.stop_token().child_token(), cx.cx.clone())
        };
        let calls = count_calls(&child.child);
        let most = self.options.max_output_tokens;
        let cut = most.map(|most| (limit_output(&child.child, most), most));
        let reads_mail = self.options.background && child.child.inner.tools.has(agents_tool::NAME);
        let (options, lineage) = (RunOptions::from(task.as_str()), Lineage::of_child_run(&cx.cx));
        let (options, rerun) = match own {
            None => (options, None),
            Some(own) => {
                let options = options.model(own.model.clone());
                let (task, stop, lineage) = (task.clone(), stop.clone(), lineage.clone());
                (options, Some(Rerun { own, task, stop, lineage }))
            }
        };
        let run = child.child.run_with_lineage(options, stop, lineage);
        let run = run.map_err(|error| ToolError::failed(error.to_string()))?;
        let handle = self.subagents.register(Beginning {
            name,
            parent: parent.bus.origin().agent.to_string(),
            depth,
            definition: definition.map(|definition| definition.name.clone()),
            task,
            is_background: background,
            reads_mail,
        });
        if let Some(run) = child.child.inner.state().current.upgrade() {
            handle.set_run(&run);
        }
        Ok(Launch {
            parent: self.parent.clone(),
            context: parent_context,
            child,
            run,
            rerun,
            ended: EndGuard { subagents: self.subagents.clone(), handle },
            cx: cx_of_end,
            calls,
            cut,
            copy,
            place,
        })
    }

    /// Takes one of the slots for running sub-agents, unless a limit is reached.
    fn take_slot(&self, depth: u32) -> Result<Place, ToolError> {
        let denied = |why: String| Err(ToolError::new(ToolErrorKind::Denied, why));
        let SpawnOptions { max_depth, max_concurrent, max_total, .. } = self.options;
        if depth > max_depth {
            return denied(format!("sub-agents may be {max_depth} deep at most; do this task yourself"));
        }
        let Some(place) = Place::take_slot(&self.running, max_concurrent) else {
            return denied(format!(
                "{max_concurrent} sub-agents are running, the limit; wait for one to finish, or do this task yourself"
            ));
        };
        if !self.total.count_one_more(max_total) {
            return denied(format!(
                "this session has had {max_total} sub-agents, the limit; do this task yourself"
            ));
        }
        Ok(place)
    }

    /// Returns the definition of a named agent.
    fn definition(&self, name: &str) -> Result<&AgentDefinition, ToolError> {
        self.options.agents.iter().find(|agent| agent.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.options.agents.iter().map(|agent| agent.name.as_str()).collect();
            let known =
                if names.is_empty() { "there is none with a name".to_owned() } else { names.join(", ") };
            ToolError::new(ToolErrorKind::NotFound, format!("there is no agent `{name}`; known: {known}"))
        })
    }
}

/// Creates the copy of the workspace that a sub-agent works in.
async fn isolate(name: &str, cx: &ToolCx) -> Result<Arc<dyn IsolatedCopy>, ToolError> {
    let isolation = cx.cx.service::<dyn Isolation>().ok_or_else(|| {
        ToolError::failed("there are no copies of the workspace here; delegate without `isolation`")
    })?;
    tokio::select! {
        copy = isolation.isolate(name, &cx.cwd, &cx.cx) => {
            copy.map_err(|error| ToolError::failed(format!("no copy of the workspace was made: {error}")))
        }
        () = cx.cx.stop_token().cancelled() => {
            Err(ToolError::new(ToolErrorKind::Aborted, "stopped while the workspace was copied"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_background_of_a_leg_is_a_run_that_its_first_agent_starts() {
        let options = SpawnOptions { background: true, ..SpawnOptions::default() };
        for (is_leg, depth, has) in [
            (false, 0, Some("a name for the tool `agents`")),
            (false, 1, Some("a name for the tool `agents`")),
            (true, 0, Some("a run of its own")),
            (true, 1, None),
        ] {
            let spec = spec(&options, true, Background::choose(options.background, is_leg, depth));
            let about = spec.schema.pointer("/properties/background/description").and_then(Value::as_str);
            assert_eq!(about.is_some(), has.is_some(), "{is_leg} {depth}: {about:?}");
            assert!(
                about.zip(has).is_none_or(|(about, has)| about.contains(has)),
                "{is_leg} {depth}: {about:?}"
            );
        }
        assert_eq!(Background::choose(false, true, 0), Background::None);
    }
}
