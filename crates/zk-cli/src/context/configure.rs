//! Reading of everything that is set, once at the start and again for a reload.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use zk_agent::AgentDefinition;
use zk_core::service::HostFiles;
use zk_engine::{EngineKind, EngineLocation};
use zk_exec::settings::at_home;
use zk_providers::select::GivenValues;
use zk_stores::StoreLocation;

use crate::additions::Additions;
use crate::app::{AppContext, Machine, Shared, Workplace};
use crate::args::Launch;
use crate::exit::{Failure, Outcome};
use crate::settings::{Settings, SettingsSources};
use crate::{agents, bundles, session_stores};
use zk_exec::ProgramEnv;

/// Settings and command-line files of one read.
struct Configured {
    settings: Settings,
    /// Additional working directories, canonical.
    add_dirs: Vec<PathBuf>,
    agents: Arc<[AgentDefinition]>,
    warnings: Vec<String>,
}

impl Configured {
    /// Reads the settings files, and the other files that the command line names. `before` holds the settings of the last
    /// read, for a reload.
    fn read(
        launch: &Launch,
        machine: &Machine,
        project: &Path,
        additions: Additions,
        before: Option<&Settings>,
    ) -> Outcome<Self> {
        let Machine { env, dirs, host_files, trust, .. } = machine;
        let extra = launch.config.as_deref();
        let (files, scope) = (host_files, launch.scope);
        let sources = SettingsSources { env, dirs, files, project, trust: &**trust, extra, scope, additions };
        let (mut settings, mut warnings) = Settings::read(&sources, launch.given.clone())?;
        settings.trust_mcp_servers(&launch.trust_mcp, before)?;
        for file in &launch.mcp_configs {
            settings.add_mcp_file(file, host_files, &mut warnings)?;
        }
        warnings.extend(scope.describe().map(str::to_owned));
        let loaded = bundles::load(dirs, host_files, &launch.plugin_dirs, scope.has_own_parts());
        settings.add_bundles(loaded, project, env);
        let approved = settings.approved_bundles();
        let of_project = bundles::load_of_project((dirs, host_files), project, &approved, settings.bundles());
        settings.add_bundles(of_project, project, env);
        if let Some(names) = &launch.only_servers {
            settings.keep_mcp_servers(names);
        }
        #[cfg(feature = "otel")]
        {
            let secrets = settings.otel.secrets(|name| env.text(name).map(str::to_owned));
            secrets.iter().for_each(|secret| machine.redactor.learn(secret));
        }
        for placed in &settings.bundles().bundles {
            placed.secrets().for_each(|secret| machine.redactor.learn(secret));
        }
        warnings.extend(settings.bundles().problems.iter().cloned());
        let add_dirs = all_dirs(launch, &settings, env)?;
        Ok(Self { agents: given_agents(launch, host_files)?, settings, add_dirs, warnings })
    }
}

fn all_dirs(launch: &Launch, settings: &Settings, env: &ProgramEnv) -> Outcome<Vec<PathBuf>> {
    let home = env.path("HOME");
    let of_settings = settings.program.add_dirs.iter().filter_map(|dir| at_home(dir, home.as_deref()));
    let added = launch.added_dirs.lock().unwrap_or_else(PoisonError::into_inner).clone();
    launch.add_dirs.iter().cloned().chain(of_settings).chain(added).map(|dir| canonical(&dir)).collect()
}

fn given_agents(launch: &Launch, files: &dyn HostFiles) -> Outcome<Arc<[AgentDefinition]>> {
    let given = launch.agents.as_ref().map(|text| agents::given_agents(text, files)).transpose()?;
    Ok(given.unwrap_or_default().into())
}

impl AppContext {
    /// Reads all settings for the directory `cwd` of `project`. Returns the context, and warnings about the
    /// settings.
    pub(crate) fn read(
        (cwd, project): (PathBuf, PathBuf),
        machine: Machine,
        launch: Launch,
        given: GivenValues,
        additions: Additions,
    ) -> Outcome<(Self, Vec<String>)> {
        let (store, kinds) = (additions.session_store.clone(), additions.engines.clone());
        let read = Configured::read(&launch, &machine, &project, additions, None)?;
        let program = &read.settings.program;
        let open = |location: &StoreLocation| session_stores::open(location, program, &machine);
        machine.stores.choose(program.session_store.as_deref(), store, open);
        choose_engine(&machine, read.settings.fleet.engine.as_deref(), &kinds)?;
        let Configured { settings, add_dirs, agents, warnings } = read;
        let work = Workplace { machine, cwd, add_dirs, project, scope: launch.scope };
        let (launch, shared) = (Some(Arc::new(launch)), Shared::default());
        Ok((Self { work, settings, given, shared, launch, agents }, warnings))
    }

    /// Adds a working directory for the next [`reread`](Self::reread); returns its path. A directory below an
    /// existing one changes nothing.
    pub(crate) fn add_directory(&self, dir: &Path) -> Outcome<PathBuf> {
        let launch = self.launch.as_ref();
        let launch = launch.ok_or_else(|| Failure::usage("this conversation takes no directories"))?;
        let home = self.work.machine.env.path("HOME");
        let dir =
            dir.to_str().and_then(|dir| at_home(dir, home.as_deref())).unwrap_or_else(|| dir.to_owned());
        let dir = canonical(&self.work.cwd.join(dir))?;
        if let Some(root) = self.work.roots().iter().find(|root| dir.starts_with(root)) {
            let (dir, root) = (dir.display(), root.display());
            return Err(Failure::usage(format!("{dir} is among the directories already: {root}")));
        }
        launch.added_dirs.lock().unwrap_or_else(PoisonError::into_inner).push(dir.clone());
        Ok(dir)
    }

    /// Returns a copy of this context with the settings read again, and warnings about them.
    pub(crate) fn reread(&self) -> Outcome<(Self, Vec<String>)> {
        let launch = self.launch.as_ref();
        let launch = launch.ok_or_else(|| Failure::usage("this conversation reads no settings"))?;
        let (before, project) = (&self.settings, &self.work.project);
        let read =
            Configured::read(launch, &self.work.machine, project, before.additions.clone(), Some(before))?;
        let Configured { settings, add_dirs, agents, mut warnings } = read;
        warnings.extend(settings.untrusted_warnings(project));
        let mut shared = self.shared.clone();
        if settings.program.context != before.program.context {
            shared.tunnel = Arc::default();
        }
        let work = Workplace { add_dirs, ..self.work.clone() };
        Ok((Self { work, settings, shared, agents, ..self.clone() }, warnings))
    }
}

/// Chooses the engine that the settings name.
fn choose_engine(machine: &Machine, set: Option<&str>, kinds: &[Arc<dyn EngineKind>]) -> Outcome<()> {
    let location: EngineLocation =
        set.unwrap_or("local").parse().map_err(|error| Failure::usage(format!("fleet.engine: {error}")))?;
    if let EngineLocation::Remote(address) = &location {
        machine.redactor.learn(address);
    }
    machine.engine.choose(location, kinds);
    Ok(())
}

/// Returns the canonical path of an existing directory.
pub(crate) fn canonical(dir: &Path) -> Outcome<PathBuf> {
    let canonical = dir
        .canonicalize()
        .map_err(|error| Failure::usage(format!("cannot work in {}: {error}", dir.display())))?;
    if canonical.is_dir() {
        Ok(canonical)
    } else {
        Err(Failure::usage(format!("cannot work in {}: it is not a directory", dir.display())))
    }
}
