use std::time::SystemTime;

use crate::kernel::Cx;

/// Wall-clock time. Use it for dates; timers use `tokio::time`, which tests can pause.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> SystemTime;
}

impl dyn Clock {
    /// Returns the present time by the clock of a context; by that of the operating system if it has none.
    ///
    /// ```
    /// use zk_core::kernel::Bus;
    /// use zk_core::service::Clock;
    ///
    /// let cx = Bus::new().cx();
    /// assert!(<dyn Clock>::now_in(&cx) > std::time::UNIX_EPOCH);
    /// ```
    #[must_use]
    pub fn now_in(cx: &Cx) -> SystemTime {
        cx.service::<dyn Clock>().map_or_else(SystemTime::now, |clock| clock.now())
    }
}

/// Clock of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
