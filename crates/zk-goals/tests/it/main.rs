//! Goals on real runs, and the list of conversations over processes.
