//! Sessions for zk: the entry log, its stores and the recorder that writes it.
