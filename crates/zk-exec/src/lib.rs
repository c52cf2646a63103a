//! Where zk's tools run: the one spawn function and the one path service.
