use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::GRACE;
use super::group::{Ask, Group};
use super::warden::Warden;

/// How often groups that are to end are looked at.
const TICK: Duration = Duration::from_millis(50);

/// The thread all commands are started from, and which ends those nobody waits for any more.
///
/// The kernel ties a child to the *thread* that started it. Threads of a runtime come and go, so commands
/// are started from one that lives as long as the [`ProcessExec`](super::ProcessExec).
#[derive(Debug)]
pub(super) struct Keeper {
    mark: String,
    thread: Mutex<Option<Thread>>,
}

#[derive(Debug)]
struct Thread {
    jobs: mpsc::Sender<Job>,
    handle: JoinHandle<()>,
}

enum Job {
    Spawn { command: Box<Command>, runtime: Handle, reply: oneshot::Sender<io::Result<Child>> },
    End(Group),
}

impl Keeper {
    pub(super) fn new(mark: String) -> Self {
        Self { mark, thread: Mutex::new(None) }
    }

    /// Starts a command.
    pub(super) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let (reply, started) = oneshot::channel();
        self.jobs()?
            .send(Job::Spawn { command: Box::new(command), runtime, reply })
            .map_err(|_| io::Error::other("the thread that starts commands is gone"))?;
        started.await.map_err(io::Error::other)?
    }

    /// Ties `group` to a guard: dropping it has the group ended.
    pub(super) fn watch(&self, group: Group) -> Watched {
        Watched { group, jobs: self.jobs().ok(), armed: true }
    }

    /// Everything ever started here, if anything was.
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
        let handle = std::thread::Builder::new().name("zk-exec".into()).spawn(move || keep(&queue, &mark))?;
        *thread = Some(Thread { jobs: jobs.clone(), handle });
        Ok(jobs)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Thread { jobs, handle }) = thread {
            drop(jobs);
            // Waits for the final kill, a few milliseconds, so that it happens before this process ends.
            let _ = handle.join();
        }
    }
}

/// A group that is ended when this is dropped.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) group: Group,
    jobs: Option<mpsc::Sender<Job>>,
    armed: bool,
}

impl Watched {
    /// The command is over; what it left behind may go on.
    pub(super) fn release(mut self) {
        self.armed = false;
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let sent = self.jobs.take().and_then(|jobs| jobs.send(Job::End(self.group.clone())).ok());
        if sent.is_none() {
            self.group.signal_group(Ask::Kill);
        }
    }
}

/// The thread's work, until every sender is gone.
fn keep(queue: &mpsc::Receiver<Job>, mark: &str) {
    let mut warden = None;
    let mut ending: Vec<(Group, Instant)> = Vec::new();
    loop {
        let job = if ending.is_empty() {
            queue.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            queue.recv_timeout(TICK)
        };
        match job {
            Ok(Job::Spawn { command, runtime, reply }) => {
                start(*command, &runtime, reply);
                if warden.is_none() {
                    warden = Some(Warden::start(mark, &runtime));
                }
            }
            Ok(Job::End(group)) => {
                group.signal_now(Ask::End);
                ending.push((group, Instant::now() + GRACE));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        ending.retain(|(group, until)| {
            if Instant::now() >= *until {
                group.signal_now(Ask::Kill);
                return false;
            }
            !group.members_now().is_empty()
        });
    }
    for (group, _) in ending {
        group.signal_group(Ask::Kill);
    }
    Group::of_instance(mark).signal_now(Ask::Kill);
    drop(warden);
}

fn start(mut command: Command, runtime: &Handle, reply: oneshot::Sender<io::Result<Child>>) {
    let child = {
        let _inside = runtime.enter();
        command.spawn()
    };
    if let Err(Ok(child)) = reply.send(child) {
        // Nobody waits for it any more.
        let group = child.id().map(|pid| Group::new(pid, ""));
        if let Some(group) = group {
            group.signal_group(Ask::Kill);
        }
        let _inside = runtime.enter();
        drop(child);
    }
}
