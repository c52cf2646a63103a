//! Skills and project instructions for zk.
