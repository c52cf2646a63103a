use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use zk_core::model::{Effect, Effects};
use zk_core::service::{CallJudge, Exec, ExecRequest, Exit, OutputStream, ReadExec, shell_word};

use super::asking::AskedCall;
use super::refusal::{Refusal, parse_params as read_params};
use super::session::{AcpSession, Place};
use crate::lock::lock;

/// Maximum size of a terminal's kept output in bytes, whatever limit the agent requests.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// Maximum number of an agent's open terminals.
const MAX_TERMINALS: usize = 32;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateParams {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<Variable>,
    cwd: Option<PathBuf>,
    output_byte_limit: Option<usize>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    value: String,
}

/// Terminals of an agent: commands that zk runs for it.
#[derive(Default)]
pub(crate) struct Terminals {
    open: Mutex<HashMap<String, Arc<Terminal>>>,
    last_id: AtomicU64,
}

struct Terminal {
    output: Mutex<Kept>,
    exit: watch::Sender<Option<Exit>>,
    stop: CancellationToken,
}

/// Tail of a command's output, of at most `limit` bytes.
struct Kept {
    bytes: Vec<u8>,
    limit: usize,
    is_cut: bool,
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let above = self.bytes.len().saturating_sub(self.limit);
        self.is_cut |= above > 0;
        self.bytes.drain(..above);
    }
}

impl Terminals {
    /// Runs a command in the execution context of all commands, after the gates of the run approved it.
    pub(crate) async fn create(
        &self,
        agent: &str,
        session: &AcpSession,
        params: Value,
    ) -> Result<Value, Refusal> {
        let CreateParams { command, args, env, cwd, output_byte_limit } = read_params(params)?;
        let place =
            session.active_place().ok_or_else(|| Refusal::failed("there is no prompt to do this for"))?;
        let exec =
            place.cx.service::<dyn Exec>().ok_or_else(|| Refusal::failed("zk runs no commands here"))?;
        if lock(&self.open).len() >= MAX_TERMINALS {
            return Err(Refusal::failed(format!("{MAX_TERMINALS} terminals are open; release some")));
        }
        let line = command_line(&command, &args);
        let mut list = vec![Effect::Executes { command: Some(line.clone()), argv: Vec::new() }];
        // Variables and the directory can change the meaning of a command, which the judge does not consider.
        if !env.is_empty() || cwd.as_ref().is_some_and(|cwd| *cwd != place.cwd) {
            list.push(Effect::LeavesContext { reason: format!("{agent} chose its variables or directory") });
        }
        let effects = Effects::Known { list };
        let call = AskedCall::new("shell".to_owned(), effects.clone(), None);
        let mut shown = json!({ "agent": agent, "command": line });
        if let Some(fields) = shown.as_object_mut() {
            fields.extend(cwd.as_ref().map(|cwd| ("cwd".to_owned(), json!(cwd))));
            let variables = env.iter().map(|one| (one.name.clone(), Value::from(one.value.as_str())));
            let variables: serde_json::Map<String, Value> = variables.collect();
            fields.extend((!variables.is_empty()).then(|| ("env".to_owned(), Value::Object(variables))));
        }
        call.approve(shown, &place).await.map_err(|error| Refusal::failed(error.message))?;
        let exec = executor_for_read(&place, effects).await.unwrap_or(exec);
        let os = |text: String| OsString::from(text);
        let request = ExecRequest {
            env: env.into_iter().map(|one| (os(one.name), os(one.value))).collect::<BTreeMap<_, _>>(),
            ..ExecRequest::shell(&line, cwd.unwrap_or_else(|| place.cwd.clone()))
        };
        let limit = output_byte_limit.unwrap_or(MAX_OUTPUT_BYTES).min(MAX_OUTPUT_BYTES);
        let terminal = Arc::new(Terminal {
            output: Mutex::new(Kept { bytes: Vec::new(), limit, is_cut: false }),
            exit: watch::channel(None).0,
            stop: place.cx.stop_token().child_token(),
        });
        let id = format!("t{}", self.last_id.fetch_add(1, Ordering::Relaxed) + 1);
        lock(&self.open).insert(id.clone(), terminal.clone());
        tokio::spawn(run(exec, request, terminal));
        Ok(json!({ "terminalId": id }))
    }

    pub(crate) fn output(&self, params: &Value) -> Result<Value, Refusal> {
        let terminal = self.find_terminal(params)?;
        let exit = *terminal.exit.borrow();
        let kept = lock(&terminal.output);
        let mut answer = json!({ "output": String::from_utf8_lossy(&kept.bytes), "truncated": kept.is_cut });
        if let (Some(fields), Some(exit)) = (answer.as_object_mut(), exit) {
            fields.insert("exitStatus".to_owned(), exit_status_json(exit));
        }
        Ok(answer)
    }

    pub(crate) async fn wait(&self, params: &Value) -> Result<Value, Refusal> {
        let terminal = self.find_terminal(params)?;
        let mut exits = terminal.exit.subscribe();
        let exit = exits.wait_for(Option::is_some).await.map(|exit| *exit);
        Ok(exit.ok().flatten().map_or_else(|| json!({}), exit_status_json))
    }

    /// Ends the command of a terminal, and removes the terminal if it `is_released`.
    pub(crate) fn kill(&self, params: &Value, is_released: bool) -> Result<Value, Refusal> {
        self.find_terminal(params)?.stop.cancel();
        if let Some(id) = params.get("terminalId").and_then(Value::as_str).filter(|_| is_released) {
            lock(&self.open).remove(id);
        }
        Ok(Value::Null)
    }

    /// Ends the commands of all terminals.
    pub(crate) fn end_all(&self) {
        for (_, terminal) in lock(&self.open).drain() {
            terminal.stop.cancel();
        }
    }

    fn find_terminal(&self, params: &Value) -> Result<Arc<Terminal>, Refusal> {
        let id = params.get("terminalId").and_then(Value::as_str).unwrap_or_default();
        lock(&self.open)
            .get(id)
            .cloned()
            .ok_or_else(|| Refusal::invalid(format!("there is no terminal `{id}`")))
    }
}

async fn run(exec: Arc<dyn Exec>, request: ExecRequest, terminal: Arc<Terminal>) {
    let mut sink = |_: OutputStream, bytes: &[u8]| lock(&terminal.output).add(bytes);
    let exit = match exec.run(request, &mut sink, &terminal.stop).await {
        Ok(outcome) => outcome.exit,
        Err(error) => {
            lock(&terminal.output).add(error.to_string().as_bytes());
            Exit::Code(127)
        }
    };
    terminal.exit.send_replace(Some(exit));
}

/// Returns the command as a line of the shell. Without arguments it already is one.
fn command_line(command: &str, args: &[String]) -> String {
    if args.is_empty() {
        return command.to_owned();
    }
    let words = std::iter::once(command).chain(args.iter().map(String::as_str));
    words.map(shell_word).collect::<Vec<_>>().join(" ")
}

/// Returns the read-only executor if the command is allowed only as a read.
async fn executor_for_read(place: &Place, effects: Effects) -> Option<Arc<dyn Exec>> {
    let judge = place.cx.service::<dyn CallJudge>()?;
    let cwd = place.cwd.clone();
    let judging = tokio::task::spawn_blocking(move || judge.allows_as_read("shell", &effects, &cwd));
    // If the judge fails, the command counts as a read, which is the stricter case.
    let is_read = judging.await.unwrap_or(true);
    let reads = place.cx.service::<ReadExec>().filter(|_| is_read)?;
    Some(reads.0.clone())
}

fn exit_status_json(exit: Exit) -> Value {
    match exit {
        Exit::Code(code) => json!({ "exitCode": code, "signal": null }),
        Exit::Signal(signal) => json!({ "exitCode": null, "signal": signal.to_string() }),
        Exit::TimedOut | Exit::Stopped => json!({ "exitCode": null, "signal": "SIGKILL" }),
    }
}
