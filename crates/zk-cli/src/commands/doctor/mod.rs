mod backends;
mod endpoint;
mod findings;
mod fleet;
mod kept_sessions;
mod mend;
mod parts;
mod programs;
mod session_care;

use std::io::IsTerminal;

use zk_core::service::visible_line;
use zk_exec::settings::NetworkSetting;
use zk_tui::Style;
use zk_tui::plain::Screen;

use crate::app::{AppContext, Machine, Workplace, runtime};
use crate::args::actions::DoctorArgs;
use crate::containment;
use crate::exit::{Exit, Outcome};
use crate::sandbox;
use crate::settings::Settings;
use endpoint::check_endpoint;
use findings::{Finding, Health, failure, fine, warning};
use kept_sessions::check_sessions;
use programs::{PROGRAMS, program_found};

/// Checks everything that a run needs, after the mends that were asked for. The exit code is 1 if a run would fail.
pub(crate) fn run(app: &AppContext, args: DoctorArgs) -> Outcome<Exit> {
    if args.fix {
        mend::mend(app, args.yes)?;
    }
    let of_fleet = args.fleet.then(|| fleet::check_fleet(&app.work.machine)).transpose()?;
    let mut screen = Screen::stdout(&app.work.machine.terminal());
    let mut healthy = true;
    let mut tell = |finding: Finding| {
        let (style, word) = match finding.health {
            Health::Fine => (Style::GREEN, "ok  "),
            Health::Warning => (Style::YELLOW, "warn"),
            Health::Failure => (Style::RED, "fail"),
        };
        healthy &= finding.health != Health::Failure;
        for (at, line) in finding.text.lines().enumerate() {
            screen.prose(style, &format!("{}  {line}", if at == 0 { word } else { "    " }));
        }
    };
    if let Some(findings) = of_fleet {
        findings.into_iter().for_each(tell);
        screen.finish()?;
        return Ok(if healthy { Exit::Done } else { Exit::Failed });
    }
    tell(fine(format!(
        "zk {}, working in {}",
        env!("CARGO_PKG_VERSION"),
        visible_line(&app.work.cwd.display().to_string())
    )));
    tell(check_settings(&app.work.machine));
    mend::former_key_findings(app.settings.former_keys()).into_iter().for_each(&mut tell);
    mend::state_findings(&app.work.machine).into_iter().for_each(&mut tell);
    tell(check_hooks(&app.settings));
    tell(check_plugins(&app.settings));
    let runtime = runtime()?;
    for finding in runtime.block_on(check_endpoint(app)) {
        tell(finding);
    }
    runtime.block_on(parts::check_parts(app)).into_iter().for_each(&mut tell);
    for finding in runtime.block_on(backends::check_backends(app)) {
        tell(finding);
    }
    tell(runtime.block_on(check_sessions(&app.work, &app.settings)));
    runtime
        .block_on(session_care::check_session_care(&app.work, &app.settings))
        .into_iter()
        .for_each(&mut tell);
    for (program, used) in PROGRAMS {
        tell(program_found(&app.work.machine, program, used));
    }
    for finding in check_sandbox(&app.work, &app.settings) {
        tell(finding);
    }
    tell(check_permissions(&app.work, &app.settings));
    tell(check_terminal(&app.work.machine));
    screen.finish()?;
    Ok(if healthy { Exit::Done } else { Exit::Failed })
}

/// Tests the sandbox that `--run-in sandbox` uses.
fn check_sandbox(work: &Workplace, settings: &Settings) -> Vec<Finding> {
    let environment = zk_exec::Environment::filtered(work.machine.env.without_secrets());
    let report = sandbox::start_with_self_test(work, settings, environment).and_then(|(exec, test)| {
        let report = exec.start().map_err(crate::exit::Failure::failed)?;
        Ok((report, test))
    });
    match report {
        Ok((report, test)) => {
            let when = if test.cached { ", since the machine was started" } else { "" };
            let whole = report.missing().next().is_none();
            let tested = format!("tested: {0} of {0} escapes stopped{when}", test.held.len());
            let text = match whole {
                true => format!("sandbox: works ({tested}); {}", describe_limits(work, settings)),
                false => format!("sandbox: works in part ({tested}): {report}"),
            };
            let limits =
                report.limits.iter().map(|limit| warning(format!("sandbox: {}", visible_line(limit))));
            std::iter::once(if whole { fine(text) } else { warning(text) }).chain(limits).collect()
        }
        Err(error) => vec![warning(format!("sandbox: {error}"))],
    }
}

/// Describes the limits of commands in a sandbox with all layers.
fn describe_limits(work: &Workplace, settings: &Settings) -> String {
    let network = if settings.sandbox.network == NetworkSetting::None { "no network; " } else { "" };
    let roots: Vec<String> =
        work.roots().iter().map(|root| visible_line(&root.display().to_string())).collect();
    format!("{network}writes only below {}", roots.join(", "))
}

/// Reports which calls run without a question, and in which context.
fn check_permissions(work: &Workplace, settings: &Settings) -> Finding {
    match containment::select(work, settings, settings.permissions.allow_all) {
        Ok(containment) => fine(format!("permissions: {}", containment.describe())),
        Err(error) => failure(format!("permissions: {}", error.message)),
    }
}

fn check_settings(machine: &Machine) -> Finding {
    match machine.dirs.settings() {
        Some(path) if path.exists() => fine(format!("settings: {}", path.display())),
        Some(path) => fine(format!("settings: none of your own; they would be in {}", path.display())),
        None => warning("settings: set HOME or ZK_HOME to have some of your own"),
    }
}

fn check_hooks(settings: &Settings) -> Finding {
    let counted = settings.hooks().hooks.len();
    let untrusted: usize = settings.untrusted_hooks().map(|set| set.hooks.len()).sum();
    let unusable = settings.hooks().hooks.iter().filter(|hook| hook.unusable.is_some()).count();
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

fn check_plugins(settings: &Settings) -> Finding {
    let loaded = settings.bundles();
    let list = "`zk plugin list` shows them";
    match (loaded.bundles.len(), loaded.problems.len()) {
        (0, 0) => fine("plugins: none"),
        (used, 0) => fine(format!("plugins: {used} in use; {list}")),
        (_, broken) => {
            let why = visible_line(&loaded.problems.join("; "));
            warning(format!("plugins: {broken} not used; {list}: {why}"))
        }
    }
}

fn check_terminal(machine: &Machine) -> Finding {
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        fine(format!("terminal: {}", machine.env.text("TERM").unwrap_or("unknown")))
    } else {
        fine("terminal: none; nobody is asked, and --permission-mode says what runs all the same")
    }
}
