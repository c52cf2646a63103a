use serde_json::json;
use zk_core::model::{Effect, Effects, ToolErrorKind};
use zk_core::service::CallPlace;
use zk_tools::Spill;

use crate::jobs::{read_until, runs};
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

fn rustix_pid(text: &str) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}
