//! Containment of commands and what runs unasked: context and permission mode, which depend on each other.

use zk_exec::settings::NetworkSetting;
use zk_exec::{Environment, SandboxExec};
use zk_permission::Mode;

use crate::app::Workplace;
use crate::exit::{Failure, Outcome};
use crate::sandbox;
use crate::settings::{Layer, Settings};

/// State of the read-only sandbox at the start of a conversation.
#[derive(Debug)]
pub(crate) enum ForReads {
    /// The self-test passed.
    Tested(Box<SandboxExec>),
    /// Not tested yet, since the mode does not use it. Tested with the first command in a stricter mode.
    Later,
    /// There is none in this context.
    Absent,
}

impl ForReads {
    pub(crate) fn is_tested(&self) -> bool {
        matches!(self, Self::Tested(_))
    }
}

/// Context and mode of a conversation.
///
/// | mode | context | then |
/// |---|---|---|
/// | none named | none named | `auto` in the sandbox where its self-test passes, else `ask` in the process context |
/// | none named | `sandbox` | `auto`; `ask` if the sandbox has the network, or the machine refuses namespaces |
/// | none named | `process` | `ask` |
/// | `auto` | none named, or `sandbox` | `auto` in the sandbox, or a refusal to start |
/// | another | none named | that mode, in the process context |
///
/// Commands that run unasked, as reads, run in a read-only sandbox in each of them, unless a context other
/// than the sandbox was named.
#[derive(Debug)]
pub(crate) struct Containment {
    pub(crate) mode: Mode,
    /// Sandbox of commands; `None` for the process context.
    pub(crate) sandbox: Option<SandboxExec>,
    /// Whether commands can reach nothing outside of the sandbox, and no other machine.
    pub(crate) is_contained: bool,
    /// Place of commands outside of this machine's processes: `docker:IMAGE` or `remote:ADDRESS`.
    pub(crate) elsewhere: Option<String>,
    /// Read-only sandbox for commands that run without a question because they only read. Absent in another
    /// context that the person selected.
    pub(crate) for_reads: ForReads,
    /// Whether reads run unsandboxed, so that only programs without configuration may run as reads.
    pub(crate) restricts_reads: bool,
    /// Reason why the sandbox cannot be used, if it would have been.
    pub(crate) problem: Option<String>,
    /// Reason why the read-only sandbox cannot be used, in addition to the one of all commands.
    pub(crate) reads_problem: Option<String>,
}

impl Containment {
    /// Selects the containment by the settings, and tests the sandbox.
    pub(crate) fn of(work: &Workplace, settings: &Settings, allow_all: bool) -> Outcome<Self> {
        let has_network = settings.sandbox.network == NetworkSetting::All;
        let named = named_mode(settings, allow_all)?;
        let elsewhere = settings.context_elsewhere().map(str::to_owned);
        let process = |mode| Self {
            mode,
            sandbox: None,
            is_contained: false,
            elsewhere: elsewhere.clone(),
            for_reads: ForReads::Absent,
            restricts_reads: false,
            problem: None,
            reads_problem: None,
        };
        let with_reads_held = |found: Self| match found.mode {
            // No question is asked in this mode, but the person may select a stricter one later.
            Mode::All => Self { for_reads: ForReads::Later, restricts_reads: true, ..found },
            Mode::ReadOnly | Mode::Ask | Mode::AcceptEdits | Mode::Auto => {
                match sandbox::start_for_reads(
                    work,
                    settings,
                    Environment::filtered(work.machine.env.without_secrets()),
                ) {
                    Ok(exec) => Self { for_reads: ForReads::Tested(Box::new(exec)), ..found },
                    Err(failure) if found.sandbox.is_some() => {
                        Self { restricts_reads: true, reads_problem: Some(failure.message), ..found }
                    }
                    Err(failure) => Self { restricts_reads: true, problem: Some(failure.message), ..found },
                }
            }
        };
        let start =
            || sandbox::start(work, settings, Environment::filtered(work.machine.env.without_secrets()));
        let contained = |mode, exec| {
            with_reads_held(Self {
                sandbox: Some(exec),
                is_contained: !has_network,
                elsewhere: None,
                ..process(mode)
            })
        };
        match (settings.context_text(), named) {
            (Some("sandbox") | None, Some(Mode::Auto)) if has_network => Err(Failure::usage(
                "the permission mode auto needs a sandbox without the network: set sandbox.network to none or loopback",
            )),
            (Some("sandbox") | None, Some(Mode::Auto)) => Ok(contained(Mode::Auto, start()?)),
            (Some("sandbox"), named) => {
                let environment = Environment::filtered(work.machine.env.without_secrets());
                let (exec, problem) = sandbox::start_or_degrade(work, settings, environment)?;
                let is_whole = problem.is_none() && !has_network;
                let usual = if is_whole { Mode::Auto } else { Mode::Ask };
                let mode = named.unwrap_or(usual);
                match problem {
                    None => Ok(contained(mode, exec)),
                    // Without namespaces, the read-only sandbox cannot be set up either.
                    Some(_) => Ok(Self {
                        sandbox: Some(exec),
                        elsewhere: None,
                        restricts_reads: true,
                        problem,
                        ..process(mode)
                    }),
                }
            }
            (Some(context), Some(Mode::Auto)) => Err(Failure::usage(format!(
                "the permission mode auto needs the sandbox, and commands run in the context {context}: choose \
                 --run-in sandbox"
            ))),
            (Some(_), named) => Ok(process(named.unwrap_or_default())),
            (None, Some(mode)) => Ok(with_reads_held(process(mode))),
            (None, None) if has_network => Ok(with_reads_held(process(Mode::Ask))),
            (None, None) => Ok(match start() {
                Ok(exec) => contained(Mode::Auto, exec),
                // A directory that is too broad for a writable sandbox can still be read in the read-only
                // one.
                Err(failure) => {
                    Self { problem: Some(failure.message), ..with_reads_held(process(Mode::Ask)) }
                }
            }),
        }
    }

    /// Returns the context of commands, as it is recorded.
    pub(crate) fn context(&self) -> String {
        match (&self.sandbox, &self.elsewhere) {
            (Some(_), _) => "sandbox".to_owned(),
            (None, Some(context)) => context.clone(),
            (None, None) => "process".to_owned(),
        }
    }

    /// Place of a command that a person allows, for a sentence.
    pub(crate) fn place(&self) -> String {
        match (&self.sandbox, &self.elsewhere) {
            (Some(_), _) => "the sandbox".to_owned(),
            (None, Some(context)) => context.clone(),
            (None, None) => "a process of yours".to_owned(),
        }
    }

    /// Describes the containment in one line.
    pub(crate) fn describe(&self) -> String {
        let Self {
            mode,
            sandbox,
            is_contained,
            elsewhere,
            for_reads,
            restricts_reads,
            problem,
            reads_problem,
        } = self;
        let place = match (sandbox, is_contained, elsewhere) {
            (Some(_), _, _) if problem.is_some() => {
                "commands are held by Landlock and seccomp alone: protected files of the project can be changed".to_owned()
            }
            (Some(_), true, _) => "commands run in the sandbox".to_owned(),
            (Some(_), false, _) => "commands run in the sandbox, with the network".to_owned(),
            (None, _, Some(context)) => format!("commands run in {context}"),
            (None, _, None) if for_reads.is_tested() => {
                "commands run as processes of yours, those that run unasked because they only read in a read-only sandbox"
                    .to_owned()
            }
            (None, _, None) if *restricts_reads && *mode != Mode::All => {
                "commands run as processes of yours, and unasked only programs that read without configuration of their own"
                    .to_owned()
            }
            (None, _, None) => "commands run as processes of yours".to_owned(),
        };
        let why = problem.as_ref().map_or(String::new(), |problem| format!(", since {problem}"));
        let reads = match reads_problem {
            None if sandbox.is_some() && for_reads.is_tested() => {
                ", those that only read in a read-only one".to_owned()
            }
            None => String::new(),
            Some(problem) => {
                format!(", those that only read as well, since there is no read-only one: {problem}")
            }
        };
        format!("mode {mode}, {place}{reads}{why}")
    }
}

/// Returns the configured permission mode, if any.
pub(crate) fn named_mode(settings: &Settings, allow_all: bool) -> Outcome<Option<Mode>> {
    let named = settings.permissions.mode;
    let layer = |key| settings.origin(key).map_or(Layer::Default, |origin| origin.layer);
    let (of_mode, of_flag) = (layer("permissions.mode"), layer("permissions.allow_all"));
    Ok(match named {
        _ if allow_all && of_mode <= of_flag => Some(Mode::All),
        // A setting of higher rank forbids running everything.
        Some(Mode::All) if !allow_all && of_flag > of_mode => Some(Mode::Ask),
        named => named,
    })
}

/// Returns the widest mode that the machine's administrator allows.
pub(crate) fn widest_mode(settings: &Settings) -> Mode {
    let is_managed = |key| settings.origin(key).is_some_and(|origin| origin.layer == Layer::Managed);
    match settings.permissions.mode.filter(|_| is_managed("permissions.mode")) {
        Some(mode) => mode,
        None if is_managed("permissions.allow_all") && !settings.permissions.allow_all => Mode::Auto,
        None => Mode::All,
    }
}
