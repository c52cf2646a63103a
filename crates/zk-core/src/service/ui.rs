/// Outlet for notices to the person, if somebody reads them. A service: ask `cx.service::<dyn Ui>()` each
/// time, it can be swapped while an agent runs. Questions go through [`Questions`](super::Questions).
pub trait Ui: Send + Sync {
    /// Shows one line that is not part of the answer.
    fn notify(&self, text: &str);
}
