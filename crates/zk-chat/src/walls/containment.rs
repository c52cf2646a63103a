//! Containment of commands that run without a question: the execution context and the permission mode, which
//! depend on each other.

use std::fmt::Display;

use zk_exec::SandboxExec;
use zk_permission::Mode;

/// Sandboxes that the program sets up by its settings, each with its self-test.
pub trait Sandboxes {
    /// Reason why a sandbox cannot be used.
    type Error: Display;

    /// Sets up the sandbox of commands.
    ///
    /// # Errors
    /// When the machine refuses it, or its self-test fails.
    fn start(&self) -> Result<SandboxExec, Self::Error>;

    /// Sets up the read-only sandbox, without a network, of commands that run without a question because they
    /// only read.
    ///
    /// # Errors
    /// When the machine refuses it, or its self-test fails.
    fn start_for_reads(&self) -> Result<SandboxExec, Self::Error>;

    /// Sets up the sandbox of commands, without namespaces where the machine refuses them; returns the reason
    /// for that.
    ///
    /// # Errors
    /// When the machine refuses that too.
    fn start_or_degrade(&self) -> Result<(SandboxExec, Option<String>), Self::Error>;
}

/// Requested context and permission mode.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContainmentRequest<'a> {
    /// Execution context as it was written; `None` if none was named.
    pub context: Option<&'a str>,
    /// The context, if it is another machine or a container.
    pub elsewhere: Option<&'a str>,
    /// Named permission mode.
    pub mode: Option<Mode>,
    /// Whether the sandbox has the network.
    pub has_network: bool,
}

/// Reason why a conversation cannot start with the requested context and mode.
#[derive(Debug, thiserror::Error)]
pub enum ContainmentError<E: Display> {
    /// The mode `auto` was requested for a sandbox with the network.
    #[error(
        "the permission mode auto needs a sandbox without the network: set sandbox.network to none or loopback"
    )]
    AutoWithNetwork,
    /// The mode `auto` was requested for another context.
    #[error("the permission mode auto needs the sandbox, and commands run in the context {context}")]
    AutoElsewhere {
        /// Context as it was written.
        context: String,
    },
    /// The requested sandbox cannot be used.
    #[error("{0}")]
    Sandbox(E),
}

/// State of the read-only sandbox at the start of a conversation.
#[derive(Debug)]
pub enum ForReads {
    /// The self-test passed.
    Tested(Box<SandboxExec>),
    /// Not tested yet, since the mode does not use it. Tested with the first command in a stricter mode.
    Later,
    /// No read-only sandbox exists in this execution context.
    Absent,
}

impl ForReads {
    /// Whether the self-test passed.
    #[must_use]
    pub fn is_tested(&self) -> bool {
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
pub struct Containment {
    /// Permission mode at the start.
    pub mode: Mode,
    /// Sandbox of commands; `None` for the process context.
    pub sandbox: Option<SandboxExec>,
    /// Whether commands can reach nothing outside of the sandbox, and no other machine.
    pub is_contained: bool,
    /// Place of commands outside of this machine's processes: `docker:IMAGE` or `remote:ADDRESS`.
    pub elsewhere: Option<String>,
    /// Read-only sandbox for commands that run without a question because they only read. Absent in another
    /// context that the person selected.
    pub for_reads: ForReads,
    /// Whether reads run unsandboxed, so that only programs without configuration may run as reads.
    pub restricts_reads: bool,
    /// Reason why the sandbox cannot be used, if it would have been.
    pub problem: Option<String>,
    /// Reason why the read-only sandbox cannot be used, in addition to the one of all commands.
    pub reads_problem: Option<String>,
}

impl Containment {
    /// Selects the containment for a request, and tests the sandbox.
    ///
    /// # Errors
    /// When the mode `auto` is requested without a sandbox that holds commands, or a requested sandbox cannot be
    /// used.
    pub fn select<S: Sandboxes>(
        request: ContainmentRequest<'_>,
        sandboxes: &S,
    ) -> Result<Self, ContainmentError<S::Error>> {
        let ContainmentRequest { context, elsewhere, mode: named, has_network } = request;
        let elsewhere = elsewhere.map(str::to_owned);
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
                match sandboxes.start_for_reads() {
                    Ok(exec) => Self { for_reads: ForReads::Tested(Box::new(exec)), ..found },
                    Err(error) if found.sandbox.is_some() => {
                        Self { restricts_reads: true, reads_problem: Some(error.to_string()), ..found }
                    }
                    Err(error) => Self { restricts_reads: true, problem: Some(error.to_string()), ..found },
                }
            }
        };
        let contained = |mode, exec| {
            with_reads_held(Self {
                sandbox: Some(exec),
                is_contained: !has_network,
                elsewhere: None,
                ..process(mode)
            })
        };
        match (context, named) {
            (Some("sandbox") | None, Some(Mode::Auto)) if has_network => {
                Err(ContainmentError::AutoWithNetwork)
            }
            (Some("sandbox") | None, Some(Mode::Auto)) => {
                Ok(contained(Mode::Auto, sandboxes.start().map_err(ContainmentError::Sandbox)?))
            }
            (Some("sandbox"), named) => {
                let (exec, problem) = sandboxes.start_or_degrade().map_err(ContainmentError::Sandbox)?;
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
            (Some(context), Some(Mode::Auto)) => {
                Err(ContainmentError::AutoElsewhere { context: context.to_owned() })
            }
            (Some(_), named) => Ok(process(named.unwrap_or_default())),
            (None, Some(mode)) => Ok(with_reads_held(process(mode))),
            (None, None) if has_network => Ok(with_reads_held(process(Mode::Ask))),
            (None, None) => Ok(match sandboxes.start() {
                Ok(exec) => contained(Mode::Auto, exec),
                // A directory that is too broad for a writable sandbox can still be read in the read-only
                // one.
                Err(error) => {
                    Self { problem: Some(error.to_string()), ..with_reads_held(process(Mode::Ask)) }
                }
            }),
        }
    }

    /// Returns the context of commands, as it is recorded.
    #[must_use]
    pub fn context(&self) -> String {
        match (&self.sandbox, &self.elsewhere) {
            (Some(_), _) => "sandbox".to_owned(),
            (None, Some(context)) => context.clone(),
            (None, None) => "process".to_owned(),
        }
    }

    /// Place of a command that a person allows, for a sentence.
    #[must_use]
    pub fn place(&self) -> String {
        match (&self.sandbox, &self.elsewhere) {
            (Some(_), _) => "the sandbox".to_owned(),
            (None, Some(context)) => context.clone(),
            (None, None) => "a process of yours".to_owned(),
        }
    }

    /// Sentence on a sandbox that cannot be used, or not in full; `None` if nothing is missing.
    #[must_use]
    pub fn describe_loss(&self) -> Option<String> {
        let asks = match self.mode {
            Mode::All => "",
            Mode::ReadOnly | Mode::Ask | Mode::AcceptEdits | Mode::Auto => " and zk asks about them",
        };
        match (&self.problem, &self.sandbox) {
            (Some(problem), None) => {
                Some(format!("commands run without the sandbox{asks} (mode {}): {problem}", self.mode))
            }
            (Some(_), Some(_)) => Some(self.describe()),
            (None, _) => self.reads_problem.as_ref().map(|_| self.describe()),
        }
    }

    /// Describes the containment in one line.
    #[must_use]
    pub fn describe(&self) -> String {
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
