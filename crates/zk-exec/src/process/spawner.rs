use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::GRACE;
use super::group::{Ask, Group};
use super::process_table;
use super::started::{Started, Tree, Waiter};
use super::watchdog::Watchdog;

/// Interval between checks of groups that are ending.
const ENDING_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Thread from which all commands are started, and which ends groups whose guard was dropped.
///
/// The kernel ties a child to the *thread* that started it. Threads of a runtime come and go, so commands are
/// started from a thread that lives as long as the [`ProcessExec`](super::ProcessExec).
#[derive(Debug)]
pub(super) struct Spawner {
    mark: String,
    thread: Mutex<Option<Thread>>,
}

#[derive(Debug)]
struct Thread {
    jobs: mpsc::Sender<Job>,
    handle: JoinHandle<()>,
}

enum Job {
    Spawn(Box<Order>),
    End(Group),
    /// Kill everything and end the thread, even while guards of commands exist.
    Close,
}

/// Request to start a command.
struct Order {
    command: Command,
    mark: String,
    runtime: Handle,
    /// Sender for the command's guard, which is made together with the command.
    jobs: mpsc::Sender<Job>,
    reply: oneshot::Sender<io::Result<Started>>,
}

impl Spawner {
    pub(super) fn new(mark: String) -> Self {
        Self { mark, thread: Mutex::new(None) }
    }

    /// Starts a command; dropping its guard ends all processes marked `mark`.
    pub(super) async fn spawn(&self, command: Command, mark: String) -> io::Result<Started> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let (reply, started) = oneshot::channel();
        let jobs = self.jobs()?;
        jobs.send(Job::Spawn(Box::new(Order { command, mark, runtime, jobs: jobs.clone(), reply })))
            .map_err(|_| io::Error::other("the thread that starts commands is gone"))?;
        drop(jobs);
        started.await.map_err(io::Error::other)?
    }

    /// Group of all commands that this spawner started; `None` if there were none.
    pub(super) fn everything(&self) -> Option<Group> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().map(|_| Group::of_instance(&self.mark))
    }

    fn jobs(&self) -> io::Result<mpsc::Sender<Job>> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = &*thread {
            return Ok(thread.jobs.clone());
        }
        let (jobs, queue) = mpsc::channel();
        let mark = self.mark.clone();
        let handle =
            std::thread::Builder::new().name("zk-exec".into()).spawn(move || run_thread(&queue, &mark))?;
        *thread = Some(Thread { jobs: jobs.clone(), handle });
        Ok(jobs)
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Thread { jobs, handle }) = thread {
            // Sent explicitly, since guards hold senders, too: a task that holds one may need the very thread
            // that waits here.
            let _ = jobs.send(Job::Close);
            // Waits a few milliseconds for the final kill, so that it happens before this process ends.
            let _ = handle.join();
        }
    }
}

/// Guard of a process group: the drop ends the group.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) group: Group,
    jobs: mpsc::Sender<Job>,
    armed: bool,
}

impl Watched {
    /// Gives up the guard after the command's end; background processes continue.
    pub(super) fn release(mut self) {
        self.armed = false;
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.armed && self.jobs.send(Job::End(self.group.clone())).is_err() {
            self.group.signal_group(Ask::Kill);
        }
    }
}

/// Body of the thread, until it is closed.
fn run_thread(queue: &mpsc::Receiver<Job>, mark: &str) {
    let mut watchdog = None;
    let mut ending: Vec<Ending> = Vec::new();
    let mut next_look = Instant::now();
    loop {
        let job = if ending.is_empty() {
            queue.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            queue.recv_timeout(next_look.saturating_duration_since(Instant::now()))
        };
        match job {
            Ok(Job::Spawn(order)) => {
                // Started before the first command, since this process may be killed at any moment.
                watchdog.get_or_insert_with(|| Watchdog::start(mark, &order.runtime));
                start(*order);
            }
            Ok(Job::End(group)) => {
                group.signal_group(Ask::End);
                if ending.is_empty() {
                    next_look = Instant::now();
                }
                ending.push(Ending::new(group));
            }
            Err(RecvTimeoutError::Timeout) => {
                check_ending(&mut ending);
                next_look = Instant::now() + ENDING_CHECK_INTERVAL;
            }
            Ok(Job::Close) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    for Ending { group, .. } in ending {
        group.signal_group(Ask::Kill);
    }
    Group::of_instance(mark).signal_now(Ask::Kill);
    drop(watchdog);
}

/// Group that was asked to end.
struct Ending {
    group: Group,
    kill_at: Instant,
    /// Whether members outside the process group were signalled.
    asked: bool,
    /// Scans in a row without members.
    nothing: u8,
}

impl Ending {
    fn new(group: Group) -> Self {
        Self { group, kill_at: Instant::now() + GRACE, asked: false, nothing: 0 }
    }
}

/// Scans all processes once for all ending groups.
fn check_ending(ending: &mut Vec<Ending>) {
    let groups: Vec<&Group> = ending.iter().map(|one| &one.group).collect();
    let looks = process_table::scan(&groups);
    let now = Instant::now();
    for (one, look) in ending.iter_mut().zip(looks) {
        if now >= one.kill_at {
            one.group.signal_group(Ask::Kill);
            Ask::Kill.signal_all(&look.members);
        } else if !one.asked && !look.members.is_empty() {
            one.asked = true;
            Ask::End.signal_all(&look.members);
        }
        one.nothing = if look.members.is_empty() && !look.unclear { one.nothing + 1 } else { 0 };
    }
    // A group that survives `KILL` for a second is stuck in the kernel, and is given up.
    ending.retain(|one| one.nothing < 2 && now < one.kill_at + Duration::from_secs(1));
}

fn start(order: Order) {
    let Order { mut command, mark, runtime, jobs, reply } = order;
    let _inside = runtime.enter();
    let started = command.spawn().and_then(|child| {
        let lost = || io::Error::other("it has no process id");
        let pid = child.id().ok_or_else(lost)?;
        let tree = Tree::Marked(Watched { group: Group::new(pid, &mark), jobs, armed: true });
        Ok(Started { waiter: Waiter::Child(child), tree })
    });
    // If the caller stopped waiting, the guard in the reply is dropped and ends the command.
    let _ = reply.send(started);
}
