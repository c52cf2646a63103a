use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use zk_bundles::ProjectBundle;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{Question, Questions, Trust, UiAnswer};
use zk_memory::{MEMORY_FILE, ProjectFacts};
use zk_skills::{AgentFile, Skill, agents_request, skills_request};

use crate::app::{AppContext, Machine};
use crate::compose::sessions::memory;
use crate::settings::ProjectFile;
use crate::{agents, bundles, skills};
use zk_chat::{ConversationFactory, UnapprovedProject};

/// Longest wait for a person to answer.
const PATIENCE: Duration = Duration::from_secs(600);

/// Creates the factory after the approvals.
type MakeFactory = Box<dyn FnOnce(AppContext) -> Arc<dyn ConversationFactory> + Send>;

/// Files, skills and sub-agents of the project that nobody approved.
pub(super) struct Unapproved {
    app: AppContext,
    files: Vec<ProjectFile>,
    skills: Vec<Arc<Skill>>,
    agents: Vec<AgentFile>,
    memory: Option<ProjectFacts>,
    make: MakeFactory,
}

impl Unapproved {
    /// Collects the unapproved parts of the project; `None` if there are none, or approvals cannot be stored.
    pub(super) fn of(
        app: &AppContext,
        make: impl FnOnce(AppContext) -> Arc<dyn ConversationFactory> + Send + 'static,
    ) -> Option<Self> {
        let files: Vec<ProjectFile> =
            app.settings.project_files.iter().filter(|file| !file.trusted).cloned().collect();
        let (skills, agents) = (skills::untrusted(&app.work, &app.settings), agents::untrusted(&app.work));
        let memory = memory::untrusted(&app.work, &app.settings);
        let is_any = !files.is_empty() || !skills.is_empty() || !agents.is_empty() || memory.is_some();
        (is_any && app.work.machine.trust.problem().is_none()).then(|| Self {
            app: app.clone(),
            files,
            skills,
            agents,
            memory,
            make: Box::new(make),
        })
    }
}

/// Maximum number of parts that a sentence names.
const MAX_NAMED_PARTS: usize = 8;

#[async_trait]
impl UnapprovedProject for Unapproved {
    fn describe(&self) -> String {
        let files = self.files.iter().map(|file| file.name.to_string());
        let skills = self.skills.iter().map(|skill| format!("the skill {}", skill.name()));
        let agents = self.agents.iter().map(|agent| format!("the agent {}", agent.name));
        let facts = self.memory.iter().map(|_| MEMORY_FILE.to_owned());
        let all: Vec<String> = files.chain(skills).chain(agents).chain(facts).collect();
        let more = all.len().saturating_sub(MAX_NAMED_PARTS);
        let mut named = all.into_iter().take(MAX_NAMED_PARTS).collect::<Vec<_>>().join(", ");
        if more > 0 {
            named.push_str(&format!(" and {more} more"));
        }
        let project = self.app.work.project.display();
        format!(
            "Parts of this project have no effect, as nobody approved them: {named}. `zk trust` in {project} shows them, \
             and `zk trust add` approves them"
        )
    }

    async fn ask(
        self: Box<Self>,
        questions: &Questions,
        cx: &Cx,
    ) -> Result<Arc<dyn ConversationFactory>, BoxError> {
        let Self { mut app, files, skills: found, agents: unapproved, memory: facts, make } = *self;
        for file in files {
            let question = Question::Trust(Box::new(file.question(&app.work.project)));
            if questions.ask(question, cx, PATIENCE).await != UiAnswer::Once {
                continue;
            }
            // The file applies to this conversation even if the approval cannot be stored.
            if let Err(error) = app.work.machine.trust.approve(&file.item(&app.work.project)) {
                app.work
                    .machine
                    .notices
                    .show(&format!("warning: trusted for this conversation only: {error}"));
            }
            for warning in app.settings.count_project_file(&file, &app.work.project)? {
                app.work.machine.notices.show(&format!("warning: {warning}"));
            }
            if let Some(bundle) = file.bundle {
                use_bundle(&mut app, bundle);
            }
        }
        if !found.is_empty() {
            let question = Question::Trust(Box::new(skills_request(&found, &app.work.machine.host_files)));
            if questions.ask(question, cx, PATIENCE).await == UiAnswer::Once {
                for skill in &found {
                    if let Err(error) = skills::approve(&app.work, skill) {
                        let name = skill.name();
                        app.work
                            .machine
                            .notices
                            .show(&format!("warning: the skill {name} is not used: {error}"));
                    }
                }
            }
        }
        if !unapproved.is_empty() {
            let question = Question::Trust(Box::new(agents_request(&unapproved)));
            if questions.ask(question, cx, PATIENCE).await == UiAnswer::Once {
                for file in &unapproved {
                    if let Err(error) = agents::approve(&app.work, file) {
                        app.work
                            .machine
                            .notices
                            .show(&format!("warning: the agent {} is not used: {error}", file.name));
                    }
                }
            }
        }
        if let Some(facts) = facts {
            let question = Question::Trust(Box::new(facts.trust_request()));
            if questions.ask(question, cx, PATIENCE).await == UiAnswer::Once
                && let Err(error) = memory::approve(&app.work, &facts)
            {
                app.work.machine.notices.show(&format!("warning: {MEMORY_FILE} is not recalled: {error}"));
            }
        }
        Ok(make(app))
    }
}

/// Uses a bundle of the project that was approved just now.
fn use_bundle(app: &mut AppContext, bundle: Arc<ProjectBundle>) {
    let Machine { dirs, host_files, env, notices, .. } = &app.work.machine;
    let placed =
        bundles::load_of_project((dirs, host_files), &app.work.project, &[bundle], app.settings.bundles());
    let known = app.settings.bundles().problems.len();
    app.settings.add_bundles(placed, &app.work.project, env);
    for problem in app.settings.bundles().problems.iter().skip(known) {
        notices.show(&format!("warning: {problem}"));
    }
}
