//! A container engine at a socket, as far as zk asks it for anything; its containers are processes of this machine.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zk_core::service::{
    Exec, ExecRequest, Exit, Input, KillSignal, OutputStream, Process, ProcessEvent, TerminalSize,
};
use zk_exec::ProcessExec;

use crate::support::{environment, supervised};

/// Fake engine, removed with its files on drop.
pub(crate) struct FakeEngine {
    dir: tempfile::TempDir,
    state: Arc<State>,
}

struct State {
    exec: ProcessExec,
    /// Existing image.
    image: &'static str,
    /// Requests so far, as `POST /containers/create`.
    asked: Mutex<Vec<String>>,
    containers: Mutex<HashMap<String, Container>>,
    commands: Mutex<HashMap<String, Command>>,
    serial: AtomicU64,
}

#[derive(Clone, Default)]
struct Container {
    made_of: Value,
    runs: bool,
}

#[derive(Clone, Default)]
struct Command {
    made_of: Value,
    exit: Option<i64>,
    /// Process id of the command; 0 if there never was one.
    runs_as: u32,
    size: Option<TerminalSize>,
}

impl FakeEngine {
    pub(crate) fn start(image: &'static str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state = Arc::new(State {
            exec: supervised(environment()),
            image,
            asked: Mutex::default(),
            containers: Mutex::default(),
            commands: Mutex::default(),
            serial: AtomicU64::new(0),
        });
        let listener = tokio::net::UnixListener::bind(dir.path().join("engine.sock")).unwrap();
        let serving = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = serving.clone();
                let service = service_fn(move |request| answer(state.clone(), request));
                let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection.with_upgrades());
            }
        });
        Self { dir, state }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("engine.sock")
    }

    /// Number of requests that begin with `what`.
    pub(crate) fn asked(&self, what: &str) -> usize {
        self.state.asked.lock().unwrap().iter().filter(|asked| asked.starts_with(what)).count()
    }

    /// Creation requests of the existing containers.
    pub(crate) fn containers(&self) -> Vec<Value> {
        let containers = self.state.containers.lock().unwrap();
        containers.values().map(|container| container.made_of.clone()).collect()
    }

    /// Removes all containers, like another user.
    pub(crate) fn lose_containers(&self) {
        self.state.containers.lock().unwrap().clear();
    }
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().strip_prefix("/v1.41").unwrap_or_default().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let method = request.method().clone();
    state.asked.lock().unwrap().push(format!("{method} {path}"));
    let mut request = request;
    let body = request.body_mut().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    Ok(match (&method, parts.as_slice()) {
        (&Method::POST, ["containers", "create"]) => state.create(body),
        (&Method::POST, ["containers", id, "attach"]) => state.attach(id, request),
        (&Method::POST, ["containers", id, "start"]) => {
            state.change(id, |container| container.runs = true);
            reply(StatusCode::NO_CONTENT, &Value::Null)
        }
        (&Method::GET, ["containers", id, "json"]) => {
            let found = state.containers.lock().unwrap().get(*id).cloned();
            match found {
                Some(found) => reply(StatusCode::OK, &json!({ "State": { "Running": found.runs } })),
                None => reply(StatusCode::NOT_FOUND, &json!({ "message": "no such container" })),
            }
        }
        (&Method::DELETE, ["containers", id]) => {
            state.containers.lock().unwrap().remove(*id);
            reply(StatusCode::NO_CONTENT, &Value::Null)
        }
        (&Method::POST, ["containers", id, "exec"]) => {
            assert!(state.containers.lock().unwrap().contains_key(*id));
            let id = state.next("command");
            let made = Command { made_of: body, ..Command::default() };
            state.commands.lock().unwrap().insert(id.clone(), made);
            reply(StatusCode::CREATED, &json!({ "Id": id }))
        }
        (&Method::POST, ["exec", id, "start"]) => state.run(id, request),
        (&Method::POST, ["exec", id, "resize"]) => {
            let value = |name: &str| {
                query.split('&').find_map(|part| part.strip_prefix(name)?.parse::<u16>().ok()).unwrap()
            };
            let size = TerminalSize { rows: value("h="), columns: value("w=") };
            state.commands.lock().unwrap().get_mut(*id).unwrap().size = Some(size);
            reply(StatusCode::OK, &Value::Null)
        }
        (&Method::GET, ["exec", id, "json"]) => {
            let command = state.commands.lock().unwrap().get(*id).cloned().unwrap();
            reply(
                StatusCode::OK,
                &json!({ "Running": command.exit.is_none(), "ExitCode": command.exit, "Pid": command.runs_as }),
            )
        }
        _ => reply(StatusCode::BAD_REQUEST, &json!({ "message": format!("{method} {path}?") })),
    })
}

fn reply(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    Response::builder().status(status).body(Full::new(text.into())).unwrap()
}

fn hand_over() -> Response<Full<Bytes>> {
    let head = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    head.header("Connection", "Upgrade").header("Upgrade", "tcp").body(Full::default()).unwrap()
}

impl State {
    fn next(&self, what: &str) -> String {
        format!("{what}-{}", self.serial.fetch_add(1, Ordering::Relaxed))
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Container)) {
        if let Some(container) = self.containers.lock().unwrap().get_mut(id) {
            change(container);
        }
    }

    fn create(&self, body: Value) -> Response<Full<Bytes>> {
        if body["Image"] != self.image {
            let message = format!("No such image: {}", body["Image"].as_str().unwrap_or_default());
            return reply(StatusCode::NOT_FOUND, &json!({ "message": message }));
        }
        let id = self.next("container");
        let made = Container { made_of: body, runs: false };
        self.containers.lock().unwrap().insert(id.clone(), made);
        reply(StatusCode::CREATED, &json!({ "Id": id }))
    }

    /// Attaches to the first process, `cat`: the container ends with this connection.
    fn attach(self: &Arc<Self>, id: &str, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (state, id) = (self.clone(), id.to_owned());
        tokio::spawn(async move {
            let mut stream = TokioIo::new(hyper::upgrade::on(request).await.unwrap());
            let mut nothing = [0; 64];
            while let Ok(1..) = stream.read(&mut nothing).await {}
            state.containers.lock().unwrap().remove(&id);
        });
        hand_over()
    }

    fn run(self: &Arc<Self>, id: &str, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (state, id) = (self.clone(), id.to_owned());
        tokio::spawn(async move {
            let stream = TokioIo::new(hyper::upgrade::on(request).await.unwrap());
            state.follow(&id, stream).await;
        });
        hand_over()
    }

    async fn follow(&self, id: &str, stream: TokioIo<hyper::upgrade::Upgraded>) {
        let made_of = self.commands.lock().unwrap()[id].made_of.clone();
        let is_terminal = made_of["Tty"] == true;
        let mut argv = made_of["Cmd"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().to_owned());
        let mut request =
            ExecRequest::new(argv.next().unwrap(), made_of["WorkingDir"].as_str().unwrap_or("/"));
        request.args = argv.map(Into::into).collect();
        let env = made_of["Env"].as_array().cloned().unwrap_or_default();
        let env = env.iter().filter_map(|one| one.as_str()?.split_once('='));
        request.env = env.map(|(name, value)| (name.into(), value.into())).collect::<BTreeMap<_, _>>();
        if made_of["AttachStdin"] == true {
            request.input = Input::Piped;
        }
        request.terminal = is_terminal.then_some(TerminalSize { rows: 24, columns: 80 });
        let (mut from, mut to) = tokio::io::split(stream);
        let program = request.program.to_string_lossy().into_owned();
        let started = self.exec.spawn(request).await;
        let Ok(mut process) = started else {
            let why = "executable file not found in $PATH: unknown";
            let why = format!("OCI runtime exec failed: exec failed: exec: \"{program}\": {why}\r\n");
            let mut frame = vec![1, 0, 0, 0];
            frame.extend(u32::try_from(why.len()).unwrap().to_be_bytes());
            frame.extend(why.as_bytes());
            self.end(id, 126);
            let _ = to.write_all(&frame).await;
            return;
        };
        self.commands.lock().unwrap().get_mut(id).unwrap().runs_as = 7;
        let (mut typed, mut reads) = ([0; 4096], made_of["AttachStdin"] == true);
        loop {
            self.resize(id, &mut *process).await;
            tokio::select! {
                event = process.next() => match event.unwrap() {
                    Some(ProcessEvent::Output(stream, bytes)) => {
                        let which = if stream == OutputStream::Stderr { 2 } else { 1 };
                        let mut frame = vec![which, 0, 0, 0];
                        frame.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
                        frame.extend(&bytes);
                        let frame = if is_terminal { bytes } else { frame };
                        if to.write_all(&frame).await.is_err() {
                            let _ = process.kill(KillSignal::Kill).await;
                        }
                    }
                    Some(ProcessEvent::Closed(_)) => {}
                    Some(ProcessEvent::Exited(Exit::Code(code))) => self.end(id, code.into()),
                    Some(ProcessEvent::Exited(Exit::Signal(signal))) => self.end(id, i64::from(signal) + 128),
                    Some(ProcessEvent::Exited(_)) => self.end(id, -1),
                    None => break,
                },
                read = from.read(&mut typed), if reads => match read {
                    Ok(length @ 1..) => {
                        // A requested size applies before later input.
                        self.resize(id, &mut *process).await;
                        let _ = process.write(&typed[..length]).await;
                    }
                    _ => {
                        reads = false;
                        let _ = process.close_input().await;
                    }
                },
            }
        }
        // Processes that the command left running stay, as in a container.
        process.release();
        let _ = to.shutdown().await;
    }

    async fn resize(&self, id: &str, process: &mut dyn Process) {
        let size = self.commands.lock().unwrap().get_mut(id).unwrap().size.take();
        if let Some(size) = size {
            process.resize(size).await.unwrap();
        }
    }

    fn end(&self, id: &str, code: i64) {
        self.commands.lock().unwrap().get_mut(id).unwrap().exit = Some(code);
    }
}

/// Socket that does not answer like an engine.
pub(crate) fn garbage(dir: &Path) -> PathBuf {
    let path = dir.join("garbage.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"220 mail.example.org ESMTP\r\n").await;
        }
    });
    path
}
