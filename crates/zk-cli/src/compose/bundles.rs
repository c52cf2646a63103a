//! Bundles that the person added: their parts as sources of commands, skills, agents, hooks and servers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::ExposeSecret;
use zk_agent::AgentDefinition;
use zk_auth::{Credential, FileStore};
use zk_bundles::{Bundle, BundleStore, Loaded, PlacedBundle, ProjectBundle};
use zk_core::service::visible_line;
use zk_exec::{LocalHostFiles, LocalStateFiles};
use zk_hooks::{HookConfigError, HookSet, HookSource};
use zk_mcp::{ServerConfig, ServerConfigError};
use zk_skills::{BundleCommand, BundlePlace, BundleSkill, bundle_agent};

use super::agents::definition;
use crate::app::AppContext;
use crate::settings::Settings;
use zk_settings::ZkDirs;

/// Returns the store of bundles; `None` without a directory for state.
pub(crate) fn store(dirs: &ZkDirs, files: &LocalHostFiles) -> Option<BundleStore> {
    let state = LocalStateFiles::new(files.clone());
    Some(BundleStore::new(dirs.plugins()?, Arc::new(state), Arc::new(files.clone())))
}

/// Loads the bundles in use: those that the person added, unless these are not wanted, and directories named on
/// the command line.
pub(crate) fn load(dirs: &ZkDirs, files: &LocalHostFiles, given: &[PathBuf], has_own: bool) -> Loaded {
    match store(dirs, files) {
        Some(store) => {
            let mut loaded = if has_own { store.load() } else { Loaded::default() };
            if let Some(secrets) = secrets(dirs) {
                read_secrets(&mut loaded, &secrets);
            }
            // A directory does not get the secrets of an added bundle with the same name.
            loaded.with_directories(given, &store, files)
        }
        None => Loaded::default(),
    }
}

/// Bundles of the project that a person approved, beside those that are `used`.
pub(crate) fn load_of_project(
    (dirs, files): (&ZkDirs, &LocalHostFiles),
    project: &Path,
    found: &[Arc<ProjectBundle>],
    used: &Loaded,
) -> Loaded {
    let store = store(dirs, files);
    store
        .map(|store| store.load_of_project(project, found.iter().map(|one| &**one), used))
        .unwrap_or_default()
}

/// Returns a bundle without a directory, whose variables stay unexpanded.
pub(crate) fn bundle_without_directory(bundle: &Bundle) -> PlacedBundle {
    PlacedBundle {
        bundle: bundle.clone(),
        root: PathBuf::from("${CLAUDE_PLUGIN_ROOT}"),
        data: PathBuf::from("${CLAUDE_PLUGIN_DATA}"),
        options: BTreeMap::new(),
    }
}

/// The store of secret options.
pub(crate) fn secrets(dirs: &ZkDirs) -> Option<FileStore> {
    dirs.plugin_secrets().map(FileStore::new)
}

/// Name of a secret option in its store.
pub(crate) fn secret_name(bundle: &str, key: &str) -> String {
    format!("{bundle}/{key}")
}

fn read_secrets(loaded: &mut Loaded, secrets: &FileStore) {
    let Loaded { bundles, problems, .. } = loaded;
    for placed in bundles {
        let options = placed.bundle.manifest.options.iter().filter(|(_, option)| option.is_sensitive);
        for (key, _) in options {
            match secrets.read(&secret_name(placed.bundle.name(), key)) {
                Ok(Some(Credential::ApiKey(secret))) => {
                    placed.options.insert(key.clone(), secret.expose_secret().to_owned());
                }
                Ok(Some(Credential::OAuth(_)) | None) => {}
                Err(error) => {
                    problems
                        .push(format!("secret option {key} of the plugin {}: {error}", placed.bundle.name()));
                }
            }
        }
    }
}

/// Returns the hooks of a bundle, for work in `project`. They may refuse calls, but not allow them in place
/// of the person.
pub(crate) fn hooks(placed: &PlacedBundle, project: &Path) -> Result<HookSet, HookConfigError> {
    let variables = placed.variables(project);
    let env: Vec<(String, String)> = variables.env().collect();
    let mut all = HookSet::default();
    for part in &placed.bundle.hooks {
        let place = format!("plugin {}: {}", placed.bundle.name(), part.place);
        let source = HookSource { place, is_claude: true, may_allow: false };
        let set = HookSet::read(&part.events, source)?;
        // Commands get the variables from their environment. Inserted as text, a directory's name could run
        // as a command.
        all.extend(set.of_bundle(&str::to_owned, &env));
    }
    Ok(all)
}

/// Returns the MCP servers of a bundle, and errors for the unusable ones.
pub(crate) fn servers(placed: &PlacedBundle, project: &Path) -> (Vec<ServerConfig>, Vec<ServerConfigError>) {
    let read =
        placed.bundle.servers.iter().map(|server| {
            ServerConfig::read_of_bundle(&server.name, &placed.server_definition(server, project))
        });
    let (good, bad): (Vec<_>, Vec<_>) = read.partition(Result::is_ok);
    (good.into_iter().filter_map(Result::ok).collect(), bad.into_iter().filter_map(Result::err).collect())
}

/// Returns the name, directory and variables of a bundle, for its texts.
pub(crate) fn bundle_place(placed: &PlacedBundle, project: &Path) -> Arc<BundlePlace> {
    let variables = placed.variables(project).directories();
    Arc::new(BundlePlace { name: placed.bundle.name().to_owned(), root: placed.root.clone(), variables })
}

/// The commands of all bundles.
pub(crate) fn commands(settings: &Settings, project: &Path) -> Vec<BundleCommand> {
    let mut commands = Vec::new();
    for placed in &settings.bundles().bundles {
        let place = bundle_place(placed, project);
        commands.extend(placed.bundle.commands.iter().map(|command| BundleCommand {
            name: command.name.clone(),
            path: placed.path(&command.path),
            help: command.description.clone(),
            place: place.clone(),
        }));
    }
    commands
}

/// The skills of all bundles.
pub(crate) fn skills(settings: &Settings, project: &Path) -> Vec<BundleSkill> {
    let mut skills = Vec::new();
    for placed in &settings.bundles().bundles {
        let place = bundle_place(placed, project);
        let dirs = placed.bundle.skills.iter().map(|dir| placed.path(dir));
        skills.extend(dirs.map(|dir| BundleSkill { dir, place: place.clone() }));
    }
    skills
}

/// Returns the agents of all bundles. An unusable one is left out with a notice.
pub(super) fn agents(app: &AppContext) -> Vec<AgentDefinition> {
    let machine = &app.work.machine;
    let mut agents = Vec::new();
    for placed in &app.settings.bundles().bundles {
        let place = bundle_place(placed, &app.work.project);
        for part in &placed.bundle.agents {
            match bundle_agent(&placed.path(&part.path), &place, &machine.host_files) {
                Ok(fields) => agents.push(definition(fields)),
                Err(why) => machine.notices.show(&format!(
                    "warning: the agent {} of the plugin {} is left out: {why}",
                    visible_line(&part.path),
                    place.name
                )),
            }
        }
    }
    agents
}
