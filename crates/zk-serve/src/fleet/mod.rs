//! `zk fleet serve`: runs that outlive their worker, over HTTP.
//!
//! | request | effect |
//! |---|---|
//! | `GET /v1/runs` | lists the runs of the token's tenant |
//! | `POST /v1/runs` | submits a run: `prompt`, and perhaps `run`, `preset`, `workspace`, `queue`, `priority`, `budget` |
//! | `GET /v1/runs/ID` | shows a run, with the question that it waits with |
//! | `GET /v1/runs/ID/events` | streams its entries, its states and pieces of the answer on its way as server-sent events; `Last-Event-ID` goes on after an entry |
//! | `POST /v1/runs/ID/steer` | tells it a `text` |
//! | `POST /v1/runs/ID/abort` | cancels it and its children |
//! | `POST /v1/runs/ID/approve` | decides about the call that it waits with: the `digest` of the call that was read, `for` `once`, `session` or `always`, or `no` with a `message` |
//! | `POST /v1/runs/ID/answer` | answers its question that is no permission: a `text`, a `choice` by number from 1, or `no` |
//! | `POST /v1/hooks/NAME` | submits a run of the schedule NAME now; `Idempotency-Key` names it |

mod access;
mod error;
mod events;
mod requests;
mod server;

pub use access::{FleetAccess, FleetTokens, FleetTokensError};
pub use server::FleetServer;
