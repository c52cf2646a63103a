use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use zk_core::kernel::Bus;
use zk_core::service::{Provider, SessionFilter, SessionStore, Unreadable, visible_line};
use zk_providers::select::CredentialSource;
use zk_tui::Style;
use zk_tui::plain::Screen;

use crate::app::{AppContext, runtime};
use crate::containment::Containment;
use crate::exit::{Exit, Outcome};
use crate::{compose, sandbox, select, sessions, stdin};

/// Time limit of an endpoint that lists its models.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// Use of a program.
#[derive(Clone, Copy)]
enum Requirement {
    Needed(&'static str),
    Expected(&'static str),
    Replaced(&'static str),
}

const PROGRAMS: [(&str, Requirement); 3] = [
    ("bash", Requirement::Needed("the shell tool")),
    ("git", Requirement::Expected("most projects use it")),
    ("rg", Requirement::Replaced("grep and glob are built in")),
];

/// Result of one check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Fine,
    Warning,
    Failure,
}

struct Finding {
    health: Health,
    text: String,
}

fn fine(text: impl Into<String>) -> Finding {
    Finding { health: Health::Fine, text: text.into() }
}

fn warning(text: impl Into<String>) -> Finding {
    Finding { health: Health::Warning, text: text.into() }
}

fn failure(text: impl Into<String>) -> Finding {
    Finding { health: Health::Failure, text: text.into() }
}

/// Checks everything a run needs; 1 if it would fail.
pub(crate) fn run(app: &AppContext) -> Outcome<Exit> {
    let mut screen = Screen::stdout(&app.env.terminal());
    let mut healthy = true;
    let mut tell = |finding: Finding| {
        let (style, word) = match finding.health {
            Health::Fine => (Style::GREEN, "ok  "),
            Health::Warning => (Style::YELLOW, "warn"),
            Health::Failure => (Style::RED, "fail"),
        };
        healthy &= finding.health != Health::Failure;
        screen.line(style, &format!("{word}  {}", finding.text));
    };
    tell(fine(format!(
        "zk {}, working in {}",
        env!("CARGO_PKG_VERSION"),
        visible_line(&app.cwd.display().to_string())
    )));
    tell(settings(app));
    tell(hooks(app));
    let runtime = runtime()?;
    for finding in runtime.block_on(endpoint(app)) {
        tell(finding);
    }
    tell(runtime.block_on(sessions(app)));
    for (program, used) in PROGRAMS {
        tell(program_found(app, program, used));
    }
    for finding in sandbox(app) {
        tell(finding);
    }
    tell(permissions(app));
    tell(terminal(app));
    screen.finish()?;
    Ok(if healthy { Exit::Done } else { Exit::Failed })
}

/// Sets a sandbox up as `--context sandbox` does.
fn sandbox(app: &AppContext) -> Vec<Finding> {
    let environment = zk_exec::Environment::filtered(app.env.without_secrets());
    let report = sandbox::tested(app, environment).and_then(|(exec, test)| {
        let report = exec.start().map_err(crate::exit::Failure::failed)?;
        Ok((report, test))
    });
    match report {
        Ok((report, test)) => {
            let when = if test.cached { ", since the machine was started" } else { "" };
            let text = format!("sandbox: {report}; {} attempts to leave it failed{when}", test.held.len());
            let whole = report.missing().next().is_none();
            let limits =
                report.limits.iter().map(|limit| warning(format!("sandbox: {}", visible_line(limit))));
            std::iter::once(if whole { fine(text) } else { warning(text) }).chain(limits).collect()
        }
        Err(error) => vec![warning(format!("sandbox: {error}"))],
    }
}

/// Reports what runs without a question, and where.
fn permissions(app: &AppContext) -> Finding {
    match Containment::of(app, app.settings.permissions.allow_all) {
        Ok(containment) => fine(format!("permissions: {}", containment.describe())),
        Err(error) => failure(format!("permissions: {}", error.message)),
    }
}

fn settings(app: &AppContext) -> Finding {
    match app.dirs.settings() {
        Some(path) if path.exists() => fine(format!("settings: {}", path.display())),
        Some(path) => fine(format!("settings: none of your own; they would be in {}", path.display())),
        None => warning("settings: set HOME or ZK_HOME to have some of your own"),
    }
}

fn hooks(app: &AppContext) -> Finding {
    let counted = app.settings.hooks().hooks.len();
    let untrusted: usize = app.settings.untrusted_hooks().map(|set| set.hooks.len()).sum();
    let unusable = app.settings.hooks().hooks.iter().filter(|hook| hook.unusable.is_some()).count();
    let list = "`zk hooks list` shows them";
    match (counted, untrusted, unusable) {
        (0, 0, _) => fine("hooks: no commands"),
        (_, 0, 0) => fine(format!("hooks: {counted} commands; {list}")),
        (_, 0, _) => warning(format!("hooks: {unusable} of {counted} commands can never run; {list}")),
        (_, _, _) => warning(format!(
            "hooks: {counted} commands, and {untrusted} of the project that are not trusted and do not run; {list}"
        )),
    }
}

async fn endpoint(app: &AppContext) -> Vec<Finding> {
    let endpoint = match app.endpoint().await {
        Ok(endpoint) => endpoint,
        Err(error) => return vec![failure(format!("provider: {error}"))],
    };
    let key = match &endpoint.credential {
        Some(CredentialSource::Key(_)) => "a key is set",
        Some(CredentialSource::Bearer(_)) => "a token is set",
        Some(CredentialSource::StoredKey) => "a key is stored",
        Some(CredentialSource::SignIn { .. }) => "you are signed in",
        None => "no key is set",
    };
    let (name, why) = (&endpoint.provider.name, select::reason(&endpoint));
    let mut findings = vec![fine(match endpoint.provider.prebuilt {
        Some(_) => format!("provider: {name}, a part of this program ({why})"),
        None => format!("provider: {name} at {}, {key} ({why})", endpoint.base_url),
    })];
    let provider = match compose::provider(app, &endpoint).await {
        Ok(provider) => provider,
        Err(error) => {
            findings.push(failure(format!("provider: {error}")));
            return findings;
        }
    };
    let place = if endpoint.base_url.is_empty() { &endpoint.provider.name } else { &endpoint.base_url };
    findings.push(reach(app, &*provider, place).await);
    findings
}

async fn reach(app: &AppContext, provider: &dyn Provider, url: &str) -> Finding {
    match tokio::time::timeout(LIST_TIMEOUT, provider.list_models(&Bus::new().cx())).await {
        Err(_) => failure(format!("endpoint: {url} did not answer within {} s", LIST_TIMEOUT.as_secs())),
        Ok(Err(error)) => failure(format!("endpoint: {error}")),
        Ok(Ok(None)) => warning(format!("endpoint: {url} cannot be asked for its models")),
        Ok(Ok(Some(models))) => {
            let wanted = app.settings.program.model.clone().or_else(|| provider.default_model());
            let wanted = wanted.map(|name| app.settings.known_providers().model_id(provider.name(), &name));
            match wanted {
                Some(id) if models.iter().all(|model| model.id != id) => warning(format!(
                    "endpoint: {url} answers, and does not list the model {id}; `zk models` shows what it has"
                )),
                Some(id) => fine(format!("endpoint: {url} answers and has {id}")),
                None if models.len() == 1 => fine(format!("endpoint: {url} answers; 1 model")),
                None => fine(format!("endpoint: {url} answers; {} models", models.len())),
            }
        }
    }
}

async fn sessions(app: &AppContext) -> Finding {
    if !app.settings.program.sessions {
        return fine("sessions: not kept, by the settings");
    }
    let (store, root) = match (sessions::store(app), app.dirs.sessions()) {
        (Ok(store), Some(root)) => (store, root),
        (Err(error), _) => return warning(format!("sessions: {error}")),
        (Ok(_), None) => return warning("sessions: there is no place for them"),
    };
    if let Err(error) = sessions::place(app).check_writable() {
        return warning(format!(
            "sessions: cannot write to {} ({error}): conversations are not kept; set ZK_HOME to a directory of yours",
            root.display()
        ));
    }
    match store.list(&SessionFilter::default()).await {
        Err(error) => failure(format!("sessions: {error}")),
        Ok(all) => {
            let count = |is: fn(&Unreadable) -> bool| {
                all.iter().filter_map(|session| session.unreadable.as_ref()).filter(|why| is(why)).count()
            };
            let faults = [
                (count(|why| matches!(why, Unreadable::Damaged(_))), "damaged"),
                (count(|why| matches!(why, Unreadable::TooNew { .. })), "of a newer zk"),
                (count(|why| matches!(why, Unreadable::OutOfReach(_))), "out of reach"),
            ];
            let faults: Vec<String> = faults
                .into_iter()
                .filter(|(sessions, _)| *sessions > 0)
                .map(|(sessions, are)| format!("{sessions} {are}"))
                .collect();
            let line = format!("sessions: {} in {}", all.len(), root.display());
            match faults.as_slice() {
                [] => fine(line),
                faults => warning(format!("{line}, {}", faults.join(", "))),
            }
        }
    }
}

fn program_found(app: &AppContext, name: &str, used: Requirement) -> Finding {
    let path = app.env.get("PATH").map(std::ffi::OsStr::to_owned).unwrap_or_default();
    let found = std::env::split_paths(&path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|path| is_executable(path));
    match (found, used) {
        (Some(path), _) => fine(format!("{name}: {}", path.display())),
        (None, Requirement::Needed(what)) => {
            failure(format!("{name}: not in PATH; {what} needs it: install it"))
        }
        (None, Requirement::Expected(what)) => warning(format!("{name}: not in PATH; {what}")),
        (None, Requirement::Replaced(what)) => fine(format!("{name}: not in PATH and not needed: {what}")),
    }
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

fn terminal(app: &AppContext) -> Finding {
    if stdin::is_terminal() && std::io::stdout().is_terminal() {
        fine(format!("terminal: {}", app.env.text("TERM").unwrap_or("unknown")))
    } else {
        fine("terminal: none; nobody is asked, and --permission-mode says what runs all the same")
    }
}
