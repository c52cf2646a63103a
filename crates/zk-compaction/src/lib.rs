//! Context compaction for zk.
