//! Whatever happens to a program that guards calls, no call runs that it did not let through.

use std::time::Duration;

use zk_core::events::ToolGate;
use zk_core::kernel::Bus;
use zk_core::service::ExecRequest;
use zk_hooks::Bridge;

use crate::support::{Called, answering, bus, call, program};

/// A call behind `guard`, which has 2 s to reply.
async fn guarded(bus: &Bus, guard: ExecRequest) -> Called {
    let bridge = Bridge::new("guard", guard).ask::<ToolGate>().reply_within(Duration::from_secs(2));
    let scope = bus.install(&bridge).unwrap();
    let called = call(bus, 10).await;
    scope.close().await;
    called
}

#[tokio::test]
async fn a_call_runs_when_the_program_has_no_objection() {
    let called = guarded(&bus(), answering("\"reply\":null")).await;
    assert_eq!((called.executions, called.blocked), (1, None));
}

#[tokio::test]
async fn a_ruling_of_the_program_counts_as_that_of_any_gate() {
    let refuse = r#""reply":{"decision":"refuse","reason":"no force push"}"#;
    let called = guarded(&bus(), answering(refuse)).await;
    assert_eq!((called.executions, called.blocked.as_deref()), (0, Some("no force push")));
    let substitute = r#""reply":{"decision":"substitute","output":{"content":"pushed already"}}"#;
    let called = guarded(&bus(), answering(substitute)).await;
    assert_eq!((called.executions, called.result.as_str()), (0, "pushed already"));
}

/// A program that fails at its first question, and what is said of that.
const FAULTS: [(&str, &str, &str); 17] = [
    ("error", r#"ask; printf '{"id":%s,"error":"no rules"}\n' "$id"; sleep 60"#, "failed: no rules"),
    ("time-out", "ask; sleep 60", "no reply within 2s"),
    ("no reader", "sleep 60", "no reply within 2s"),
    ("crash", "ask; echo 'out of luck' >&2; exit 3", "ended with exit code 3 (it said: out of luck)"),
    ("success without a reply", "ask; exit 0", "ended with exit code 0"),
    ("crash before the question", "exit 7", "ended with exit code 7"),
    ("signal", "ask; kill -9 $$", "ended by signal 9"),
    ("garbage", "ask; echo yes; sleep 60", "printed what is no reply"),
    ("half a line", r#"ask; printf '{"id":%s,"rep' "$id"; exit 0"#, "ended with exit code 0"),
    ("bytes that are no text", r"ask; printf '\377\376\n'; sleep 60", "printed what is no reply"),
    ("another's number", r#"ask; echo '{"id":99,"reply":null}'; sleep 60"#, "no event has the id 99"),
    ("neither reply nor error", r#"ask; printf '{"id":%s}\n' "$id"; sleep 60"#, "neither a reply nor"),
    ("unknown field", r#"ask; printf '{"id":%s,"reply":null,"x":1}\n' "$id"; sleep 60"#, "unknown field `x`"),
    (
        "unknown decision",
        r#"ask; printf '{"id":%s,"reply":{"decision":"allow"}}\n' "$id"; sleep 60"#,
        "does not take",
    ),
    ("closed output", "ask; exec 1>&-; sleep 60", "closed its output"),
    ("closed input", "ask; exec 0<&- 1>&-; sleep 60", "closed its output"),
    ("endless line", "ask; head -c 3000000 /dev/zero | tr '\\0' x; sleep 60", "a line of more than"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_runs_past_a_guard_that_fails() {
    for (fault, script, said) in FAULTS {
        let called = guarded(&bus(), program(script)).await;
        assert_eq!(called.executions, 0, "{fault}");
        let reason = called.blocked.unwrap_or_else(|| panic!("{fault}: it was not refused"));
        assert!(reason.contains("guard") && reason.contains("bash"), "{fault} names nobody: {reason}");
        assert!(reason.contains(said), "{fault}: {reason}");
    }
}

#[tokio::test]
async fn no_call_runs_past_a_guard_that_cannot_be_started() {
    let missing = guarded(&bus(), ExecRequest::new("no-such-program", "/")).await;
    assert_eq!(missing.executions, 0);
    assert!(missing.blocked.unwrap().contains("`no-such-program` cannot be started"));
    let nowhere = guarded(&Bus::new(), answering("\"reply\":null")).await;
    assert_eq!(nowhere.executions, 0);
    assert!(nowhere.blocked.unwrap().contains("no plugin provides `Exec`"));
}

#[tokio::test]
async fn a_call_that_fits_into_no_line_is_refused() {
    let bus = bus();
    let bridge = Bridge::new("guard", answering("\"reply\":null")).ask::<ToolGate>();
    bus.install(&bridge).unwrap();
    let called = call(&bus, 2 << 20).await;
    assert_eq!(called.executions, 0);
    assert!(called.blocked.unwrap().contains("more than `bash` can be sent"));
    assert_eq!(call(&bus, 10).await.executions, 1, "the next one fits");
    bus.close().await;
}

#[tokio::test]
async fn a_guard_that_ended_refuses_until_its_plugin_is_installed_again() {
    let (bus, script) = (bus(), r#"ask; printf '{"id":%s,"reply":null}\n' "$id"; ask; exit 5"#);
    let bridge = Bridge::new("guard", program(script)).ask::<ToolGate>();
    let scope = bus.install(&bridge).unwrap();
    let executions = [call(&bus, 1).await, call(&bus, 1).await, call(&bus, 1).await];
    assert_eq!(executions.map(|called| called.executions), [1, 0, 0]);
    scope.close().await;
    bus.install(&bridge).unwrap();
    assert_eq!(call(&bus, 1).await.executions, 1);
    bus.close().await;
}
