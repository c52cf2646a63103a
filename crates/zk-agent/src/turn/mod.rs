//! One turn: the request, the answer, its tool calls and their consequences. `sequence` has the steps from
//! top to bottom. `request` builds the request, `stop_reason` judges how the answer ended, `overflow` handles
//! a full window, `structured_output` the structured output; the calls themselves run in `tools`.

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
pub(crate) use sampling::{Draft, unfinished_error};
pub(crate) use sequence::Turn;
pub(crate) use thinking::output_limit;
