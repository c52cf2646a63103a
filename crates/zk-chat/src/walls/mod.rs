//! Walls around the commands of a conversation: the sandbox, the permission mode that goes with it, and the loss of either.

mod containment;
mod denied;
mod loss;
mod reads;

pub use containment::{Containment, ContainmentError, ContainmentRequest, ForReads, Sandboxes};
pub use denied::{hide_in, watch_denied_files};
pub use loss::watch_for_loss;
pub use reads::{Unseen, provide_reads};
