//! Commands in a container, over the interface of its engine.

mod engine;
mod mounts;
mod process;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use hyper::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use zk_core::service::{EnvPolicy, Exec, ExecError, ExecRequest, Input, Process};

use crate::Limits;
use crate::sandbox::{Placeholders, Printed};
use engine::{Engine, EngineError, Stream};
use mounts::Mounts;
use process::{Containered, DockerProcess};

/// Environment variable that marks the processes of a command.
const MARK: &str = "ZK_COMMAND";
/// Counter of commands of this process, over all containers: each mark belongs to one command.
static SERIAL: AtomicU64 = AtomicU64::new(0);

/// Maximum number of processes in a container, unless the limits say otherwise.
const MAX_PROCESSES: u32 = 4096;

/// Options of the container that commands run in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DockerOptions {
    /// The engine's socket.
    pub socket: PathBuf,
    /// Name of the image; it must exist, as it is not pulled.
    pub image: String,
    /// Directory that is mounted writable at its own path.
    pub workspace: PathBuf,
    /// Repository around the workspace, which is mounted as well; see `SandboxPolicy::project`.
    pub project: Option<PathBuf>,
    /// Additional writable directories.
    pub writable: Vec<PathBuf>,
    /// Files and directories inside of the mounts that are hidden from commands.
    pub hidden: Vec<PathBuf>,
    /// The person's home directory: never mounted as a whole.
    pub home: Option<PathBuf>,
    /// Private directory of the host for data that must survive a crash: the list of placeholders.
    pub state: Option<PathBuf>,
    /// Whether commands have the engine's usual network; otherwise only a loopback of their own.
    pub network: bool,
    /// Memory and processes of all commands together, and the output of each.
    pub limits: Limits,
}

impl DockerOptions {
    /// Options for a container of `image` with `workspace`, without a network, at the engine's usual socket.
    #[must_use]
    pub fn new(image: impl Into<String>, workspace: impl Into<PathBuf>) -> Self {
        Self {
            socket: "/var/run/docker.sock".into(),
            image: image.into(),
            workspace: workspace.into(),
            project: None,
            writable: Vec::new(),
            hidden: Vec::new(),
            home: None,
            state: None,
            network: false,
            limits: Limits::default(),
        }
    }
}

/// Runs commands in one container, which is created for the first command: the `dyn Exec` of the context
/// `docker`.
///
/// | | in the container |
/// |---|---|
/// | user | the user who runs this program, without capabilities and without ways to gain them |
/// | workspace | mounted writable at its own path; the paths that the [sandbox](crate::SandboxExec) guards are guarded here, too |
/// | files | those of the image |
/// | network | none, or the engine's |
/// | environment | the image's, and the variables that a command is granted |
///
/// The container is stopped and removed when this program ends, however it ends: the container's first
/// process waits for the end of a connection that only this program holds. When a guarded file is replaced on
/// the host, the mount over the old file is gone, so the next command gets a new container; running commands
/// stay in the old container.
#[derive(Debug)]
pub struct DockerExec {
    engine: Engine,
    options: DockerOptions,
    container: Mutex<Option<Arc<Container>>>,
    /// Placeholders on the host, kept for as long as a container may exist.
    kept_free: std::sync::Mutex<Vec<Placeholders>>,
}

/// Running container; it lives as long as the connection to its first process.
#[derive(Debug)]
struct Container {
    id: String,
    mounts: Mounts,
    /// Connection that keeps the container's first process alive.
    _life: Stream,
}

impl DockerExec {
    /// Executor with these options. The container is created with the first command.
    #[must_use]
    pub fn new(options: DockerOptions) -> Self {
        let engine = Engine::new(&options.socket);
        Self { engine, options, container: Mutex::new(None), kept_free: std::sync::Mutex::default() }
    }

    /// Checks that a server listens at the engine's socket.
    ///
    /// # Errors
    /// The system's error when there is no server, or this user may not connect.
    pub fn check(&self) -> io::Result<()> {
        let socket = self.engine.socket();
        std::os::unix::net::UnixStream::connect(socket).map(drop).map_err(|error| {
            let why = error.to_string();
            EngineError::Unreachable { socket: socket.display().to_string(), why }.into()
        })
    }

    /// Starts the container if it does not run.
    ///
    /// # Errors
    /// The engine's: it cannot be reached, the image is missing, or a mount is refused.
    pub async fn start(&self) -> io::Result<()> {
        self.container().await.map(drop)
    }

    /// Removes the container with its processes.
    pub async fn close(&self) {
        if let Some(container) = self.container.lock().await.take() {
            let path = format!("/containers/{}?force=true", container.id);
            // The container ended, or ends with the connection.
            let _ = self.engine.call("remove the container", Method::DELETE, &path, None).await;
        }
        self.kept_free.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    async fn container(&self) -> io::Result<Arc<Container>> {
        let mut container = self.container.lock().await;
        if let Some(container) = &*container
            && container.mounts.are_current()
            && self.is_running(&container.id).await
        {
            return Ok(container.clone());
        }
        let options = self.options.clone();
        let made = tokio::task::spawn_blocking(move || Mounts::of(&options));
        let (mounts, kept_free) = made.await.map_err(io::Error::other)?.map_err(io::Error::other)?;
        self.kept_free.lock().unwrap_or_else(PoisonError::into_inner).push(kept_free);
        let made = Arc::new(self.create_container(mounts).await?);
        *container = Some(made.clone());
        Ok(made)
    }

    async fn is_running(&self, id: &str) -> bool {
        let found = self
            .engine
            .call("look at the container", Method::GET, &format!("/containers/{id}/json"), None)
            .await;
        found.is_ok_and(|found| found.pointer("/State/Running") == Some(&Value::Bool(true)))
    }

    async fn create_container(&self, mounts: Mounts) -> Result<Container, EngineError> {
        let DockerOptions { image, workspace, network, limits, .. } = &self.options;
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let body = json!({
            "Image": image,
            // Ends at the end of its input, when this program closes the connection.
            "Entrypoint": ["cat"],
            "Cmd": [],
            "OpenStdin": true,
            "StdinOnce": true,
            "AttachStdin": true,
            "User": format!("{user}:{group}"),
            "WorkingDir": workspace,
            "Labels": { "zk": "commands" },
            "HostConfig": {
                "AutoRemove": true,
                "Init": true,
                "Mounts": mounts.list,
                "NetworkMode": if *network { "bridge" } else { "none" },
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
                "PidsLimit": limits.processes.unwrap_or(MAX_PROCESSES),
                "Memory": limits.memory.unwrap_or(0),
            },
        });
        let created =
            self.engine.call("make a container", Method::POST, "/containers/create", Some(&body)).await?;
        let id = created.get("Id").and_then(Value::as_str).map(str::to_owned);
        let id = id
            .ok_or_else(|| EngineError::Garbage { doing: "make a container", answer: created.to_string() })?;
        // Attached before the start, so that the container never runs without a connection that ends it.
        let attach = format!("/containers/{id}/attach?stream=1&stdin=1");
        let life = self.engine.hijack("attach to the container", &attach, None).await?;
        let start = format!("/containers/{id}/start");
        if let Err(error) = self.engine.call("start the container", Method::POST, &start, None).await {
            let path = format!("/containers/{id}?force=true");
            let _ = self.engine.call("remove the container", Method::DELETE, &path, None).await;
            return Err(explain_missing_program(error, image, "cat"));
        }
        Ok(Container { id, mounts, _life: life })
    }

    async fn start_command(&self, request: &ExecRequest) -> io::Result<DockerProcess> {
        if request.environment == EnvPolicy::Inherit {
            let why = "a container has no environment of this machine to give";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let container = self.container().await?;
        let mark = format!("{}.{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
        let place = Containered { engine: self.engine.clone(), container, mark };
        let mut argv = vec![to_utf8(&request.program)?];
        argv.extend(request.args.iter().map(|arg| to_utf8(arg)).collect::<io::Result<Vec<_>>>()?);
        let mut env = vec![format!("{MARK}={}", place.mark)];
        if !request.env.contains_key(OsStr::new("HOME")) {
            // The user has no home directory in the image.
            env.push("HOME=/tmp".to_owned());
        }
        env.extend(env_entries(&request.env)?);
        let is_terminal = request.terminal.is_some();
        let reads = is_terminal || request.input == Input::Piped;
        let body = json!({
            "AttachStdin": reads,
            "AttachStdout": true,
            "AttachStderr": true,
            "Tty": is_terminal,
            "Env": env,
            "Cmd": argv,
            "WorkingDir": request.cwd,
        });
        let program = argv.swap_remove(0);
        let image = &self.options.image;
        let (id, stream) = place
            .exec(&body, is_terminal)
            .await
            .map_err(|error| explain_missing_program(error, image, &program))?;
        let (missing, printed) = (missing_program_message(image, &program), Printed::of(request));
        let process = DockerProcess::new(
            program,
            request.cwd.clone(),
            place,
            (id, stream),
            is_terminal,
            (reads, printed),
        )
        .with_limits(self.options.limits)
        .with_missing_message(missing);
        if let Some(size) = request.terminal {
            process.set_size(size).await?;
        }
        Ok(process)
    }
}

/// Replaces the engine's refusal by a plain message where the image lacks the program.
fn explain_missing_program(error: EngineError, image: &str, program: &str) -> EngineError {
    match error {
        EngineError::Refused { message, .. } if says_missing(&message) => {
            EngineError::Lacks(missing_program_message(image, program))
        }
        other => other,
    }
}

fn missing_program_message(image: &str, program: &str) -> String {
    format!("the image {image} has no `{program}`; choose one that has it, or add it to this one")
}

/// Whether the engine's message says that the program does not exist.
fn says_missing(message: &str) -> bool {
    message.contains("executable file") && message.contains("not found")
}

fn to_utf8(text: &OsStr) -> io::Result<String> {
    text.to_str().map(str::to_owned).ok_or_else(|| {
        let why = "it is no UTF-8, which the interface of containers needs";
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })
}

fn env_entries(env: &BTreeMap<OsString, OsString>) -> io::Result<Vec<String>> {
    env.iter().map(|(name, value)| Ok(format!("{}={}", to_utf8(name)?, to_utf8(value)?))).collect()
}

#[async_trait]
impl Exec for DockerExec {
    async fn spawn(&self, request: ExecRequest) -> Result<Box<dyn Process>, ExecError> {
        match self.start_command(&request).await {
            Ok(process) => Ok(Box::new(process)),
            Err(source) => {
                let program = request.program.to_string_lossy().into_owned();
                Err(ExecError::Spawn { program, cwd: request.cwd, source })
            }
        }
    }
}
