//! One turn: what is sent, the answer, its tool calls, what follows from them. `sequence` has it from top to bottom.
//! The request is put together in `request`, an answer that may not stand is judged in `stop_reason`, a full window is
//! dealt with in `overflow`, structured output in `structured_output`, and the calls run in the wing of the tools.

mod answer_pipe;
mod attempts;
mod input;
mod output_tool;
mod overflow;
mod request;
mod sampling;
mod sequence;
mod stop_reason;
mod structured_output;
mod thinking;
mod usage;

pub(crate) use attempts::Attempts;
pub(crate) use input::is_blank;
pub(crate) use output_tool::{OUTPUT_TOOL, OutputTool};
pub(crate) use sampling::{Draft, unfinished};
pub(crate) use sequence::Turn;
pub(crate) use thinking::output_limit;
