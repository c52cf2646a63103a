/// Keeps other processes of the same user out of this one's memory and environment, where keys are.
///
/// `/proc/PID/environ`, `/proc/PID/mem` and a debugger are for root alone afterwards, and no core is dumped. A
/// command that zk starts is not affected: it begins with memory of its own. Root can read everything still.
pub(crate) fn forbid_memory_access() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // Every kernel that zk runs on knows this; without it nothing else changes.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}
