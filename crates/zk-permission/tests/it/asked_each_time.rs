//! A tool that asks each time: nothing but a person, or the mode `all`, allows its calls.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use zk_core::events::{CallRef, PermissionReply, PermissionRequest};
use zk_core::kernel::{Answer, Cx, Handler};
use zk_core::model::{Approved, CallId, Effects, ToolError, ToolOutput, ToolSpec, TurnId};
use zk_core::service::{
    CallDecision, CallJudge, CallJudgement, CallOffer, Tool, ToolCx, Trust, UiAnswer, WiderKind,
};
use zk_permission::{Mode, PermissionGate};
use zk_testkit::IdleTool;

use crate::asking::{Remembered, person, refusal_in};
use crate::desk::Desk;

struct Live(IdleTool);

#[async_trait]
impl Tool for Live {
    fn spec(&self) -> &Arc<ToolSpec> {
        self.0.spec()
    }

    fn asks_each_time(&self) -> bool {
        true
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        self.0.call(call, cx).await
    }
}

/// Tool around another one.
struct Around(Live);

#[async_trait]
impl Tool for Around {
    fn spec(&self) -> &Arc<ToolSpec> {
        self.0.spec()
    }

    fn inner(&self) -> Option<&dyn Tool> {
        Some(&self.0)
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        self.0.call(call, cx).await
    }
}

struct Says(CallDecision);

impl CallJudge for Says {
    fn judge(&self, _: &str, _: &Effects, _: &Path) -> CallJudgement {
        let (describes, label, key) = ("all of it".into(), "all".into(), "k".into());
        let offer = CallOffer { kind: WiderKind::Tool, describes, label, warning: None, key };
        let reasons = vec!["allow: a rule about this tool".to_owned()];
        CallJudgement { decision: self.0, reasons, offer: Some(offer), allowed_by: None }
    }

    fn is_quick(&self, _: &Effects, _: &Path) -> bool {
        true
    }

    fn remember(&self, _: &CallOffer, _: bool) -> Result<(), String> {
        Ok(())
    }

    fn forget_session(&self) {}
}

struct Willing;

impl Handler<PermissionRequest> for Willing {
    async fn call(&self, _: &PermissionRequest, _: &Cx) -> Answer<PermissionRequest> {
        Ok(Some(PermissionReply::Allow))
    }
}

fn desk(mode: Mode, judge: Option<CallDecision>) -> Desk {
    let desk = Desk::new();
    desk.bus.scope("host").provide_service::<dyn Trust>(Arc::new(Remembered::default()));
    desk.bus.install(&PermissionGate::new(mode).remembering("/project")).unwrap();
    if let Some(decision) = judge {
        desk.bus.scope("judge").provide_service::<dyn CallJudge>(Arc::new(Says(decision)));
    }
    desk.bus.scope("hook").handle::<PermissionRequest, _>(Arc::new(Willing));
    desk
}

async fn refusal(desk: &Desk) -> Option<String> {
    let call = Arc::new(CallRef {
        turn_id: TurnId::fresh(),
        call_id: CallId::from("same"),
        name: "live".into(),
        display_name: "live".into(),
    });
    let tool = Arc::new(Around(Live(IdleTool::new("live"))));
    refusal_in(&desk.bus, ".".as_ref(), call, Some(tool), json!({})).await
}

#[tokio::test]
async fn no_rule_no_earlier_answer_and_no_plugin_stands_for_the_person() {
    for judge in [None, Some(CallDecision::Allow), Some(CallDecision::Ask { by_rule: false })] {
        let alone = desk(Mode::Auto, judge);
        assert!(refusal(&alone).await.unwrap().contains("nobody is here"), "{judge:?}");
        let desk = desk(Mode::Auto, judge);
        let person = person(&desk, UiAnswer::Once);
        for _ in 0..2 {
            assert_eq!(refusal(&desk).await, None, "{judge:?}");
        }
        let approvals = person.approvals();
        assert_eq!(approvals.len(), 2, "{judge:?}");
        for approval in approvals {
            let offered = (approval.session, approval.always, approval.wider, approval.more);
            assert_eq!(offered, (None, None, None, Vec::new()), "{judge:?}");
        }
    }
}

#[tokio::test]
async fn a_deny_stays_one_and_the_mode_all_allows() {
    let denied = desk(Mode::All, Some(CallDecision::Deny));
    assert!(refusal(&denied).await.is_some());
    for judge in [None, Some(CallDecision::Allow)] {
        assert_eq!(refusal(&desk(Mode::All, judge)).await, None, "{judge:?}");
    }
}
