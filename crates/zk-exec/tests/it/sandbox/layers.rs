//! Machines on which a layer is missing, as the sandbox itself finds them: system calls fail there as on a kernel without
//! it. The mode that needs the layer is refused, with the reason.

use std::collections::BTreeMap;
use std::fs;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use zk_exec::{Layer, SandboxError, SandboxExec, SandboxPolicy, Supervision};

use super::{has, run};
use crate::support::{environment, fork_supervisor};

/// Becomes a supervisor with these calls failing with `errno`.
fn supervise_without(calls: &[libc::c_long], errno: i32) {
    supervise_below(calls.iter().map(|call| (*call, Vec::new())).collect(), errno);
}

fn supervise_below(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) {
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let fails = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, fails, arch).unwrap();
    let filter = BpfProgram::try_from(filter).unwrap();
    fork_supervisor(|| {
        // A command inside is below such a filter already.
        let _ = seccompiler::apply_filter(&filter);
    });
}

#[test]
#[ignore = "started by another test"]
fn supervisor_without_landlock() {
    supervise_without(&[libc::SYS_landlock_create_ruleset], libc::ENOSYS);
}

#[test]
#[ignore = "started by another test"]
fn supervisor_without_seccomp() {
    // The first probe is whether the call exists.
    supervise_without(&[libc::SYS_seccomp], libc::ENOSYS);
}

#[test]
#[ignore = "started by another test"]
fn supervisor_without_notification() {
    let listens = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let listens = SeccompCmpOp::MaskedEq(listens);
    let listens = SeccompCondition::new(1, SeccompCmpArgLen::Qword, listens, 8).unwrap();
    let rules = BTreeMap::from([(libc::SYS_seccomp, vec![SeccompRule::new(vec![listens]).unwrap()])]);
    supervise_below(rules, libc::EBUSY);
}

#[test]
#[ignore = "started by another test"]
fn supervisor_without_namespaces() {
    supervise_without(&[libc::SYS_unshare], libc::EPERM);
}

#[test]
#[ignore = "started by another test"]
fn supervisor_without_namespaces_and_landlock() {
    supervise_without(&[libc::SYS_unshare, libc::SYS_landlock_create_ruleset], libc::EPERM);
}

#[test]
#[ignore = "started by another test"]
fn supervisor_without_mounts() {
    supervise_without(&[libc::SYS_mount, libc::SYS_open_tree, libc::SYS_mount_setattr], libc::EPERM);
}

struct Machine {
    base: tempfile::TempDir,
    supervision: Supervision,
}

impl Machine {
    fn without(what: &str) -> Self {
        let own = std::env::current_exe().unwrap();
        let name = format!("sandbox::layers::supervisor_without_{what}");
        Self::with(Supervision::with(own, ["--ignored", "--exact", &name]))
    }

    fn with(supervision: Supervision) -> Self {
        let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::create_dir_all(base.path().join("work")).unwrap();
        fs::create_dir_all(base.path().join("place/state")).unwrap();
        Self { base, supervision }
    }

    fn policy(&self) -> SandboxPolicy {
        SandboxPolicy::new(self.base.path().join("work")).state(self.base.path().join("place/state"))
    }

    fn exec(&self, policy: &SandboxPolicy) -> SandboxExec {
        SandboxExec::new(policy, environment(), self.supervision.clone()).unwrap()
    }

    /// Checks that no command runs under this policy, and returns why.
    async fn refuses(&self, policy: &SandboxPolicy) -> String {
        let exec = self.exec(policy);
        let error = exec.start().unwrap_err().to_string();
        let tested = exec.self_test().await;
        assert!(matches!(tested, Err(SandboxError::Missing { .. })), "{tested:?}");
        assert!(error.starts_with("the sandbox cannot be set up: "), "{error}");
        let work = self.base.path().join("work");
        let (outcome, _) = crate::support::bash_in(&exec, "touch ran", &work, None).await;
        assert!(outcome.is_err() && !work.join("ran").exists(), "{outcome:?}");
        error
    }
}

/// Whether this machine supports the layers that the tests disable.
fn is_whole() -> bool {
    super::sandboxed(&SandboxPolicy::new(tempfile::tempdir().unwrap().path())).is_some()
}

#[tokio::test]
async fn without_landlock_the_mounts_hold_and_that_is_said() {
    if !is_whole() {
        return;
    }
    let machine = Machine::without("landlock");
    let exec = machine.exec(&machine.policy());
    let report = exec.start().unwrap();
    assert!(!report.layer(Layer::Landlock).unwrap().present);
    assert!(
        report.to_string().contains("no Landlock (the kernel has none): file rules rest on mounts alone")
    );
    assert_eq!(exec.self_test().await.unwrap().held.len(), 10);
    let outside = machine.base.path().join("outside");
    // In a checkout below the temporary directory it lands in that of the sandbox.
    run(&exec, &format!("echo x > {}", outside.display()), machine.base.path()).await;
    assert!(!outside.exists());
    exec.close().await;
}

#[tokio::test]
async fn without_seccomp_nothing_runs_and_that_is_said() {
    if !is_whole() {
        return;
    }
    let machine = Machine::without("seccomp");
    for policy in [machine.policy(), machine.policy().landlock_only()] {
        let told = machine.refuses(&policy).await;
        assert!(told.contains("cannot filter system calls (seccomp)"), "{told}");
    }
}

/// As in a container whose runtime listens to its calls itself.
#[tokio::test]
async fn without_notification_nothing_that_writes_runs_and_that_is_said() {
    if !is_whole() {
        return;
    }
    let machine = Machine::without("notification");
    let told = machine.refuses(&machine.policy()).await;
    assert!(
        told.contains("cannot have a filter ask before a name is made (seccomp user notification"),
        "{told}"
    );
    for policy in [machine.policy().deny_writes(), machine.policy().landlock_only()] {
        let exec = machine.exec(&policy);
        exec.start().unwrap();
        exec.close().await;
    }
}

/// Filters of a container apply to all processes of the sandbox alike.
#[tokio::test]
async fn below_filters_of_a_container_files_of_the_supervisor_are_not_the_commands() {
    if !is_whole() {
        return;
    }
    let machine = Machine::without("landlock");
    let exec = machine.exec(&machine.policy());
    let (code, out) = run(&exec, super::names::SEARCH, &machine.base.path().join("work")).await;
    assert_eq!((code, out.trim()), (0, "over"));
    exec.close().await;
}

#[tokio::test]
async fn without_namespaces_landlock_is_what_is_left_and_without_that_nothing() {
    if !is_whole() {
        return;
    }
    let machine = Machine::without("namespaces");
    let told = machine.refuses(&machine.policy()).await;
    assert!(told.contains("cannot make a user namespace: Operation not permitted (os error 1) ("), "{told}");
    let exec = machine.exec(&machine.policy().landlock_only());
    assert_eq!(exec.self_test().await.unwrap().held.len(), 8);
    exec.close().await;

    let machine = Machine::without("namespaces_and_landlock");
    let told = machine.refuses(&machine.policy().landlock_only()).await;
    assert!(told.contains("the kernel has no Landlock of version 3 or later"), "{told}");
}

#[tokio::test]
async fn without_mounts_nothing_runs_and_that_is_said() {
    if !is_whole() {
        return;
    }
    let machine = Machine::without("mounts");
    let told = machine.refuses(&machine.policy()).await;
    assert!(told.contains("cannot detach the mounts"), "{told}");
}

/// Like a container with a partial `/proc`: the kernel refuses a full one inside.
#[tokio::test]
async fn without_a_proc_of_its_own_nothing_runs_and_that_is_said() {
    if !is_whole() || !has("unshare") {
        return;
    }
    let own = std::env::current_exe().unwrap().display().to_string();
    let covered = "mount -t tmpfs none /proc/sys && exec \"$@\"";
    let supervisor = ["--ignored", "--exact", "support::supervisor"];
    let user = if rustix::process::geteuid().is_root() { "-m" } else { "-Urm" };
    let args = [&[user, "sh", "-c", covered, "sh", &own], supervisor.as_slice()].concat();
    let machine = Machine::with(Supervision::with("/usr/bin/unshare", args));
    let told = machine.refuses(&machine.policy()).await;
    assert!(told.contains("cannot mount a fresh /proc"), "{told}");
}
