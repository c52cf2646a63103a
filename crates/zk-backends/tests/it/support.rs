//! A conversation with a scripted agent in a process of its own, with a gate, a view and a person.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_agent::{Agent, Run, RunOutcome};
use zk_backends::settings::BackendSettings;
use zk_backends::{AcpBackend, AgentExecs, BackendDefinition, BackendsPlugin};
use zk_core::kernel::{Bus, plugin_fn};
use zk_core::service::{
    Backend, NewSession, OpenSession, PendingQuestion, Question, Questions, SessionStore, Ui, UiAnswer,
};
use zk_exec::{Environment, LocalPlugin, ProcessExec, WorkspaceFiles};
use zk_permission::{Mode, PermissionGate};
use zk_session::{MemoryStore, resume_conversation};
use zk_tui::Transcript;
use zk_view::{Patch, View, ViewDriver};

/// Longest wait for anything, so that a fault ends the test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Rig {
    pub(crate) agent: Agent,
    pub(crate) bus: Bus,
    pub(crate) view: ViewDriver,
    pub(crate) questions: Questions,
    pub(crate) session: Arc<dyn OpenSession>,
    pub(crate) dir: Arc<tempfile::TempDir>,
    pub(crate) backend: Arc<AcpBackend>,
    pub(crate) told: Arc<Mutex<Vec<String>>>,
    patches: Patches,
}

/// Patches of a view as they came.
pub(crate) type Patches = Arc<Mutex<Vec<Patch>>>;

struct Told(Arc<Mutex<Vec<String>>>);

impl Ui for Told {
    fn notify(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

pub(crate) fn project() -> Arc<tempfile::TempDir> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("cart.py"), "a = 1\nb = 2\nc = 3\n").unwrap();
    Arc::new(dir)
}

pub(crate) fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/agent.py")
}

pub(crate) fn environment() -> Environment {
    Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin")])
}

pub(crate) fn backend(dir: &Path, env: &[(&str, &str)]) -> Arc<AcpBackend> {
    let mut settings = BackendSettings {
        acp: vec!["python3".to_owned(), script().display().to_string()],
        ..BackendSettings::default()
    };
    settings.env.insert("AGENT_STORE".to_owned(), dir.join("agent.log").display().to_string());
    settings.env.extend(env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let definition = BackendDefinition::read("tester", &settings, &|_| None).unwrap();
    let plain = Arc::new(ProcessExec::new(environment()));
    Arc::new(AcpBackend::new(definition, AgentExecs { plain, sandbox: None }))
}

pub(crate) async fn rig(env: &[(&str, &str)]) -> Rig {
    let new = NewSession { id: None, cwd: "/".into(), parent: None };
    let session = MemoryStore::new().create(new).await.unwrap();
    rig_in(project(), session, env, Mode::Ask).await
}

pub(crate) async fn rig_in(
    dir: Arc<tempfile::TempDir>,
    session: Arc<dyn OpenSession>,
    env: &[(&str, &str)],
    mode: Mode,
) -> Rig {
    let questions = Questions::new();
    let view = ViewDriver::answering(&questions);
    let bus = Bus::new();
    let files = WorkspaceFiles::new([dir.path()]).unwrap();
    bus.install(&LocalPlugin::new(environment(), files)).unwrap();
    bus.install(&view).unwrap();
    bus.install(&PermissionGate::new(mode)).unwrap();
    let backend = backend(dir.path(), env);
    bus.install(&BackendsPlugin::new(vec![backend.clone()])).unwrap();
    let told = Arc::<Mutex<Vec<String>>>::default();
    let (ui, asking) = (told.clone(), questions.clone());
    bus.install(&plugin_fn("person", move |scope| {
        scope.provide_service::<dyn Ui>(Arc::new(Told(ui.clone())));
        scope.provide_service(Arc::new(asking.clone()));
        Ok(())
    }))
    .unwrap();
    let provider = backend.provider().unwrap();
    let stored = resume_conversation(session.clone()).await.unwrap();
    let builder =
        Agent::builder(provider).bus(bus.clone()).model_id("default").cwd(dir.path()).resume(stored);
    let patches = patches_of(&view);
    let agent = builder.build().unwrap();
    Rig { agent, bus, view, questions, session, dir, backend, told, patches }
}

impl Rig {
    pub(crate) fn start(&self, prompt: &str) -> Run {
        let mut run = self.agent.run(prompt).unwrap();
        run.start();
        run
    }

    pub(crate) async fn run(&self, prompt: &str) -> RunOutcome {
        tokio::time::timeout(PATIENCE, self.start(prompt).wait()).await.unwrap()
    }

    /// Runs a prompt during which a person answers the next question.
    pub(crate) async fn run_answering(
        &self,
        prompt: &str,
        answer: UiAnswer,
    ) -> (RunOutcome, Arc<PendingQuestion>) {
        let run = self.run(prompt);
        let answering = async {
            let front_end = self.questions.attach();
            let asked = tokio::time::timeout(PATIENCE, front_end.next()).await.unwrap();
            front_end.answer(asked.id, asked.digest, answer).unwrap();
            asked
        };
        tokio::join!(run, answering)
    }

    /// Lines that the agent kept of what it was sent.
    pub(crate) fn log(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.dir.path().join("agent.log")).unwrap_or_default();
        log.lines().map(ToOwned::to_owned).collect()
    }

    /// Waits until the view shows a text.
    pub(crate) async fn shows(&self, text: &str) {
        let mut reader = self.view.reader();
        let has = || format!("{:?}", self.view.view().blocks).contains(text);
        let waiting = async { while !has() && reader.next().await.is_some() {} };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    }

    pub(crate) async fn drawn(&self) -> Vec<String> {
        drawn(&self.view, &self.patches).await
    }

    pub(crate) async fn close(self) {
        self.agent.close().await;
        self.bus.close().await;
    }
}

pub(crate) fn patches_of(view: &ViewDriver) -> Patches {
    let (mut reader, patches) = (view.reader(), Patches::default());
    let kept = patches.clone();
    tokio::spawn(async move {
        while let Some(more) = reader.next().await {
            kept.lock().unwrap().extend(more);
        }
    });
    patches
}

/// Rows of a conversation on a terminal of 80 columns.
pub(crate) async fn drawn(view: &ViewDriver, patches: &Patches) -> Vec<String> {
    let waiting = async {
        loop {
            let mut replayed = View::default();
            let patches = patches.lock().unwrap().clone();
            patches.iter().for_each(|patch| replayed.apply(patch));
            if replayed == view.view() {
                return patches;
            }
            tokio::task::yield_now().await;
        }
    };
    let patches = tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    let mut transcript = Transcript::new(View::default(), 80);
    patches.iter().for_each(|patch| transcript.patch(patch));
    let mut rows = transcript.take_closed(0);
    rows.extend(transcript.open_rows());
    rows.iter().map(|row| row.text().trim_end().to_owned()).collect()
}

pub(crate) fn approval(asked: &PendingQuestion) -> zk_core::service::ApprovalCard {
    match &asked.question {
        Question::Approve(approval) => approval.card(),
        other => panic!("{other:?}"),
    }
}

/// Whether a process of this id is there.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}
