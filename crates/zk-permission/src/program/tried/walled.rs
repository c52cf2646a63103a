use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;
use zk_core::service::{Exec, ExecRequest, Exit, OutputStream};
use zk_exec::{Environment, ProcessExec, SandboxExec, SandboxPolicy, Supervision};

use super::throwaway::{print_skipped, write_template};
use super::{SEED, describe_changes, reads};

/// Number of generated commands in an ordinary test run; the variable `ZK_JUDGE_WALLED` overrides it.
const TESTED_COMMANDS: usize = 100;

/// Time that one command gets.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);

/// Maximum number of repetitions of a command whose output differs.
const MOST_REPETITIONS: usize = 3;

/// Programs that show the machine, which a sandbox hides a part of; `vdir` shows the directory above the project, and
/// `getconf` the number of processes, which a sandbox limits.
const SHOWS_MACHINE: [&str; 14] = [
    "df", "du", "getconf", "groups", "hostname", "id", "logname", "lsblk", "ps", "stat", "tty", "uptime",
    "vdir", "who",
];

/// Exit, output and messages of a command.
type Ran = (Exit, String, String);

async fn run(exec: &dyn Exec, command: &str, cwd: &Path) -> Ran {
    let (mut out, mut messages) = (Vec::new(), Vec::new());
    let mut sink = |stream: OutputStream, bytes: &[u8]| match stream {
        OutputStream::Stdout => out.extend_from_slice(bytes),
        OutputStream::Stderr => messages.extend_from_slice(bytes),
    };
    let shell = ExecRequest::shell(&format!("{command}\n"), cwd);
    let request = ExecRequest { timeout: Some(COMMAND_LIMIT), ..shell };
    let exit = exec.run(request, &mut sink, &CancellationToken::new()).await.unwrap().exit;
    if command.contains('|') {
        // Programs of a pipeline write messages concurrently, sometimes in partial lines.
        messages.sort_unstable();
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (exit, text(&out), text(&messages))
}

/// Every file below a directory, with its time and content.
fn files(directory: &Path) -> BTreeMap<PathBuf, (SystemTime, Option<Vec<u8>>)> {
    let (mut found, mut open) = (BTreeMap::new(), vec![directory.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let about = fs::symlink_metadata(&path).unwrap();
            let content = about.is_file().then(|| fs::read(&path).unwrap());
            if about.is_dir() {
                open.push(path.clone());
            }
            found.insert(path, (about.modified().unwrap(), content));
        }
    }
    found
}

/// Whether a command contains a program whose output depends on the machine or changes each time.
fn shows_machine(command: &str) -> bool {
    command.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| SHOWS_MACHINE.contains(&word))
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how a whole campaign is asked for")]
fn generated_reads_work_in_the_read_only_sandbox_as_without_it_and_change_nothing() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    let wanted = number("ZK_JUDGE_WALLED").unwrap_or(TESTED_COMMANDS);
    let seed = number("ZK_JUDGE_SEED").map_or(SEED, |seed| seed as u64);
    let (commands, _) = reads(&mut fastrand::Rng::with_seed(seed), wanted);
    // Checked in a throw-away root before they run without a sandbox.
    let Some(changed) = describe_changes(&commands) else { return };
    assert_eq!(changed, [""; 0]);
    let temp = tempfile::tempdir().unwrap();
    let all = temp.path().join("all");
    write_template(&all);
    fs::create_dir(temp.path().join("state")).unwrap();
    let (project, home) = (all.join("p"), all.join("home/me"));
    let environment = Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LC_ALL", "C")])
        .grant("HOME", &home)
        .grant("GIT_OPTIONAL_LOCKS", "0");
    let policy = SandboxPolicy::new(&project).home(&home).state(temp.path().join("state")).deny_writes();
    let own = std::env::current_exe().unwrap();
    let supervision = Supervision::with(own, ["--ignored", "--exact", "program::tried::walled::supervisor"]);
    let walled = SandboxExec::new(&policy, environment.clone(), supervision).unwrap();
    if let Err(error) = walled.start() {
        return print_skipped(&error.to_string());
    }
    let plain = ProcessExec::new(environment);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let before = files(&all);
    let (mut other, mut unsteady) = (Vec::new(), 0);
    runtime.block_on(async {
        for command in &commands {
            let without = run(&plain, command, &project).await;
            let within = run(&walled, command, &project).await;
            if within == without {
                continue;
            }
            let mut is_steady = !shows_machine(command);
            // A program whose reader ends first writes more at one time than at another.
            for _ in 0..MOST_REPETITIONS {
                is_steady = is_steady
                    && run(&plain, command, &project).await == without
                    && run(&walled, command, &project).await == within;
            }
            if is_steady {
                other.push(format!("{command:?}: {without:?} became {within:?}"));
            } else {
                unsteady += 1;
            }
        }
        walled.close().await;
    });
    println!(
        "{wanted} commands ran with the wall and without; {unsteady} show the machine or are another each time"
    );
    assert!(files(&all) == before, "files were changed");
    assert!(other.is_empty(), "{} of {wanted} are others in the sandbox:\n{}", other.len(), other.join("\n"));
}

/// Not a test: the supervisor of the sandbox.
#[test]
#[ignore = "started by another test"]
#[expect(unsafe_code, reason = "the supervisor needs a process with one thread, which a test has not")]
fn supervisor() {
    // SAFETY: the copy of the forking thread runs the supervisor, which is made for that, and ends with it.
    match unsafe { libc::fork() } {
        0 => {
            let code = i32::from(zk_exec::run_supervisor().is_err());
            // SAFETY: ends the copy.
            unsafe { libc::_exit(code) }
        }
        pid => {
            rustix::stdio::dup2_stdin(fs::File::open("/dev/null").unwrap()).unwrap();
            let pid = rustix::process::Pid::from_raw(pid);
            rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()).unwrap();
        }
    }
}
