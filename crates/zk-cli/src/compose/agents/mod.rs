//! Named sub-agents of the program: files of the project and the person, and those of the command line.

pub(crate) mod worktrees;

use std::path::Path;

use zk_agent::{AgentDefinition, IsolationKind, SpawnOptions};
use zk_core::service::{HostFiles, HostRead, Trust, visible_line};
use zk_skills::{AgentFields, AgentFile, AgentRoots, MAX_AGENT_FILE_BYTES, agent_files, parse_agents};

use crate::app::{AppContext, Workplace};
use crate::exit::{Failure, Outcome};
use crate::parts::{NamedPart, NamedParts};

/// Maximum number of agents described to a model.
const MAX_AGENTS: usize = 30;

pub(super) fn definition(fields: AgentFields) -> AgentDefinition {
    let AgentFields { name, description, prompt, tools, model, thinking, max_turns, isolation } = fields;
    let isolation = isolation.then_some(IsolationKind::Worktree);
    AgentDefinition { name, description, prompt, tools, model, thinking, max_turns, preset: None, isolation }
}

/// Parses the agents of `--agents`: JSON, or a file with JSON.
pub(crate) fn given_agents(text: &str, files: &dyn HostFiles) -> Outcome<Vec<AgentDefinition>> {
    let usage = |why: String| {
        let shape = "{\"NAME\": {\"description\": \"…\", \"prompt\": \"…\"}}";
        Failure::usage(format!("--agents: {why}; give {shape}, or a file of it"))
    };
    let json = if text.trim_start().starts_with('{') {
        text.to_owned()
    } else {
        let read = files.read(Path::new(text), &HostRead::whole(MAX_AGENT_FILE_BYTES));
        let file = read.map_err(|error| usage(format!("cannot read {text}: {error}")))?;
        String::from_utf8_lossy(&file.bytes).into_owned()
    };
    let given = parse_agents(&json).map_err(|error| usage(error.to_string()))?;
    Ok(given.into_iter().map(definition).collect())
}

/// Finds all files of agents: the project's from the working directory upwards, then the person's.
fn files(work: &Workplace) -> Vec<AgentFile> {
    let own = work.machine.dirs.config.as_ref().map(|dir| dir.join("agents"));
    let others = work.machine.env.path("HOME").map(|home| home.join(".claude/agents"));
    let user = own.into_iter().chain(others).filter(|_| work.scope.has_own_parts()).collect();
    let roots = AgentRoots { cwd: &work.cwd, project: &work.project, user };
    let mut files = agent_files(&roots, &work.machine.host_files, &*work.machine.trust);
    files.retain(|file| !file.is_of_project || work.scope.has_project());
    files
}

/// Returns the unapproved agents of this project.
pub(crate) fn untrusted(work: &Workplace) -> Vec<AgentFile> {
    files(work).into_iter().filter(|file| !file.is_trusted).collect()
}

/// The agents of this project.
pub(crate) fn of_project(work: &Workplace) -> Vec<AgentFile> {
    files(work).into_iter().filter(|file| file.is_of_project).collect()
}

/// Approves exactly the present content of a project's agent file.
pub(crate) fn approve(work: &Workplace, file: &AgentFile) -> Result<(), String> {
    work.machine.trust.approve(&file.trust_item(&work.project)).map_err(|error| error.to_string())
}

/// Returns the options of sub-agents in a conversation that goes on after an answer or ends with it, and the models of their own that other providers have. For equal names the
/// order is: command line, project, person, plugins.
pub(crate) fn options(app: &AppContext, provider: &str, goes_on: bool) -> (SpawnOptions, NamedParts) {
    let mut agents: Vec<AgentDefinition> = Vec::new();
    let mut models = NamedParts::new();
    let mut untrusted = Vec::new();
    let read = files(&app.work).into_iter().filter_map(|file| {
        if !file.is_trusted {
            untrusted.push(file.name);
            return None;
        }
        let read = file.read().map(|fields| (definition(fields), file.name.clone(), !file.is_of_project));
        read.inspect_err(|why| {
            app.work
                .machine
                .notices
                .show(&format!("warning: the agent {} is left out: {why}", visible_line(&file.name)));
        })
        .ok()
    });
    let known = app.settings.known_providers();
    let given = app.agents.iter().cloned().map(|agent| (agent, "--agents".to_owned(), true));
    let of_plugins =
        crate::bundles::agents(app).into_iter().map(|agent| (agent, "a plugin".to_owned(), false));
    for (mut agent, origin, is_of_person) in given.chain(read).chain(of_plugins) {
        if agents.iter().any(|known| known.name == agent.name) {
            continue;
        }
        if agents.len() == MAX_AGENTS {
            let text =
                format!("warning: no more than {MAX_AGENTS} agents are used; the others are left out from");
            app.work.machine.notices.show(&format!("{text} `{}` on", visible_line(&agent.name)));
            break;
        }
        if let Some(model) = agent.model.take() {
            match known.other_provider(Some(provider), &model) {
                Some(_) => {
                    models.insert(agent.name.clone(), NamedPart { model, origin, is_of_person });
                }
                None => agent.model = Some(known.model_id(provider, &model)),
            }
        }
        agents.push(agent);
    }
    if !untrusted.is_empty() {
        app.work.machine.notices.show(&format!(
            "warning: agents of this project are not trusted, so they are not used: {}. Read them, then run `zk trust add`",
            visible_line(&untrusted.join(", "))
        ));
    }
    let options = app.settings.agents.options();
    // A run without a person ends with its answer, so no agent continues in the background.
    let background = options.background && goes_on;
    (SpawnOptions { agents, background, ..options }, models)
}
