/// Record of what happens inside, for a person who looks for a fault: `cx.service::<dyn DebugDump>()`. Absent
/// unless somebody asked for it.
pub trait DebugDump: Send + Sync {
    /// Keeps `text`, about `what`, a word or two as a file may be called. Failures are the owner's to tell.
    fn write(&self, what: &str, text: &str);
}
