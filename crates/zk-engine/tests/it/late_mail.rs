//! Messages that come while a run is about to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_core::service::{
    EngineName, HandoverCause, Job, Lease, LegEnd, Legs, Mail, MailKind, RunPhase, RunStatus, Take,
};
use zk_engine::Placement;
use zk_testkit::Turn;

use super::desk::Desk;

/// Legs during the first of which a message comes between the last look at the mail and the end.
struct TooLate {
    desk: Desk,
    text: &'static str,
    is_first: AtomicBool,
}

#[async_trait]
impl Legs for TooLate {
    async fn leg(&self, job: &Job, lease: Lease) -> LegEnd {
        let end = self.desk.legs.leg(job, lease).await;
        if self.is_first.swap(false, Ordering::SeqCst) {
            let run = self.desk.runs.find(job.run().as_str()).await.unwrap();
            self.desk.runs.steer(&run, self.text).await.unwrap();
        }
        end
    }
}

#[tokio::test]
async fn a_message_that_comes_while_the_last_leg_closes_is_read() {
    let desk = Desk::answering(|asked| {
        let is_told = format!("{:?}", asked.messages).contains("say plum");
        Turn::new().text(if is_told { "plum" } else { "done it" })
    });
    let job = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    let engine = desk.runs.engine().clone();
    let late = Arc::new(TooLate { desk, text: "say plum", is_first: AtomicBool::new(true) });
    let take = Take { once: true, ..Take::new(EngineName::new("w").unwrap()) };
    engine.serve(take, late.clone(), CancellationToken::new()).await.unwrap();
    let desk = &late.desk;
    let done = desk.runs.find(job.run().as_str()).await.unwrap();
    assert_eq!((done.phase, done.legs), (RunPhase::Done, 2), "{done:?}");
    let stored = desk.stored(&job).await;
    assert!(stored.contains("\"plum\""), "{stored}");
    // A leg without mail adds nothing, also after a leg that went on.
    let token = done.token + 1;
    assert_eq!(desk.legs.leg(&job, Lease::new(token)).await, LegEnd::Done(RunStatus::Completed));
    assert_eq!(desk.stored(&job).await, stored);
    assert_eq!(desk.asks.load(Ordering::SeqCst), 2);
}

/// A leg that is cut off after the end of its run goes on, too.
#[tokio::test]
async fn a_run_that_goes_on_after_its_end_is_handed_over_like_any_other() {
    let asked = AtomicUsize::new(0);
    let desk = Desk::answering(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        1 => Turn::new().hang(),
        number => Turn::new().text(format!("answer {number}")),
    });
    let job = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    assert_eq!(desk.legs.leg(&job, Lease::new(1)).await, LegEnd::Done(RunStatus::Completed));
    let mail = Mail::new(MailKind::Steer { text: "more".to_owned() });
    desk.runs.store().post_mail(job.session(), &mail).await.unwrap();
    let lease = Lease::new(2);
    let (legs, held, driven) = (desk.legs.clone(), lease.clone(), job.clone());
    let leg = tokio::spawn(async move { legs.leg(&driven, held).await });
    while desk.asks.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    lease.draining().cancel();
    assert_eq!(leg.await.unwrap(), LegEnd::Handover(HandoverCause::Draining));
    assert_eq!(desk.legs.leg(&job, Lease::new(3)).await, LegEnd::Done(RunStatus::Completed));
    assert!(desk.stored(&job).await.contains("answer 2"));
}
