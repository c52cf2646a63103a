//! Agent with a scripted model, the tools of files, the permission gate and a memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_agent::{Agent, AgentBuilder};
use zk_core::kernel::{Bus, Plugin, Scope};
use zk_core::service::{HostFiles, Redactor};
use zk_exec::{Environment, LocalHostFiles, LocalPlugin, WorkspaceFiles};
use zk_memory::{
    Fact, FactFilter, FactOrigin, FactScope, Memory, MemoryFile, MemorySettings, MemoryStore, NewFact,
};
use zk_permission::{
    Decision, Layer, Mode, PermissionGate, PermissionJudge, Rule, RuleBase, Rules, TextPathClassifier,
};
use zk_skills::ContextStreams;
use zk_testkit::{Script, ScriptedProvider};
use zk_tools::{ToolsOptions, ToolsPlugin};

pub(crate) struct Rig {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) bus: Bus,
    pub(crate) agent: Agent,
    pub(crate) provider: ScriptedProvider,
    pub(crate) store: Arc<MemoryStore>,
}

pub(crate) fn db(dir: &Path) -> PathBuf {
    dir.join("state/memory/memory.db")
}

pub(crate) fn project(dir: &Path) -> PathBuf {
    let project = dir.join("project");
    std::fs::create_dir_all(&project).unwrap();
    project.canonicalize().unwrap()
}

pub(crate) fn fact(text: &str, project: &Path) -> NewFact {
    NewFact {
        text: text.to_owned(),
        scope: FactScope::Project(project.to_owned()),
        origin: FactOrigin::Person,
        session: None,
    }
}

/// Rig whose rules allow every call of `remember`, in a permission mode.
pub(crate) fn rig(mode: Mode, script: Script) -> Rig {
    rig_in(tempfile::tempdir().unwrap(), mode, script, |_| ())
}

pub(crate) fn rig_in(
    dir: tempfile::TempDir,
    mode: Mode,
    script: Script,
    prepare: impl FnOnce(&Scope),
) -> Rig {
    rig_of(dir, mode, script, prepare, |builder| builder)
}

pub(crate) fn rig_of(
    dir: tempfile::TempDir,
    mode: Mode,
    script: Script,
    prepare: impl FnOnce(&Scope),
    build: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Rig {
    let root = project(dir.path());
    let bus = Bus::new();
    prepare(&bus.scope("test"));
    let files = WorkspaceFiles::new([root.clone()]).unwrap();
    bus.install(&LocalPlugin::new(Environment::filtered(std::env::vars_os()), files)).unwrap();
    bus.scope("host").provide_service::<dyn HostFiles>(Arc::new(LocalHostFiles::new()));
    bus.install(&ToolsPlugin::new(ToolsOptions::default())).unwrap();
    bus.install(&ContextStreams::new()).unwrap();
    let mut rules = Rules::new();
    let base = RuleBase { root: root.clone(), home: None };
    rules.push(Rule::parse(Layer::User, Decision::Allow, "tool(remember)", &base).unwrap());
    let judge = PermissionJudge::new(mode, rules, &root, Arc::new(TextPathClassifier::new([root.clone()])));
    bus.install(&PermissionGate::new(judge.modes().clone())).unwrap();
    bus.install(&judge).unwrap();
    let store = Arc::new(MemoryStore::new(db(dir.path())).with_redactor(Arc::new(Redactor::new())));
    let memory = Memory::new(store.clone(), &root, MemorySettings::default());
    let own = MemoryFile::of_person(dir.path().join("config/MEMORY.md"));
    let memory: Arc<dyn Plugin> = Arc::new(memory.with_files([own, MemoryFile::of_project(&root)]));
    bus.install(&*memory).unwrap();
    let provider = ScriptedProvider::new(script);
    let builder = Agent::builder(Arc::new(provider.clone())).bus(bus.clone()).cwd(&root);
    let agent = build(builder).build().unwrap();
    Rig { dir, bus, agent, provider, store }
}

impl Rig {
    pub(crate) async fn run(&self, prompt: &str) {
        self.agent.run(prompt).unwrap().wait().await.result.unwrap();
    }

    pub(crate) fn kept(&self) -> Vec<String> {
        texts(&self.store.list(&FactFilter::default()).unwrap())
    }

    pub(crate) fn proposed(&self) -> Vec<String> {
        texts(&self.store.list(&FactFilter { project: None, proposed: true }).unwrap())
    }
}

fn texts(facts: &[Fact]) -> Vec<String> {
    facts.iter().map(|fact| fact.text.clone()).collect()
}
