//! One connection to a server, in either era of the protocol.

mod call;
mod connect;
mod handler;
mod library;
mod lists;
mod result;
mod sampling;
mod task;
mod waiting;

pub(crate) use call::{CallEnd, CallRequest};
pub(crate) use connect::{Connecting, Connection, Prompted};
pub(crate) use handler::{Answers, Form, Handler, ListChanged};
pub(crate) use result::{prompt_text, resource_output};
pub(crate) use sampling::{Callers, Sampled, Sampling};
pub(crate) use waiting::{OpenQuestions, Watched};
