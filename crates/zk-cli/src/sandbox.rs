mod loss;

use std::path::{Path, PathBuf};

use zk_exec::settings::NetworkSetting;
use zk_exec::{
    Environment, HostRules, Network, SandboxError, SandboxExec, SandboxPolicy, SelfTest, Supervision,
};
use zk_permission::{GitRewrites, Rule, Rules};
use zk_tools::ToolsOptions;

use crate::app::AppContext;
use crate::exit::{Failure, Outcome};
use crate::held::Held;
use crate::own_files;
pub(crate) use loss::watch_for_loss;

/// The sandbox that the settings describe, tested.
pub(crate) fn start(app: &AppContext, environment: Environment) -> Outcome<SandboxExec> {
    tested(app, environment).map(|(exec, _)| exec)
}

/// The sandbox of calls that run unasked because they only read, tested: without writing and without a network.
pub(crate) fn start_for_reads(app: &AppContext, environment: Environment) -> Outcome<SandboxExec> {
    test(&policy(app).network(Network::None).deny_writes(), environment).map(|(exec, _)| exec)
}

/// The sandbox that the settings describe, or what of it Landlock and seccomp can do where the machine refuses namespaces; with the reason then.
pub(crate) fn start_or_degrade(
    app: &AppContext,
    environment: Environment,
) -> Outcome<(SandboxExec, Option<String>)> {
    match test(&policy(app), environment.clone()) {
        Ok((exec, _)) => Ok((exec, None)),
        Err(failure) => match test(&policy(app).landlock_only(), environment) {
            Ok((exec, _)) => Ok((exec, Some(failure.message))),
            Err(_) => Err(failure),
        },
    }
}

/// The sandbox that the settings describe, and what its self-test found.
pub(crate) fn tested(app: &AppContext, environment: Environment) -> Outcome<(SandboxExec, SelfTest)> {
    test(&policy(app), environment)
}

fn test(policy: &SandboxPolicy, environment: Environment) -> Outcome<(SandboxExec, SelfTest)> {
    let exec = SandboxExec::new(policy, environment, Supervision::of_this_program());
    let exec = exec.map_err(|error| Failure::usage(error.to_string()))?;
    // A runtime of its own: this is called inside and outside of the program's.
    let found = std::thread::scope(|threads| {
        let test = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(Failure::failed)?.block_on(exec.self_test()).map_err(failure)
        };
        threads
            .spawn(test)
            .join()
            .unwrap_or_else(|_| Err(Failure::failed("the self-test of the sandbox broke off")))
    })?;
    Ok((exec, found))
}

/// The error of a sandbox self-test, with the variables that move the state directory.
fn failure(error: SandboxError) -> Failure {
    match error {
        SandboxError::StateWithin { .. } => {
            Failure::failed(format!("{error}: set ZK_HOME or XDG_STATE_HOME to another directory"))
        }
        error => Failure::failed(error),
    }
}

/// Places that commands may reach, without the files that rules deny.
fn policy(app: &AppContext) -> SandboxPolicy {
    let policy = places(app);
    let (rules, _) = crate::policy::rules(app);
    let writable = policy.writable_paths();
    let held: Vec<Held> = rules.iter().filter_map(|rule| Held::of(rule, &writable)).collect();
    held.into_iter().fold(policy, |policy, held| {
        let policy = held.hidden.into_iter().fold(policy, SandboxPolicy::hidden);
        held.protected.into_iter().fold(policy, SandboxPolicy::protected)
    })
}

/// Marks the rules that the sandbox of the settings holds.
pub(crate) fn mark_held(app: &AppContext, rules: &mut Rules) {
    let policy = places(app);
    let writable = policy.writable_paths();
    rules.iter_mut().filter(|rule| Held::of(rule, &writable).is_some()).for_each(Rule::hold);
}

/// The directory worked in, the repository around it, and what `[sandbox]` adds.
fn places(app: &AppContext) -> SandboxPolicy {
    let mut policy = SandboxPolicy::new(&app.cwd).project(&app.project).limits(app.settings.limits.limits());
    policy = policy.grant_connections();
    let home = app.env.path("HOME");
    if let Some(home) = &home {
        policy = policy.home(home);
    }
    if let Some(state) = &app.dirs.state {
        policy = policy.state(state);
    }
    if let Some(config) = &app.dirs.config {
        policy = policy.hidden(config);
    }
    let own = &app.settings.sandbox;
    for path in paths(&own.writable, home.as_deref()) {
        policy = policy.writable(path);
    }
    for path in app.roots().into_iter().skip(1) {
        policy = policy.writable(path);
    }
    for path in hidden(app) {
        policy = policy.hidden(path);
    }
    if let Some(processes) = own.processes {
        policy = policy.processes(processes);
    }
    match &own.network {
        // Checked when the settings were read.
        NetworkSetting::Hosts(hosts) => policy.hosts(HostRules::parse(hosts).unwrap_or_default()),
        NetworkSetting::Loopback => policy.network(Network::Loopback),
        NetworkSetting::All => policy.network(Network::All),
        NetworkSetting::None => policy.network(Network::None),
    }
}

/// Bounds of commands in the sandbox for the model, in one line. `grants` says whether single commands can be let connect.
pub(crate) fn describe(app: &AppContext, grants: bool) -> String {
    let network = match &app.settings.sandbox.network {
        NetworkSetting::Hosts(hosts) => format!("the network reaches only {}", hosts.join(", ")),
        NetworkSetting::All => "the network is open".to_owned(),
        NetworkSetting::Loopback => "the network reaches only commands in the sandbox".to_owned(),
        NetworkSetting::None => "there is no network".to_owned(),
    };
    let more = if grants {
        ", and what one command names (URL, git remote, package manager) once the user agrees: name the hosts in the command"
    } else {
        ""
    };
    format!(
        "Runs in a sandbox: writes only to the project and /tmp, credentials are hidden; {network}{more}."
    )
}

/// Whether an address of git begins as one of ssh does.
fn is_ssh(address: &str) -> bool {
    match address.split_once("://") {
        Some((scheme, _)) => scheme.ends_with("ssh"),
        None => address.contains(':') && !address.starts_with('/'),
    }
}

/// Adds what is known of the credentials of the person's git.
pub(crate) fn with_git(app: &AppContext, tools: ToolsOptions) -> ToolsOptions {
    let home = app.env.path("HOME");
    let at_home = |name: &str| home.as_ref().map(|home| home.join(name));
    let files = [at_home(".gitconfig"), at_home(".config/git/config")];
    let files = files.into_iter().flatten().chain([PathBuf::from("/etc/gitconfig")]);
    let texts: Vec<_> =
        files.filter_map(|path| own_files::read_text(&path, own_files::RECORD).ok()).collect();
    let sections = texts.iter().flat_map(|text| text.lines().map(str::trim)).filter_map(|line| {
        let rest = line.strip_prefix("[credential")?.split(']').next()?;
        Some(rest.trim().trim_matches('"').to_owned())
    });
    let of_netrc = at_home(".netrc").filter(|path| path.exists()).map(|_| String::new());
    let rewrites = texts.iter().map(|text| GitRewrites::parse(text));
    let by_ssh = rewrites.fold(GitRewrites::default(), GitRewrites::and);
    let by_ssh = by_ssh.iter().filter(|rule| is_ssh(&rule.instead));
    ToolsOptions {
        git_helper_urls: sections.chain(of_netrc).collect(),
        git_ssh_prefixes: by_ssh.map(|rule| (rule.prefix.clone(), rule.only_pushes)).collect(),
        ..tools
    }
}

/// Paths of the setting `sandbox.hidden`, in every execution context.
pub(crate) fn hidden(app: &AppContext) -> Vec<PathBuf> {
    paths(&app.settings.sandbox.hidden, app.env.path("HOME").as_deref())
}

fn paths(listed: &[String], home: Option<&Path>) -> Vec<PathBuf> {
    listed.iter().filter_map(|path| at_home(path, home)).collect()
}

/// A path of the settings, which may begin with `~/`.
pub(crate) fn at_home(path: &str, home: Option<&Path>) -> Option<PathBuf> {
    match path.strip_prefix("~/") {
        Some(rest) => Some(home?.join(rest)),
        None => Some(PathBuf::from(path)),
    }
}
