//! Commands about the conversations of this machine, and about runs that outlive their worker.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;

use zk_core::model::Budget;

use crate::candidates;
use crate::cli::amount;

/// Commands below `zk fleet`.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum FleetAction {
    /// Submit a run for a worker: it outlives this terminal and the worker
    Submit(SubmitArgs),
    /// List the runs: queued, running, parked at a question, and those that ended within 30 days
    Ls {
        /// Only runs that are not over
        #[arg(long)]
        active: bool,
        /// One JSON array, an object for each
        #[arg(long)]
        json: bool,
    },
    /// Show what a run says and does until it ends (0, or 1 if it failed) or waits for you (5)
    Watch {
        /// The run's id, or the beginning of it
        run: String,
    },
    /// Tell a run something, before its next turn
    Steer {
        /// The run's id, or the beginning of it
        run: String,
        /// Text of the message
        text: String,
    },
    /// Cancel a run and all its children
    Abort {
        /// The run's id, or the beginning of it
        run: String,
    },
    /// Answer the question at which a run is parked: exactly this call may run, once, or from now on in this run
    Approve(ApproveArgs),
    /// Submit the session of a failed or cancelled run again, as a new run
    Retry {
        /// The run's id, or the beginning of it
        run: String,
    },
    /// Set the whole budget of a run: one that waits for it goes on
    Raise {
        /// The run's id, or the beginning of it
        run: String,
        /// Budget of the run.
        #[command(flatten)]
        budget: BudgetArgs,
    },
    /// Bring the stored files of a run into a new directory
    Files {
        /// The run's id, or the beginning of it
        run: String,
        /// Directory that does not exist yet, or is empty
        dir: PathBuf,
    },
    /// Show the runs that are not over and the workers, again and again; once, where nobody watches
    Top {
        /// Show them once
        #[arg(long)]
        once: bool,
    },
    /// Serve the runs over HTTP on this machine: list, events, submit, steer, abort, approve; each token sees its tenant
    Serve(FleetServeArgs),
    /// Ask workers to end: their runs go on with other workers
    Drain {
        /// Name of the worker; all workers without
        worker: Option<String>,
    },
    /// Submit a run again and again by the clock; without a name, list the schedules
    Schedule(ScheduleArgs),
    /// Prepare the database of the engine that the settings name, once
    Setup,
    /// Stop the run of a conversation: its autonomous goal pauses. One without a process leaves the list
    Stop {
        /// The id, or the beginning of it or of the session's
        id: String,
    },
    /// Answer the question that a conversation or a run waits with; a permission can only be refused
    Answer {
        /// The id of a run or a conversation, or the beginning of it or of the conversation's session
        id: String,
        /// The number of a choice, yes, no, or a text
        answer: String,
    },
    /// Go on with the session of a conversation whose process is gone
    Attach {
        /// The id, or the beginning of it or of the session's
        id: String,
    },
}

impl FleetAction {
    /// Whether the action works with the runs of an engine, not with the conversations of this machine.
    #[must_use]
    pub fn needs_engine(&self) -> bool {
        match self {
            Self::Submit(_)
            | Self::Ls { .. }
            | Self::Watch { .. }
            | Self::Steer { .. }
            | Self::Abort { .. }
            | Self::Approve(_)
            | Self::Drain { .. }
            | Self::Schedule(_)
            | Self::Setup
            | Self::Retry { .. }
            | Self::Raise { .. }
            | Self::Files { .. }
            | Self::Top { .. }
            | Self::Serve(_) => true,
            Self::Stop { .. } | Self::Answer { .. } | Self::Attach { .. } => false,
        }
    }
}

/// Place of a run.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct PlacementArgs {
    /// Queue of the run; workers take from all queues, or from those that they name
    #[arg(long, value_name = "NAME")]
    pub queue: Option<String>,
    /// Workspace, by a name that the worker knows (`zk worker --workspace NAME=DIR`); this directory without
    #[arg(long, value_name = "NAME")]
    pub workspace: Option<String>,
    /// Store the files of this directory (`fleet.workspaces`): the run works on them in a private directory of whichever worker
    /// has it, and goes on with them elsewhere
    #[arg(long, conflicts_with = "workspace")]
    pub keep: bool,
    /// Run on this machine alone, in this directory: on its queue `host:NAME`, and handed back by workers elsewhere
    #[arg(long, conflicts_with_all = ["workspace", "keep"])]
    pub pin: bool,
    /// Priority from -128 to 127: runs with a larger one begin first
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub priority: i8,
    /// Id of the run: what is submitted again under it is submitted once
    #[arg(long, value_name = "ID")]
    pub run: Option<String>,
    /// Budget of the run; that of the worker's settings without
    #[command(flatten)]
    pub budget: BudgetArgs,
}

/// Budget of a run: what it may spend with its child runs before it waits for you.
#[derive(Clone, Copy, Debug, Default, PartialEq, Args)]
pub struct BudgetArgs {
    /// Most US dollars that the run may spend with its children; then it waits for `zk fleet raise`
    #[arg(long, value_name = "USD", value_parser = amount)]
    pub budget_usd: Option<f64>,
    /// Most tokens of all kinds that the run may take with its children
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub budget_tokens: Option<u64>,
}

impl BudgetArgs {
    /// Returns the budget, if one was given.
    #[must_use]
    pub fn budget(&self) -> Option<Budget> {
        let budget = Budget { usd: self.budget_usd, tokens: self.budget_tokens };
        (!budget.is_unlimited()).then_some(budget)
    }
}

/// Run that `zk fleet submit` submits.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct SubmitArgs {
    /// Prompt of the run
    pub text: String,
    /// Place of the run.
    #[command(flatten)]
    pub placement: PlacementArgs,
}

/// Answer that `zk fleet approve` gives.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ApproveArgs {
    /// The run's id, or the beginning of it
    pub run: String,
    /// Show the question and answer nothing
    #[arg(long, conflicts_with_all = ["no", "digest", "for_session", "always"])]
    pub show: bool,
    /// Refuse the call
    #[arg(long, conflicts_with_all = ["for_session", "always"])]
    pub no: bool,
    /// Further calls that a yes is for.
    #[command(flatten)]
    pub grant: GrantArgs,
    /// Words to the model, with --no
    #[arg(long, value_name = "TEXT", requires = "no")]
    pub because: Option<String>,
    /// Digest of the call that you read, where nobody can be asked
    #[arg(long, value_name = "DIGEST", conflicts_with = "no")]
    pub digest: Option<String>,
}

/// Further calls that a yes lets run; none without.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct GrantArgs {
    /// Let equal calls run too, for the rest of the run, on any worker
    #[arg(long)]
    pub for_session: bool,
    /// Let equal calls run too, for the rest of the run on any worker, and in later sessions of the worker that goes on
    #[arg(long, conflicts_with = "for_session")]
    pub always: bool,
}

/// Schedule that `zk fleet schedule` sets.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ScheduleArgs {
    /// Name of the schedule
    #[arg(requires = "what")]
    pub name: Option<String>,
    /// Prompt of each run
    #[arg(group = "what", requires = "when")]
    pub text: Option<String>,
    /// Time between two runs, such as 90s, 15m, 6h or 1d
    #[arg(long, value_name = "TIME", group = "when")]
    pub every: Option<String>,
    /// Time of each day in UTC, such as 03:30
    #[arg(long, value_name = "HH:MM", group = "when")]
    pub daily: Option<String>,
    /// Times as a cron line, such as "30 3 * * 1-5", in UTC unless it ends with a zone such as Europe/Berlin
    #[arg(long, value_name = "LINE", group = "when")]
    pub cron: Option<String>,
    /// Remove the schedule; its runs stay
    #[arg(long, group = "what")]
    pub remove: bool,
    /// Queue of the runs
    #[arg(long, value_name = "NAME")]
    pub queue: Option<String>,
    /// Workspace of the runs, by a name that the worker knows; this directory without
    #[arg(long, value_name = "NAME")]
    pub workspace: Option<String>,
}

/// Options of `zk fleet serve`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct FleetServeArgs {
    /// Address of this machine to listen at
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// File with a line `TENANT TOKEN` for each client, `*` for all runs; made with one token if it is missing. Without
    /// it, auth/fleet-tokens of zk's state, or the variable ZK_FLEET_TOKEN with a token for all runs
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Options of `zk worker`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct WorkerArgs {
    /// Name of the worker, unique among those that serve; without it the first free one of worker-1, worker-2, …
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Take runs of this queue only; may be repeated
    #[arg(long, value_name = "NAME")]
    pub queue: Vec<String>,
    /// End once no run is ready
    #[arg(long)]
    pub once: bool,
    /// Most runs at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub legs: u16,
    /// Directory of a workspace that runs name; may be repeated
    #[arg(long, value_name = "NAME=DIR")]
    pub workspace: Vec<String>,
}

/// Session that `zk handoff` makes a run.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct HandoffArgs {
    /// Prompt of the run; a session that was interrupted goes on without
    pub text: Option<String>,
    /// The session's id, or the beginning of it; the newest one of this directory without
    #[arg(long, value_name = "ID", add = ArgValueCompleter::new(candidates::sessions))]
    pub session: Option<String>,
    /// Place of the run.
    #[command(flatten)]
    pub placement: PlacementArgs,
}

impl WorkerArgs {
    /// Workspaces by name, as they were given.
    pub fn workspaces(&self) -> impl Iterator<Item = Result<(&str, PathBuf), &str>> {
        self.workspace.iter().map(|given| match given.split_once('=') {
            Some((name, dir)) if !dir.is_empty() => Ok((name, PathBuf::from(dir))),
            Some(_) | None => Err(given.as_str()),
        })
    }
}
