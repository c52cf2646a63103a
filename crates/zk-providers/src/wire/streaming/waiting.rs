use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep_until;
use zk_core::events::StreamIdle;
use zk_core::kernel::Cx;

use super::{hook_error, model_of};
use crate::wire::error::{RequestContext, WireError};
use crate::wire::response::timeouts::{Clock, Watchdog};

/// Outcome of a wait.
pub(super) enum WaitOutcome<T> {
    Ready(T),
    /// A clock expired.
    TimedOut(Clock),
}

/// Waits for `what` until a clock expires, and announces an idle stream in the meantime. An answer that is
/// `complete` except for its end mark does not count as idle.
///
/// # Errors
/// The run was stopped, or a required handler failed.
pub(super) async fn wait_for<T>(
    what: impl Future<Output = T>,
    watch: &mut Watchdog,
    context: &RequestContext,
    cx: &Cx,
    complete: bool,
) -> Result<WaitOutcome<T>, WireError> {
    let (at, clock) = watch.deadline(complete);
    let tells = !complete && cx.bus().has_listeners::<StreamIdle>();
    let mut what = pin!(what);
    loop {
        let word = watch.next_notice();
        tokio::select! {
            biased;
            came = &mut what => return Ok(WaitOutcome::Ready(came)),
            () = cx.stop_token().cancelled() => return Err(WireError::aborted()),
            () = sleep_until(at) => return Ok(WaitOutcome::TimedOut(clock)),
            () = sleep_until(word), if tells => {}
        }
        let silence = watch.report_idle();
        let ms = |time: Duration| time.as_millis() as u64;
        let announced = cx.emit(StreamIdle {
            model: model_of(context),
            phase: context.phase,
            idle_ms: ms(silence.silent.0),
            idle_limit_ms: ms(silence.silent.1),
            no_data_ms: ms(silence.no_data.0),
            no_data_limit_ms: silence.no_data.1.map(ms),
        });
        announced.await.map_err(hook_error)?;
    }
}
