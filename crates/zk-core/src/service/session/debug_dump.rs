/// Writer of internal data for a person who debugs a problem: `cx.service::<dyn DebugDump>()`. Absent unless
/// the person asked for debug files.
pub trait DebugDump: Send + Sync {
    /// Writes `text` to a file whose name contains `what`, one or two words. The implementation reports
    /// failures itself.
    fn write(&self, what: &str, text: &str);
}
