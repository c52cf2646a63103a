//! A permission gate whose parts fail: nothing runs.

use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use zk_core::events::PermissionDecided;
use zk_core::kernel::{Answer, Cx, Handler};
use zk_core::model::Effects;
use zk_core::service::{CallDecision, CallJudge, CallJudgement, CallOffer, Questions, UiAnswer, WiderKind};
use zk_permission::{Mode, PermissionGate};

use crate::desk::Desk;

/// Fault of a judge, or none.
enum Fault {
    Panics,
    /// Panics on the calling thread.
    PanicsAtOnce,
    /// Answers only when the test is over.
    Hangs(Mutex<mpsc::Receiver<()>>),
    Denies,
    Asks,
    Allows,
}

impl CallJudge for Fault {
    fn judge(&self, _: &str, _: &Effects, _: &Path) -> CallJudgement {
        let decision = match self {
            Self::Panics | Self::PanicsAtOnce => panic!("the judge is broken"),
            Self::Hangs(over) => {
                let _ = over.lock().unwrap().recv();
                CallDecision::Allow
            }
            Self::Denies => CallDecision::Deny,
            Self::Asks => CallDecision::Ask { by_rule: false },
            Self::Allows => CallDecision::Allow,
        };
        let (describes, label, key) = ("all of it".into(), "all".into(), "k".into());
        let offer = CallOffer { kind: WiderKind::Prefix, describes, label, warning: None, key };
        CallJudgement { decision, reasons: Vec::new(), offer: Some(offer), allowed_by: None }
    }

    fn is_quick(&self, _: &Effects, _: &Path) -> bool {
        matches!(self, Self::PanicsAtOnce)
    }

    fn remember(&self, _: &CallOffer, _: bool) -> Result<(), String> {
        Err("there is no room".to_owned())
    }

    fn forget_session(&self) {}
}

struct Unwritable;

impl Handler<PermissionDecided> for Unwritable {
    async fn call(&self, _: &PermissionDecided, _: &Cx) -> Answer<PermissionDecided> {
        Err("the disk is full".into())
    }
}

fn desk(judge: Fault) -> Desk {
    let desk = Desk::new();
    let gate = PermissionGate::new(Mode::Ask);
    let gate = match &judge {
        Fault::Hangs(_) => gate.judging_within(Duration::from_millis(50)),
        Fault::Panics | Fault::PanicsAtOnce | Fault::Denies | Fault::Asks | Fault::Allows => gate,
    };
    desk.bus.install(&gate).unwrap();
    desk.bus.scope("judge").provide_service::<dyn CallJudge>(Arc::new(judge));
    desk
}

/// Reason for which a command did not run; `None` if it ran.
async fn refusal(desk: &Desk) -> Option<String> {
    let result = desk.output("shell", json!({ "command": "touch made" })).await;
    assert_eq!(desk.root.join("made").exists(), result.is_ok());
    result.err().map(|error| error.message)
}

#[tokio::test]
async fn a_judge_that_fails_allows_nothing() {
    let (end, over) = mpsc::channel();
    for (judge, why) in [
        (Fault::Panics, "panicked"),
        (Fault::PanicsAtOnce, "panicked"),
        (Fault::Hangs(Mutex::new(over)), "took longer than"),
        (Fault::Denies, "not allowed here"),
        (Fault::Asks, "nobody is here to approve it"),
    ] {
        let refusal = refusal(&desk(judge)).await.unwrap();
        assert!(refusal.contains(why), "{refusal}");
    }
    // Ends the thread of the judge that hangs.
    drop(end);
    assert_eq!(refusal(&desk(Fault::Allows)).await, None);
}

#[tokio::test]
async fn what_cannot_be_recorded_does_not_run_whoever_allowed_it() {
    for judge in [Fault::Allows, Fault::Asks] {
        let desk = desk(judge);
        desk.bus.scope("record").handle::<PermissionDecided, _>(Arc::new(Unwritable));
        let questions = Arc::new(Questions::new());
        desk.bus.scope("host").provide_service(questions.clone());
        let front_end = questions.attach();
        let answering = tokio::spawn(async move {
            loop {
                let pending = front_end.next().await;
                front_end.answer(pending.id, pending.digest, UiAnswer::WiderAlways).unwrap();
            }
        });
        let refusal = refusal(&desk).await.unwrap();
        assert!(refusal.contains("the disk is full"), "{refusal}");
        answering.abort();
    }
}

#[tokio::test]
async fn a_wider_answer_that_cannot_be_stored_still_answers_this_call() {
    let desk = desk(Fault::Asks);
    let questions = Arc::new(Questions::new());
    desk.bus.scope("host").provide_service(questions.clone());
    let front_end = questions.attach();
    let answering = tokio::spawn(async move {
        let pending = front_end.next().await;
        front_end.answer(pending.id, pending.digest, UiAnswer::WiderAlways).unwrap();
    });
    assert_eq!(refusal(&desk).await, None);
    answering.await.unwrap();
}
