use serde_json::json;
use zk_core::model::{Effect, Effects, ToolErrorKind};
use zk_core::service::CallPlace;
use zk_tools::{JobPhase, Jobs, Spill};

use crate::jobs::{ended, read_until, runs};
use crate::support::Desk;

#[tokio::test]
async fn a_detached_job_outlives_its_host_and_says_so_before() {
    let desk = Desk::new();
    desk.bus.install(&Spill::new(desk.root.join("outputs"))).unwrap();
    let args = json!({ "command": "echo $$ > pid; echo up; sleep 300", "background": true, "detach": true });
    let place = CallPlace { cx: desk.bus.cx(), cwd: desk.root.clone() };
    let Effects::Known { list } = desk.tool("shell").effects(&args, &place) else {
        panic!("its effects are known")
    };
    assert!(matches!(
        &list[..],
        [Effect::Executes { command: Some(_), .. }, Effect::Executes { command: None, .. }]
    ));
    assert!(desk.tool("shell").summary(&args).ends_with("(detached: goes on after zk ends)"));
    let error = desk.err("shell", json!({ "command": "true", "detach": true })).await;
    assert_eq!(error.kind, ToolErrorKind::InvalidArgs);
    let started = desk.ok("shell", args).await;
    assert!(started.contains("it goes on when this program ends"), "{started}");
    let read = read_until(&desk, "job-1", "up\n").await;
    assert!(read.contains("(job-1: running)"), "{read}");
    let pid = desk.get("pid");
    desk.bus.close().await;
    assert!(runs(&pid), "it goes on");
    let pid = rustix_pid(&pid);
    rustix::process::kill_process_group(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn jobs_that_outlive_a_conversation_go_on_in_the_next_one() {
    let (desk, next) = (Desk::new(), Desk::new());
    desk.bus.install(&Spill::new(desk.root.join("outputs"))).unwrap();
    let detached = json!({ "command": "echo up; sleep 300", "background": true, "detach": true });
    desk.ok("shell", json!({ "command": "echo $$ > pid; sleep 300", "background": true })).await;
    desk.ok("shell", detached).await;
    read_until(&desk, "job-2", "up\n").await;
    let (before, after) = (desk.bus.service::<Jobs>().unwrap(), next.bus.service::<Jobs>().unwrap());
    let handover = before.hand_over();
    let pid = read_pid(&desk).await;
    desk.bus.close().await;
    // A job that is not detached ends.
    ended(&pid).await;
    let mut changes = after.changes();
    after.take_over(&handover);
    let ids = || after.list().into_iter().map(|job| job.id).collect::<Vec<_>>();
    assert_eq!(ids(), ["job-2"]);
    assert!(after.list()[0].detached && after.list()[0].phase == JobPhase::Running);
    next.ok("shell", json!({ "command": "true", "background": true })).await;
    assert_eq!(ids(), ["job-2", "job-3"], "no id is given twice");
    assert!(after.kill("job-2"));
    while !after.list()[0].phase.is_over() {
        changes.changed().await.unwrap();
    }
    assert!(after.tail("job-2", 1_000).unwrap().contains("up"));
}

async fn read_pid(desk: &Desk) -> String {
    while !desk.root.join("pid").exists() || desk.get("pid").trim().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    desk.get("pid")
}

fn rustix_pid(text: &str) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}
