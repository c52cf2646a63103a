/// Record of what happens inside, for a person who looks for a fault: `cx.service::<dyn DebugDump>()`. Absent
/// unless somebody asked for it.
pub trait DebugDump: Send + Sync {
    /// Keeps `text` under the name `what`: a word or two that can be part of a file's name. Failures are the
    /// owner's to tell.
    fn write(&self, what: &str, text: &str);
}
