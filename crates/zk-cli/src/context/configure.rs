//! Reading of everything that is set, once at the start and again for a reload.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_agent::AgentDefinition;
use zk_core::service::HostFiles;
use zk_exec::settings::at_home;

use crate::agents;
use crate::app::AppContext;
use crate::env::Env;
use crate::exit::{Failure, Outcome};
use crate::launch::Launch;
use crate::settings::{Settings, SettingsSources};

/// Everything that is set, as it was read.
struct Configured {
    settings: Settings,
    /// Directories to work in beside the first, canonical.
    add_dirs: Vec<PathBuf>,
    agents: Arc<[AgentDefinition]>,
    warnings: Vec<String>,
}

impl Configured {
    /// Reads the settings files, and the other files that the command line names. `before` holds the settings of the last
    /// read, for a reload.
    fn read(
        launch: &Launch,
        sources: &SettingsSources<'_>,
        before: Option<&Settings>,
    ) -> Outcome<Configured> {
        let (mut settings, mut warnings) = Settings::read(sources, launch.given.clone())?;
        settings.trust_mcp_servers(&launch.trust_mcp, before)?;
        for file in &launch.mcp_configs {
            settings.add_mcp_file(file, sources.files, &mut warnings)?;
        }
        let add_dirs = all_dirs(launch, &settings, sources.env)?;
        Ok(Self { agents: given_agents(launch, sources.files)?, settings, add_dirs, warnings })
    }
}

fn all_dirs(launch: &Launch, settings: &Settings, env: &Env) -> Outcome<Vec<PathBuf>> {
    let home = env.path("HOME");
    let of_settings = settings.program.add_dirs.iter().filter_map(|dir| at_home(dir, home.as_deref()));
    launch.add_dirs.iter().cloned().chain(of_settings).map(|dir| canonical(&dir)).collect()
}

fn given_agents(launch: &Launch, files: &dyn HostFiles) -> Outcome<Arc<[AgentDefinition]>> {
    let given = launch.agents.as_ref().map(|text| agents::given(text, files)).transpose()?;
    Ok(given.unwrap_or_default().into())
}

impl AppContext {
    /// A copy of this context with the settings files read anew, and the warnings of that. `self` stays as it is.
    pub(crate) fn reread(&self) -> Outcome<(Self, Vec<String>)> {
        let (read, mut warnings) = self.configured(Some(&self.settings))?;
        warnings.extend(read.settings.untrusted_warnings(&read.project));
        let is_same_place = read.settings.program.context == self.settings.program.context;
        let tunnel = if is_same_place { self.tunnel.clone() } else { Arc::default() };
        Ok((Self { tunnel, ..read }, warnings))
    }

    /// A copy of this context with everything that is set, and the warnings of reading it. `before` are the settings of the
    /// last read, for a reload.
    pub(crate) fn configured(&self, before: Option<&Settings>) -> Outcome<(Self, Vec<String>)> {
        let launch = self.launch.as_ref();
        let launch = launch.ok_or_else(|| Failure::usage("this conversation reads no settings"))?;
        let sources = SettingsSources {
            env: &self.env,
            dirs: &self.dirs,
            files: &self.host_files,
            project: &self.project,
            trust: &*self.trust,
            extra: launch.config.as_deref(),
            additions: self.settings.additions.clone(),
        };
        let Configured { settings, add_dirs, agents, warnings } = Configured::read(launch, &sources, before)?;
        Ok((Self { settings, add_dirs, agents, ..self.clone() }, warnings))
    }
}

/// A directory that exists.
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
