use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::service::Redactor;
use zk_exec::LocalHostFiles;
use zk_providers::RateLimits;

use crate::dirs::Dirs;
use crate::env::Env;
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;
use crate::term::Notices;
use crate::trust::FileTrust;

/// What every job starts from: where it works and what is set.
#[derive(Clone)]
pub(crate) struct AppContext {
    pub(crate) env: Env,
    pub(crate) dirs: Dirs,
    pub(crate) settings: Settings,
    /// The directory worked in, canonical.
    pub(crate) cwd: PathBuf,
    /// The root of the project it belongs to.
    pub(crate) project: PathBuf,
    pub(crate) verbose: bool,
    pub(crate) notices: Notices,
    /// What of projects was approved.
    pub(crate) trust: Arc<FileTrust>,
    /// What the providers of this process share.
    pub(crate) limits: RateLimits,
    /// Reads what zk itself relies on.
    pub(crate) host_files: LocalHostFiles,
    /// Keeps keys out of everything that is written.
    pub(crate) redactor: Arc<Redactor>,
    /// The address and the key that the command line has for whichever provider is chosen.
    pub(crate) base_url: Option<String>,
    pub(crate) api_key: Option<String>,
}

impl AppContext {
    /// The demo's app: its own directory, and nobody's settings.
    pub(crate) fn for_demo(&self, dir: &Path) -> Self {
        Self {
            env: self.env.clone(),
            dirs: self.dirs.clone(),
            settings: Settings::default(),
            cwd: dir.to_path_buf(),
            project: dir.to_path_buf(),
            verbose: false,
            notices: self.notices.clone(),
            trust: self.trust.clone(),
            limits: self.limits.clone(),
            host_files: self.host_files.clone(),
            redactor: self.redactor.clone(),
            base_url: None,
            api_key: None,
        }
    }

    /// The endpoint that the settings, the keys or a local server lead to.
    pub(crate) async fn endpoint(&self) -> Outcome<Endpoint> {
        let stored = credentials::all_stored(self).await;
        let chosen = endpoint::configured(&self.settings, self.flags(), &stored);
        match model_name::endpoint_for(&self.settings, self.flags(), &stored, chosen)? {
            Some(endpoint) => Ok(endpoint),
            None => endpoint::local(endpoint::look).await,
        }
    }

    /// The endpoint of a provider that is named in the middle of a conversation: what the command line said
    /// was about the one it began with.
    pub(crate) async fn endpoint_of(&self, name: &str) -> Outcome<Endpoint> {
        let stored = credentials::all_stored(self).await;
        let provider = NamedProvider::find(&self.settings, name)?;
        let why = format!("/provider {name}");
        endpoint::complete(&self.settings, endpoint::Flags::default(), &stored, provider, why)
    }

    /// The credential used for a provider, and where it comes from.
    pub(crate) fn key(&self, provider: &NamedProvider, stored: &StoredCredentials) -> Option<(Key, String)> {
        endpoint::key(&self.settings, self.flags(), stored, provider)
    }

    fn flags(&self) -> endpoint::Flags<'_> {
        endpoint::Flags { base_url: self.base_url.as_deref(), api_key: self.api_key.as_deref() }
    }
}

/// The whole program.
pub(crate) fn run() -> Exit {
    let task = match Cli::try_parse() {
        Ok(cli) => cli.into_task(),
        Err(error) => {
            // Help and version are "errors" of clap's; when nobody reads them there is nobody to tell.
            let _ = error.print();
            if let Some(hint) = usage_hint(&error) {
                term::print_stderr(hint);
            }
            return if error.use_stderr() { Exit::Usage } else { Exit::Done };
        }
    };
    let machine = match &task {
        Ok(Task { job: Job::Prompt(prompt), .. }) if prompt.format != OutputFormat::Text => true,
        Ok(_) | Err(_) => false,
    };
    match task.and_then(start) {
        Ok(exit) => exit,
        Err(failure) => {
            term::print_stderr(&format!("zk: {failure}"));
            if machine {
                output::result::print_failure(&failure);
            }
            failure.exit
        }
    }
}

/// What to do about a command line that cannot be read, where the message of the parser is of little help.
fn usage_hint(error: &clap::Error) -> Option<&'static str> {
    let invalid = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(invalid)) => invalid.as_str(),
        Some(_) | None => return None,
    };
    match error.kind() {
        ErrorKind::UnknownArgument if !invalid.starts_with('-') => {
            Some("zk: put a prompt of several words in quotes: zk -p \"what is this\"")
        }
        ErrorKind::InvalidValue if invalid.starts_with("--resume") => {
            Some("zk: --resume needs an ID; `zk sessions` lists them, and --continue takes the newest")
        }
        _ => None,
    }
}

fn start(task: Task) -> Outcome<Exit> {
    let Task { job, given, base_url, api_key, config, cwd, verbose } = task;
    let env = Env::read();
    let dirs = Dirs::new(&env);
    let cwd = directory(cwd)?;
    let host_files = host_files(&env);
    let Project { root: project, foreign } = zk_skills::project(&cwd, &host_files);
    if let Some(git) = foreign {
        let what = "so its settings and instructions are not used";
        term::print_stderr(&format!("zk: warning: {}: {}, {what}", git.path.display(), git.why));
    }
    let trust = Arc::new(FileTrust::new(dirs.trust(), host_files.clone()));
    let sources = SettingsSources {
        env: &env,
        dirs: &dirs,
        files: &host_files,
        project: &project,
        trust: &*trust,
        extra: config.as_deref(),
    };
    let (settings, warnings) = Settings::read(&sources, given)?;
    for warning in warnings {
        term::print_stderr(&format!("zk: warning: {warning}"));
    }
    if !matches!(job, Job::Trust(_)) {
        let untrusted = settings.untrusted_warnings(&project);
        let problem = trust.problem().filter(|_| !untrusted.is_empty());
        for warning in untrusted.into_iter().chain(problem) {
            term::print_stderr(&format!("zk: warning: {warning}"));
        }
    }
    let redactor = Arc::new(Redactor::new());
    env.secrets().chain(api_key.as_deref()).for_each(|secret| redactor.learn(secret));
    term::redact_with(&redactor);
    let app = AppContext {
        env,
        dirs,
        settings,
        cwd,
        project,
        verbose,
        notices: Notices::default(),
        trust,
        limits: RateLimits::default(),
        host_files,
        redactor,
        base_url,
        api_key,
    };
    match job {
        Job::Prompt(prompt) => mode::run(&app, prompt),
        Job::Sessions(action) => commands::sessions(&app, action),
        Job::Auth(action) => commands::auth(&app, action),
        Job::ConfigSchema => commands::config_schema(&app),
        Job::ConfigShow { origin } => commands::config_show(&app, origin),
        Job::Doctor => doctor::run(&app),
        Job::Demo { keep } => demo::run(&app, keep),
        Job::Models { filter, json } => commands::models(&app, &filter, json),
        Job::Trust(action) => commands::trust(&app, &action),
        Job::Hooks => commands::hooks(&app),
    }
}

/// Trusts files of the person who runs this, also with `sudo`.
fn host_files(env: &Env) -> LocalHostFiles {
    let files = LocalHostFiles::new();
    match env.text("SUDO_UID").and_then(|uid| uid.parse().ok()) {
        Some(uid) if rustix::process::geteuid().is_root() => files.trusting(uid),
        Some(_) | None => files,
    }
}

fn directory(cwd: Option<PathBuf>) -> Outcome<PathBuf> {
    let cwd = match cwd {
        Some(dir) => dir,
        None => std::env::current_dir().map_err(|error| {
            Failure::usage(format!("the working directory cannot be used ({error}); name one with --cwd"))
        })?,
    };
    let canonical = cwd
        .canonicalize()
        .map_err(|error| Failure::usage(format!("cannot work in {}: {error}", cwd.display())))?;
    if canonical.is_dir() {
        Ok(canonical)
    } else {
        Err(Failure::usage(format!("cannot work in {}: it is not a directory", cwd.display())))
    }
}

/// A runtime for one job, made only when a job needs one.
pub(crate) fn runtime() -> Outcome<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))
}
