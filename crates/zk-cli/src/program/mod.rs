//! Start of the program: parses the command line, and runs its job.

pub(crate) mod additions;
pub(crate) mod builder;
mod result_line;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use clap::error::ErrorKind;
use secrecy::ExposeSecret;
use zk_core::service::Redactor;
use zk_engine::ChosenEngine;
use zk_exec::{LocalHostFiles, LocalStateFiles};
use zk_permission::FileTrust;
use zk_serve::SdkArgs;
use zk_skills::Project;
use zk_stores::ChosenStore;
use zk_tui::plain::Notices;
use zk_tui::term;

use crate::additions::Additions;
use crate::app::{AppContext, Machine};
use crate::args::cli::{Cli, OutputFormat};
use crate::args::{self, Job, Request, Task, help};
use crate::configure::canonical;
use crate::exit::{Exit, Failure, Outcome};
use crate::{commands, host, mode};
use result_line::print_result;
use zk_exec::ProgramEnv;

/// Prints the help of a subcommand, with the options that belong to it; false if the error is no request for it.
fn prints_help_of_subcommand(error: &clap::Error) -> bool {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    error.kind() == ErrorKind::DisplayHelp && help::print(words)
}

/// Runs the program with a team's additions.
pub(crate) fn run(additions: Additions) -> Exit {
    args::answer_shell(commands::known_words());
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let request = match Cli::try_parse() {
        // An Agent SDK has flags of its own.
        _ if SdkArgs::asks_for_protocol(&words) => Ok(Request::Task(Box::new(Task::agent_sdk(words)))),
        Ok(cli) => match cli.near_command() {
            Some(advice) if !std::env::args_os().any(|arg| arg == "--") => {
                let word = cli.prompt.as_deref().unwrap_or_default();
                Err(Failure::usage(format!(
                    "there is no command `{word}`; {advice} To send it as a prompt: zk -- {word}"
                )))
            }
            Some(_) | None => cli.into_request().map_err(Failure::from),
        },
        Err(error) => {
            if error.use_stderr() {
                // The message quotes arguments.
                term::print_stderr(&error.render().to_string());
            } else if !prints_help_of_subcommand(&error) {
                // Help and version; standard output may be closed.
                let _ = error.print();
            }
            if let Some(hint) = help::usage_hint(&error) {
                term::print_stderr(hint);
            }
            return if error.use_stderr() { Exit::Usage } else { Exit::Done };
        }
    };
    let is_for_program = match &request {
        Ok(Request::Task(task)) => {
            matches!(&task.job, Job::Prompt(prompt) if prompt.format != OutputFormat::Text)
        }
        Ok(Request::Help(_) | Request::ShellInit(_)) | Err(_) => false,
    };
    let ended = request.and_then(|request| match request {
        Request::Help(topic) => commands::help(&host::program_env(), &topic),
        Request::ShellInit(shell) => mode::print_shell_init(&host::program_env(), &shell),
        Request::Task(task) => start(*task, additions),
    });
    match ended {
        Ok(exit) => exit,
        Err(failure) => {
            term::print_stderr(&format!("zk: {failure}"));
            if is_for_program {
                print_result(&failure);
            }
            failure.exit
        }
    }
}

fn start(task: Task, additions: Additions) -> Outcome<Exit> {
    let Task { job, launch, endpoint, cwd, log } = task;
    let env = host::program_env();
    let dirs = host::zk_dirs(&env);
    let cwd = start_directory(cwd)?;
    let host_files = host_files(&env);
    let Project { root: project, foreign } = zk_skills::project(&cwd, &host_files);
    if let Some(git) = foreign {
        let what = "so its settings and instructions are not used";
        term::print_stderr(&format!("zk: warning: {}: {}, {what}", git.path.display(), git.why));
    }
    let notices = Notices::default();
    let told = notices.clone();
    let trust = FileTrust::new(dirs.trust(), Arc::new(LocalStateFiles::default()))
        .telling(move |problem| told.show(&format!("warning: {problem}")));
    let trust = Arc::new(trust);
    let machine = Machine {
        env,
        dirs,
        host_files,
        notices,
        redactor: Arc::new(Redactor::new()),
        trust,
        stores: ChosenStore::default(),
        engine: ChosenEngine::default(),
    };
    let of_edit = (machine.clone(), project.clone(), additions.clone());
    let read = AppContext::read((cwd, project), machine, launch, endpoint, additions);
    if let (Err(_), Job::ConfigEdit { project: is_project }) = (&read, &job) {
        // An edit can repair settings that cannot be read.
        let (machine, project, additions) = of_edit;
        return commands::config_edit(&machine, &project, *is_project, additions);
    }
    #[cfg_attr(not(feature = "otel"), expect(unused_mut, reason = "only a log changes it"))]
    let (mut app, mut warnings) = read?;
    if job.needs_engine() {
        host::worker_program::take_over(&app)?;
    }
    // A conversation asks about each part instead, unless it cannot store the answers.
    let asks = app.work.machine.trust.problem().is_none()
        && matches!(&job, Job::Prompt(prompt) if mode::is_conversation(prompt));
    if !asks && !matches!(job, Job::Trust(_)) {
        warnings.extend(app.settings.untrusted_warnings(&app.work.project));
    }
    // An SDK host gets the warnings as lines, once it opens a conversation.
    for warning in warnings.iter().filter(|_| !matches!(job, Job::AgentSdk(_))) {
        term::print_stderr(&format!("zk: warning: {warning}"));
    }
    if !matches!(job, Job::Trust(_)) {
        app.work.machine.trust.tell_problem();
    }
    let key = app.given.api_key.as_ref().map(ExposeSecret::expose_secret);
    app.work.machine.env.secrets().chain(key).for_each(|secret| app.work.machine.redactor.learn(secret));
    term::redact_with(&app.work.machine.redactor);
    #[cfg(feature = "otel")]
    if let Some(wanted) = log {
        let machine = &app.work.machine;
        host::log::start(&wanted, &machine.dirs, machine.redactor.clone())?;
        app.shared.observed.has_log = true;
    }
    #[cfg(not(feature = "otel"))]
    drop(log);
    match job {
        Job::Prompt(prompt) => mode::run(&app, prompt),
        Job::Sessions(action) => commands::sessions(&app, action),
        Job::Fleet { action, json } => commands::fleet(&app, action, json),
        Job::Worker(args) => commands::worker(&app, &args),
        Job::Attach(run) => commands::attach(&app, &run),
        Job::Handoff(args) => commands::handoff(&app, &args),
        Job::Undo { count, yes, session } => commands::undo(&app, count, yes, session.as_deref()),
        Job::Redo { yes, session } => commands::redo(&app, yes, session.as_deref()),
        Job::TurnDiff { turn, session } => commands::turn_diff(&app, turn, session.as_deref()),
        Job::Memory(action) => commands::memory(&app, action),
        Job::Replay(args) => commands::replay(&app, &args),
        Job::Context { id, json } => commands::context(&app, id.as_deref(), json),
        Job::Auth(action) => commands::auth(&app, action),
        Job::ConfigGet { key, origin } => commands::config_get(&app, &key, origin),
        Job::ConfigChange { key, value, project } => commands::config_change(&app, &key, value, project),
        Job::ConfigKeys => commands::config_keys(&app.work.machine),
        Job::ConfigSchema { of_result } => commands::config_schema(&app.work.machine, of_result),
        Job::ConfigShow { origin } => commands::config_show(&app.work.machine, &app.settings, origin),
        Job::ConfigEdit { project: is_project } => commands::config_edit(
            &app.work.machine,
            &app.work.project,
            is_project,
            app.settings.additions.clone(),
        ),
        Job::Setup => commands::setup(&app),
        Job::Doctor(args) => commands::doctor(&app, args),
        Job::UpdateCheck => commands::update_check(&app),
        Job::Demo { keep } => commands::demo(&app, keep),
        Job::Shell(args) => mode::run_shell(&app, args),
        Job::Models { filter, json } => commands::models(&app, &filter, json),
        Job::Trust(action) => commands::trust(&app, &action),
        Job::Mcp(action) => commands::mcp(&app, action),
        Job::Ext(action) => commands::ext(&app, action),
        Job::Learned(action) => commands::learned(&app.work, &action),
        Job::Hooks => commands::command_hooks(&app.work.machine, &app.settings),
        Job::Logs(name) => commands::logs(&app.work.machine, name.as_deref()),
        Job::Registry => commands::registry(&app),
        Job::ManualPages(dir) => commands::manual_pages(&dir),
        Job::Completions(shell) => commands::completions(&app.work.machine, shell),
        Job::PromptShow(action) => commands::prompt_command(&app, &action),
        Job::Cost { action, by, all, json } => commands::cost(&app.work, action, by, all, json),
        Job::Skills(action) => commands::skills(&app, &action),
        Job::Plugin(action) => commands::plugin(&app, &action),
        Job::Policy(action) => commands::policy(&app, &action),
        Job::Rpc { socket, websocket } => commands::rpc(&app, socket.as_deref(), websocket),
        Job::ServeSessions { address, token_file } => {
            commands::serve_sessions(&app, address, token_file.as_deref())
        }
        Job::Web { address } => commands::web(&app, address),
        Job::RpcSchema => commands::rpc_schema(&app.work.machine),
        Job::AgentSdk(words) => commands::agent_sdk(&app, words),
        #[cfg(feature = "acp")]
        Job::Acp => commands::acp(app),
        Job::ExecServer { listen } => commands::exec_server(&app, listen.as_deref()),
    }
}

/// Returns a reader that trusts files of the person who runs this, also with `sudo`.
fn host_files(env: &ProgramEnv) -> LocalHostFiles {
    let files = LocalHostFiles::new();
    match env.text("SUDO_UID").and_then(|uid| uid.parse().ok()) {
        Some(uid) if rustix::process::geteuid().is_root() => files.trusting(uid),
        Some(_) | None => files,
    }
}

fn start_directory(cwd: Option<PathBuf>) -> Outcome<PathBuf> {
    let cwd = match cwd {
        Some(dir) => dir,
        None => std::env::current_dir().map_err(|error| {
            Failure::usage(format!("the working directory cannot be used ({error}); name one with --cwd"))
        })?,
    };
    canonical(&cwd)
}
