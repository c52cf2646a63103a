use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::protocol::{PermissionParams, SessionUpdate};
use super::refusal::{Refusal, parse_params};
use super::session::AcpSession;
use super::terminals::Terminals;
use super::{asking, host_files};
use crate::lock::lock;
use crate::peer::{INTERNAL, INVALID_PARAMS, Incoming, NO_METHOD, Reply};

/// Maximum number of an agent's requests that are answered at the same time.
const MAX_REQUESTS_AT_ONCE: usize = 64;

/// Handler of an agent's requests and notifications.
pub(crate) struct AgentCalls {
    agent: String,
    /// Whether the agent's process runs outside of the sandbox.
    outside: bool,
    sessions: Mutex<HashMap<String, Arc<AcpSession>>>,
    terminals: Arc<Terminals>,
    open: Arc<AtomicUsize>,
}

impl AgentCalls {
    pub(crate) fn new(agent: String, outside: bool) -> Self {
        Self { agent, outside, sessions: Mutex::default(), terminals: Arc::default(), open: Arc::default() }
    }

    /// Accepts updates and requests of a session from now on.
    pub(crate) fn add(&self, session: Arc<AcpSession>) {
        lock(&self.sessions).insert(session.id.clone(), session);
    }

    pub(crate) fn remove(&self, id: &str) {
        lock(&self.sessions).remove(id);
    }

    fn session_of(&self, params: &Value) -> Option<Arc<AcpSession>> {
        let id = params.get("sessionId").and_then(Value::as_str)?;
        lock(&self.sessions).get(id).cloned()
    }
}

impl Incoming for AgentCalls {
    fn notification(&self, method: &str, params: Value) -> Result<(), String> {
        if method != "session/update" {
            return Ok(());
        }
        let Some(session) = self.session_of(&params) else { return Ok(()) };
        match serde_json::from_value::<SessionUpdate>(params) {
            Ok(update) => session.update(update.update),
            // Updates of an unknown shape are ignored.
            Err(_) => Ok(()),
        }
    }

    fn request(&self, method: &str, params: Value, reply: Reply) {
        let Some(session) = self.session_of(&params) else {
            return reply.error(INVALID_PARAMS, "zk has no such session");
        };
        if self.open.fetch_add(1, Ordering::AcqRel) >= MAX_REQUESTS_AT_ONCE {
            self.open.fetch_sub(1, Ordering::AcqRel);
            return reply.error(INTERNAL, "too many requests at once; wait for answers");
        }
        let (agent, outside, method) = (self.agent.clone(), self.outside, method.to_owned());
        let (terminals, open) = (self.terminals.clone(), self.open.clone());
        tokio::spawn(async move {
            let answer = match method.as_str() {
                "session/request_permission" => match parse_params::<PermissionParams>(params) {
                    Ok(params) => Ok(asking::answer(&agent, outside, &session, params).await),
                    Err(refusal) => Err(refusal),
                },
                "fs/read_text_file" => host_files::read(&agent, &session, params).await,
                "fs/write_text_file" => host_files::write(&agent, &session, params).await,
                "terminal/create" => terminals.create(&agent, &session, params).await,
                "terminal/output" => terminals.output(&params),
                "terminal/wait_for_exit" => terminals.wait(&params).await,
                "terminal/kill" => terminals.kill(&params, false),
                "terminal/release" => terminals.kill(&params, true),
                _ => Err(Refusal { code: NO_METHOD, message: format!("zk has no method `{method}`") }),
            };
            open.fetch_sub(1, Ordering::AcqRel);
            match answer {
                Ok(Value::Null) => reply.result(&json!({})),
                Ok(result) => reply.result(&result),
                Err(Refusal { code, message }) => reply.error(code, &message),
            }
        });
    }

    fn ended(&self, _: &str) {
        self.terminals.end_all();
    }
}
