use async_trait::async_trait;
use zk_core::service::{Denial, DeniedAct, Exec, ExecError, ExecRequest, Process};

use crate::wire::{put_len, take_len};

/// Resource limits of one command with all its descendants; `None` sets no limit.
///
/// | limit | where it is enforced |
/// |---|---|
/// | memory, processes | by a cgroup v2 where this user may make one; otherwise the supervising process checks 20 times a second and kills the whole tree, and `RLIMIT_DATA` bounds each process to the memory |
/// | output | by the reader of the output, which kills the command |
///
/// Without a supervisor and a cgroup the memory of each single process is limited, and the number of processes is not.
///
/// ```
/// use zk_exec::Limits;
///
/// let limits = Limits { memory: Some(512 << 20), ..Limits::default() };
/// assert!(limits.output.is_none());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "remote", derive(serde::Serialize, serde::Deserialize))]
pub struct Limits {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads at a time.
    pub processes: Option<u32>,
    /// Bytes of output, standard error included.
    pub output: Option<u64>,
}

/// Executor whose callers may set tighter limits for one command; the interface that an exec-server uses.
#[async_trait]
pub trait BoundedExec: Exec {
    /// Starts a command as [`Exec::spawn`] does, within these limits and the executor's own.
    async fn spawn_within(&self, request: ExecRequest, limits: Limits)
    -> Result<Box<dyn Process>, ExecError>;
}

/// Limit that a command exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Memory,
    Processes,
    Output,
}

impl Exceeded {
    pub(crate) const fn to_number(self) -> u32 {
        match self {
            Self::Memory => 1,
            Self::Processes => 2,
            Self::Output => 3,
        }
    }

    pub(crate) const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Memory),
            2 => Some(Self::Processes),
            3 => Some(Self::Output),
            _ => None,
        }
    }
}

impl Limits {
    /// Combines two sets of limits: the lower value of each.
    pub(crate) fn within(self, other: Self) -> Self {
        fn lower<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            }
        }
        Self {
            memory: lower(self.memory, other.memory),
            processes: lower(self.processes, other.processes),
            output: lower(self.output, other.output),
        }
    }

    /// Names a limit that only this program enforces, by checks while the command runs; `None` if there is
    /// none. Without these checks each process has its own memory bound, but output and the number of
    /// processes are unbounded.
    pub(crate) fn watched_limit(self) -> Option<&'static str> {
        match self {
            Self { processes: Some(_), .. } => Some("processes"),
            Self { output: Some(_), .. } => Some("output"),
            Self { processes: None, output: None, .. } => None,
        }
    }

    /// Removes the limits that a cgroup already enforces.
    pub(crate) fn without(self, by_cgroup: Self) -> Self {
        Self {
            memory: self.memory.filter(|_| by_cgroup.memory.is_none()),
            processes: self.processes.filter(|_| by_cgroup.processes.is_none()),
            output: self.output,
        }
    }

    pub(crate) fn denial(self, exceeded: Exceeded) -> Denial {
        let target = match exceeded {
            Exceeded::Memory => format!("memory above {}", size(self.memory.unwrap_or_default())),
            Exceeded::Processes => format!("more than {} processes", self.processes.unwrap_or_default()),
            Exceeded::Output => format!("output above {}", size(self.output.unwrap_or_default())),
        };
        Denial { act: DeniedAct::Exceed, target, reason: "of one command".into() }
    }

    /// Recognises from the last output of a failed command that it ran out of memory.
    pub(crate) fn in_output(self, output: &str) -> Option<Exceeded> {
        const NO_MEMORY: [&str; 9] = [
            "annot allocate",
            "allocation failed",
            "MemoryError",
            "ENOMEM",
            "bad_alloc",
            "memory exhausted",
            "memory allocation of",
            "out of memory",
            "Out of memory",
        ];
        let says_so = self.memory.is_some() && NO_MEMORY.iter().any(|text| output.contains(text));
        says_so.then_some(Exceeded::Memory)
    }

    /// Encodes the limits that the supervising process enforces.
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put_len(out, self.memory.map_or(0, |bytes| usize::try_from(bytes.max(1)).unwrap_or(usize::MAX)));
        put_len(out, self.processes.map_or(0, |most| usize::try_from(most.max(1)).unwrap_or(usize::MAX)));
    }

    /// Decodes the result of [`Limits::encode`].
    pub(crate) fn decode(from: &mut &[u8]) -> Option<Self> {
        let memory = take_len(from)? as u64;
        let processes = u32::try_from(take_len(from)?).ok()?;
        let (memory, processes) = ((memory > 0).then_some(memory), (processes > 0).then_some(processes));
        Some(Self { memory, processes, output: None })
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
