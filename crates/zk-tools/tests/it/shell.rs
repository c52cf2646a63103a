use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use zk_core::kernel::Bus;
use zk_core::model::{Concurrency, Display, Effect, Effects, ToolErrorKind};
use zk_core::service::{CallPlace, Tool, ToolCx};
use zk_tools::{Shell, ToolsOptions};

use crate::support::{Desk, MEMORY, forget_peak, grown_since};

#[tokio::test]
async fn output_comes_with_the_exit_code_and_the_time() {
    let desk = Desk::new();
    let text = desk.ok("shell", json!({ "command": "echo out; echo err >&2; pwd" })).await;
    let (output, footer) = text.rsplit_once('\n').unwrap();
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, [desk.root.to_str().unwrap(), "err", "out"]);
    assert!(footer.starts_with("(exit 0, ") && footer.ends_with("ms)"), "{footer}");
}

#[tokio::test]
async fn the_footer_can_be_left_out() {
    let desk = Desk::with(ToolsOptions { shell_footer: false, ..ToolsOptions::default() });
    assert_eq!(desk.ok("shell", json!({ "command": "echo out" })).await, "out\n");
    assert_eq!(desk.ok("shell", json!({ "command": "true" })).await, "(no output)");
    assert_eq!(desk.err("shell", json!({ "command": "echo no; exit 2" })).await.message, "no\n(exit 2)");
}

#[tokio::test]
async fn a_command_that_fails_is_an_error_with_its_output() {
    let desk = Desk::new();
    let error = desk.err("shell", json!({ "command": "echo why; exit 7" })).await;
    assert_eq!(error.kind, ToolErrorKind::Failed);
    assert!(error.message.starts_with("why\n(exit 7, "), "{error}");
    let error = desk.err("shell", json!({ "command": "kill -9 $$" })).await;
    assert!(error.message.contains("killed by signal 9"), "{error}");
    assert_eq!(desk.err("shell", json!({ "command": " " })).await.kind, ToolErrorKind::InvalidArgs);
}

#[tokio::test]
async fn exit_codes_of_the_shell_itself_say_what_to_do_next() {
    let desk = Desk::new();
    let error = desk.err("shell", json!({ "command": "no-such-program-at-all" })).await;
    assert!(
        error.message.contains("(exit 127, ") && error.message.contains("whether it is installed"),
        "{error}"
    );
    let error = desk.err("shell", json!({ "command": "/etc/passwd" })).await;
    assert!(
        error.message.contains("(exit 126, ") && error.message.contains("check its permissions"),
        "{error}"
    );
    let desk = Desk::with(ToolsOptions { shell_footer: false, ..ToolsOptions::default() });
    let error = desk.err("shell", json!({ "command": "exit 127" })).await;
    assert!(error.message.starts_with("(exit 127: a program was not found"), "{error}");
}

#[tokio::test]
async fn a_line_of_the_host_runs_before_each_command_and_is_judged_and_shown_with_it() {
    let prefix = Some("export WHERE=here; shout() { echo \"$1!\"; }".to_owned());
    let options = ToolsOptions { shell_prefix: prefix, shell_footer: false, ..ToolsOptions::default() };
    let tool = Shell::new(&options);
    let desk = Desk::with(options);
    assert_eq!(desk.ok("shell", json!({ "command": "shout $WHERE" })).await, "here!\n");
    let args = json!({ "command": "ls" });
    let place = CallPlace { cx: Bus::new().cx(), cwd: desk.root.clone() };
    let Effects::Known { list } = tool.effects(&args, &place) else { panic!() };
    assert!(
        matches!(&list[..], [Effect::Executes { command: Some(all), .. }] if all.contains("WHERE") && all.ends_with("\nls"))
    );
    assert_eq!(tool.concurrency(&args), Concurrency::Exclusive);
    let Some(Display::Lines { lines, .. }) = tool.preview(&args, &place).await else { panic!() };
    assert_eq!((lines.len(), &*lines[1]), (2, "ls"));
    assert!(Shell::new(&ToolsOptions::default()).preview(&args, &place).await.is_none());
}

#[tokio::test]
async fn a_command_that_wants_input_gets_none() {
    let desk = Desk::new();
    let text = desk.ok("shell", json!({ "command": "cat; read x; echo done" })).await;
    assert!(text.starts_with("done\n"), "{text}");
}

#[tokio::test]
async fn a_flood_leaves_its_end_in_little_memory() {
    let _alone = MEMORY.lock().await;
    let desk = Desk::new();
    let before = forget_peak();
    let text =
        desk.ok("shell", json!({ "command": "yes 0123456789 | head -c 100000000; echo the end" })).await;
    assert!(text.len() < 33_000 && text.contains("the end\n(exit 0"), "{}", text.len());
    assert!(text.starts_with("…(99967"), "{}", text.lines().next().unwrap());
    assert!(grown_since(before) < 32 << 20);
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended() {
    let desk = Desk::new();
    let args =
        json!({ "command": "echo begun; trap '' TERM; while :; do sleep 0.1; done", "timeout_ms": 300 });
    let error = desk.err("shell", args).await;
    assert_eq!(error.kind, ToolErrorKind::TimedOut);
    assert!(error.message.starts_with("begun\n(took longer than 300ms"), "{error}");
}

#[tokio::test]
async fn what_is_left_in_the_background_is_named() {
    let desk = Desk::new();
    let text = desk.ok("shell", json!({ "command": "sleep 50 & echo started" })).await;
    assert!(
        text.starts_with("started\n(exit 0, ") && text.contains("still running in the background: pid "),
        "{text}"
    );
    desk.bus.close().await;
}

#[tokio::test]
async fn a_stopped_command_returns_at_once() {
    let desk = Desk::new();
    let stop = desk.stop.clone();
    let began = Instant::now();
    let running =
        desk.err("shell", json!({ "command": "echo begun; trap '' TERM; while :; do sleep 1; done" }));
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        stop.cancel();
    };
    let (error, ()) = tokio::join!(running, stopping);
    assert_eq!(error.kind, ToolErrorKind::Aborted);
    assert!(error.message.starts_with("begun\n(stopped with the run"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(60), "it was stopped, not waited for");
}

#[tokio::test]
async fn without_somewhere_to_run_it_says_so() {
    let cx = ToolCx::new(Bus::new().cx(), "/");
    let tool: Arc<dyn Tool> = Arc::new(Shell::new(&ToolsOptions::default()));
    let call = cx.approve(tool.clone(), json!({ "command": "ls" })).await.unwrap();
    let error = tool.call(&call, &cx).await.unwrap_err();
    assert!(error.message.contains("nothing that runs commands"), "{error}");
}
