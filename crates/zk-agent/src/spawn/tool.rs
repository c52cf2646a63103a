use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::events::{SpawnBefore, SpawnComplete, SpawnError, ToolAfter, TurnAfter};
use zk_core::kernel::{BoxError, Cx, EmitError};
use zk_core::model::{
    AgentError, Approved, CallKind, Concurrency, Display, Effects, Model, ToolError, ToolErrorKind,
    ToolOutput, ToolSpec,
};
use zk_core::service::{
    AgentPart, CallPlace, EXPLORE_PART, PartModel, PartModels, PinnedContext, RunControl, Tool, ToolCx,
    TurnEnv, drop_section,
};

use super::{AgentDefinition, SpawnCount, SpawnOptions};
use crate::agent::AgentInner;
use crate::context::{GUIDE_SECTION, IDENTITY_SECTION};
use crate::run::{Lineage, RunLimits, concerns_model};
use crate::{Agent, Behavior, Preset, RunOptions, RunOutcome};

pub(super) const NAME: &str = "spawn";

const ABOUT: &str =
    "Delegate a task to a sub-agent with the same tools and an empty context. It returns its final answer.";

pub(super) fn spec(agents: &[AgentDefinition]) -> Arc<ToolSpec> {
    let mut schema = json!({
        "type": "object",
        "properties": {
            "task": {"type": "string", "description": "All the sub-agent needs to know"},
        },
        "required": ["task"],
    });
    if agents.is_empty() {
        return ToolSpec::new(NAME, ABOUT, schema);
    }
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        let agent = json!({"type": "string", "enum": names, "description": "One for the task, if there is"});
        properties.insert("agent".to_owned(), agent);
    }
    let lines: Vec<String> = agents.iter().map(AgentDefinition::line).collect();
    ToolSpec::new(NAME, format!("{ABOUT} Agents:\n{}", lines.join("\n")), schema)
}

pub(super) struct SpawnTool {
    pub(super) spec: Arc<ToolSpec>,
    pub(super) parent: Weak<AgentInner>,
    pub(super) options: SpawnOptions,
    pub(super) running: Arc<AtomicUsize>,
    pub(super) children: Children,
    /// Number of sub-agents started in the whole tree.
    pub(super) total: Arc<SpawnCount>,
}

/// Tasks of the running sub-agents by name, which the parent is reminded of after a compaction.
#[derive(Clone, Default)]
pub(super) struct Children(Arc<Mutex<BTreeMap<String, String>>>);

impl Children {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a running child until the returned guard is dropped.
    fn begin(&self, name: &str, task: &str) -> Child {
        self.lock().insert(name.to_owned(), task.lines().next().unwrap_or_default().to_owned());
        Child { of: self.clone(), name: name.to_owned() }
    }
}

struct Child {
    of: Children,
    name: String,
}

impl Drop for Child {
    fn drop(&mut self) {
        self.of.lock().remove(&self.name);
    }
}

/// Text that the model reads about sub-agents after a compaction, also when they are done.
const RUNNING: &str = "Sub-agents that were at work when earlier messages left this context. Of those that are done by now, what they \
     gave comes later:";

#[async_trait]
impl PinnedContext for Children {
    async fn text(&self, _: &Cx) -> Result<Option<String>, BoxError> {
        let rows: Vec<String> = self.lock().iter().map(|(name, task)| format!("- {name}: {task}")).collect();
        Ok((!rows.is_empty()).then(|| format!("{RUNNING}\n{}", rows.join("\n"))))
    }
}

/// Slot of a running sub-agent, limited by `max_concurrent`.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(running: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        running
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| (now < most).then_some(now + 1))
            .ok()
            .map(|_| Self(running.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Guard that closes a sub-agent even if the call's future is dropped.
struct Closing {
    child: Agent,
    closed: bool,
}

impl Closing {
    async fn close(mut self) {
        self.child.close().await;
        self.child.bus().close().await;
        self.closed = true;
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if !self.closed
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let child = self.child.clone();
            runtime.spawn(async move {
                child.close().await;
                child.bus().close().await;
            });
        }
    }
}

/// Stops an agent once its answers exceed `most` tokens; the returned flag says whether it did.
fn limit_output(child: &Agent, most: u64) -> Arc<AtomicBool> {
    let (cut, sum) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
    let told = cut.clone();
    child.bus().scope("spawn-limit").on_sync(move |turn: &TurnAfter, cx: &Cx| {
        let sum = sum.fetch_add(turn.usage.output, Ordering::AcqRel) + turn.usage.output;
        if sum > most
            && let Some(run) = cx.service::<dyn RunControl>()
        {
            told.store(true, Ordering::Release);
            run.abort("its output tokens are used up");
        }
    });
    cut
}

/// Counts the calls of an agent that are over.
fn count_calls(child: &Agent) -> Arc<AtomicU64> {
    let calls = Arc::new(AtomicU64::new(0));
    let counter = calls.clone();
    child.bus().scope("spawn-calls").on_sync(move |_: &ToolAfter, _: &Cx| {
        counter.fetch_add(1, Ordering::AcqRel);
    });
    calls
}

#[async_trait]
impl Tool for SpawnTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    /// Spawning has no effects by itself: the calls of the sub-agent pass the gates, its parent's too.
    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    fn starts_calls(&self) -> bool {
        true
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
        let task = call.args().get("task").and_then(Value::as_str).unwrap_or_default();
        if task.trim().is_empty() {
            return Err(ToolError::invalid(
                "`task` is empty; say what the sub-agent is to do, it knows nothing of this conversation",
            ));
        }
        let parent = self.parent.upgrade().ok_or_else(|| ToolError::failed("the parent agent is gone"))?;
        let agent = match call.args().get("agent").and_then(Value::as_str) {
            None | Some("") => None,
            Some(name) => Some(self.definition(name)?),
        };
        let depth = parent.bus.origin().depth + 1;
        if depth > self.options.max_depth {
            return Err(ToolError::new(
                ToolErrorKind::Denied,
                format!("sub-agents may be {} deep at most; do this task yourself", self.options.max_depth),
            ));
        }
        let Some(_place) = Place::take(&self.running, self.options.max_concurrent) else {
            return Err(ToolError::new(
                ToolErrorKind::Denied,
                format!(
                    "{} sub-agents are running, the limit; wait for one to finish, or do this task yourself",
                    self.options.max_concurrent
                ),
            ));
        };
        if !self.total.take(self.options.max_total) {
            return Err(ToolError::new(
                ToolErrorKind::Denied,
                format!(
                    "this session has had {} sub-agents, the limit; do this task yourself",
                    self.options.max_total
                ),
            ));
        }
        let part = agent.map_or(EXPLORE_PART, |agent| &*agent.name);
        let models = cx.cx.service::<dyn PartModels>();
        let chosen = match &models {
            Some(models) => models.choose(part, &cx.cx).await,
            None => PartModel::OfRun,
        };
        let own = own_model(chosen)?;
        let task = Task { agent, part, text: task, depth };
        let mut ended = self.delegate(&parent, &task, own.clone(), cx).await?;
        if let Some((models, model)) = models.zip(own)
            && let Err(error) = &ended.outcome.result
            && ended.outcome.stats.turns == 0
            && concerns_model(error)
        {
            // Nothing was answered yet, so that no work is done twice.
            let other = own_model(models.replace(part, &model, error, &cx.cx).await)?;
            ended = self.delegate(&parent, &task, other, cx).await?;
        }
        let Ended { name, outcome, calls, cut } = ended;
        let RunOutcome { result, text, stats, .. } = outcome;
        match result {
            Ok(()) => {
                let line = match calls.load(Ordering::Acquire) {
                    1 => "1 call".to_owned(),
                    calls => format!("{calls} calls"),
                };
                let answer = if text.is_empty() { "(the sub-agent gave no answer)".into() } else { text };
                let details =
                    json!({"child": name, "agent": agent.map(|agent| &agent.name), "turns": stats.turns});
                let output = ToolOutput::text(answer).with_display(Display::Line { text: line });
                Ok(ToolOutput { details: Some(details), ..output })
            }
            Err(_) if cut.is_some_and(|cut| cut.load(Ordering::Acquire)) => {
                let most = self.options.max_output_tokens.unwrap_or_default();
                let said = if text.is_empty() { "nothing yet".to_owned() } else { text };
                let next = "Give a smaller task, or do the rest yourself.";
                Err(ToolError::failed(format!(
                    "The sub-agent was stopped after {most} tokens of output, its limit. {next} It had said: {said}"
                )))
            }
            Err(error) => {
                let kind = if matches!(error, AgentError::Aborted) {
                    ToolErrorKind::Aborted
                } else {
                    ToolErrorKind::Failed
                };
                let partial = if text.is_empty() { String::new() } else { format!(" It had said: {text}") };
                Err(ToolError::new(kind, format!("The sub-agent did not finish: {error}.{partial}")))
            }
        }
    }
}

/// A task for a sub-agent.
struct Task<'a> {
    agent: Option<&'a AgentDefinition>,
    /// Part that the sub-agent works for.
    part: &'a str,
    text: &'a str,
    depth: u32,
}

/// A sub-agent that has ended.
struct Ended {
    name: String,
    outcome: RunOutcome,
    /// Number of its calls.
    calls: Arc<AtomicU64>,
    /// Whether it was stopped at its limit of output, if it had one.
    cut: Option<Arc<AtomicBool>>,
}

/// Returns the model of a part's own, if it has one; fails for a part that is left out.
fn own_model(chosen: PartModel) -> Result<Option<Model>, ToolError> {
    match chosen {
        PartModel::OfRun => Ok(None),
        PartModel::Own(model) => Ok(Some(*model)),
        PartModel::LeftOut(why) => Err(ToolError::failed(why)),
    }
}

impl SpawnTool {
    /// Runs a sub-agent with a model of its own, or else that of its definition or parent.
    async fn delegate(
        &self,
        parent: &Arc<AgentInner>,
        task: &Task<'_>,
        own: Option<Model>,
        cx: &ToolCx,
    ) -> Result<Ended, ToolError> {
        let name =
            format!("{}.{}", parent.bus.origin().agent, parent.sub_agents.fetch_add(1, Ordering::AcqRel) + 1);
        let child = self
            .build_child(parent, &name, task, own, cx)
            .map_err(|error| ToolError::failed(error.to_string()))?;
        let child = Closing { child, closed: false };
        let running = self.children.begin(&name, task.text);
        let calls = count_calls(&child.child);
        let cut = self.options.max_output_tokens.map(|most| limit_output(&child.child, most));
        let outcome = self.run(parent, &child.child, &name, task, cx).await;
        drop(running);
        child.close().await;
        Ok(Ended { name, outcome: outcome?, calls, cut })
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

    /// Creates a sub-agent with everything its parent has, except for an empty conversation and its
    /// definition's differences.
    fn build_child(
        &self,
        parent: &Arc<AgentInner>,
        name: &str,
        task: &Task<'_>,
        own: Option<Model>,
        cx: &ToolCx,
    ) -> Result<Agent, AgentError> {
        let agent = task.agent;
        let (model, thinking) = {
            let state = parent.state();
            (state.model.clone(), state.thinking)
        };
        let limits = cx.cx.service::<RunLimits>();
        let bus = parent.bus.child(name);
        bus.scope("part").provide_service(Arc::new(AgentPart(task.part.to_owned())));
        if agent.is_some() {
            // The definition of the sub-agent replaces these sections.
            let scope = bus.scope("definition");
            [IDENTITY_SECTION, GUIDE_SECTION].into_iter().for_each(|id| drop_section(&scope, id));
        }
        let mut child = Agent::builder(parent.provider.clone())
            .bus(bus)
            .model(self.options.model.clone().unwrap_or(model))
            .thinking(self.options.thinking.unwrap_or(thinking))
            .system(&*parent.system)
            .tools(limits.as_ref().map_or_else(|| parent.tools.clone(), |limits| limits.tools.clone()))
            .behavior(self.child_behavior(parent, limits.as_deref(), agent))
            .retry(parent.retry.clone())
            .rate_limits(parent.limits.clone())
            .cwd(&cx.cwd);
        if parent.is_unguarded {
            child = child.unguarded();
        }
        for (canonical, wire) in parent.aliases.iter() {
            child = child.alias(canonical, wire);
        }
        let of_agent = agent.and_then(|agent| agent.preset.clone());
        let of_agent = of_agent.map(|preset| Preset { system: None, tools: None, ..preset });
        if let Some(mut preset) = of_agent.or_else(|| self.options.preset.clone()) {
            if let Some(agent) = agent {
                let most = parent.behavior.max_turns.unwrap_or(u32::MAX);
                let of_preset = preset.behavior.max_turns.filter(|_| agent.max_turns.is_none());
                preset.behavior.max_turns = of_preset.map(|turns| turns.min(most));
                // Sub-agents spend their parent's budget.
                preset.behavior.budget = None;
            }
            child = child.preset(preset);
        }
        if let Some(agent) = agent {
            let tools = agent.tools_under(child.tool_set());
            child = child.system(&*agent.prompt).tools(tools);
            if let Some(thinking) = agent.thinking {
                child = child.thinking(thinking);
            }
            if let Some(model) = &agent.model {
                child = child.model(parent.provider.model(model));
            }
        }
        if let Some(model) = own {
            child = child.model(model);
        }
        let child = child.spawn(self.options.clone()).build()?;
        child.inner.state().env = cx.cx.service::<TurnEnv>().unwrap_or_default();
        Ok(child)
    }

    /// Returns the parent's behaviour with the turn limit of a sub-agent.
    fn child_behavior(
        &self,
        parent: &AgentInner,
        limits: Option<&RunLimits>,
        agent: Option<&AgentDefinition>,
    ) -> Behavior {
        let own = agent.and_then(|agent| agent.max_turns).or(self.options.max_turns);
        let max_turns = [own, parent.behavior.max_turns].into_iter().flatten().min();
        // A sub-agent spends the budget of the run that starts it, and answers its parent in free text.
        let own = Behavior { max_turns, budget: None, schema: None, ..parent.behavior.clone() };
        match limits {
            Some(limits) => Behavior {
                allowed_tools: limits.allowed_tools.clone(),
                tool_budgets: limits.tool_budgets.clone(),
                ..own
            },
            None => own,
        }
    }

    async fn run(
        &self,
        parent: &Arc<AgentInner>,
        child: &Agent,
        name: &str,
        task: &Task<'_>,
        cx: &ToolCx,
    ) -> Result<RunOutcome, ToolError> {
        let depth = task.depth;
        let before = SpawnBefore {
            child: name.to_owned(),
            depth,
            prompt: task.text.to_owned(),
            model: child.model().reference(),
        };
        cx.cx.emit(before).await.map_err(|error| match error {
            EmitError::Cancelled { .. } => ToolError::new(ToolErrorKind::Aborted, error.to_string()),
            EmitError::Hook(_) => ToolError::failed(error.to_string()),
        })?;
        let stop = cx.cx.stop_token().child_token();
        let run = child.run_under(RunOptions::from(task.text), stop, Lineage::below(&cx.cx));
        let outcome = run.map_err(|error| ToolError::failed(error.to_string()))?.wait().await;
        if let Some(run) = parent.state().current.upgrade() {
            run.stats().add_child(outcome.stats.clone());
        }
        let stats = outcome.stats.clone();
        let child = name.to_owned();
        let announced = match &outcome.result {
            Ok(()) => cx.cx.emit(SpawnComplete { child, depth, stats }).await,
            Err(error) => cx.cx.emit(SpawnError { child, depth, error: error.to_string(), stats }).await,
        };
        // The sub-agent is done, so a failing observer has no effect.
        drop(announced);
        Ok(outcome)
    }
}
