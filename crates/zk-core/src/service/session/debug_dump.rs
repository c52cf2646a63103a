/// Writer of internal data for a person who debugs a problem: `cx.service::<dyn DebugDump>()`. Absent unless
/// the person asked for debug files.
pub trait DebugDump: Send + Sync {
    /// Writes `text` under the name `what`: one or two words for the file name. The implementation reports
    /// failures itself.
    fn write(&self, what: &str, text: &str);
}
