use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zk_core::kernel::{Bus, Scope};
use zk_core::model::SessionId;
use zk_core::service::{Exec, ExecRequest, Input, TraceContext, trace_variables};

use super::host::{Host, METHODS};
use super::registry::Registry;
use super::shared::{ExtensionState, Introduction, Shared};
use crate::abilities::{askable, askable_names};
use crate::config::ExtensionConfig;
use crate::error::ExtensionError;
use crate::link::{Link, LogSink, MAX_REQUESTS, Pump, quoted};
use crate::protocol::{EXTENSION_PROTOCOL, Hello, HelloAnswer, HostLimits, MAX_LINE_BYTES, major};

/// Pause before the first new start; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause before a new start.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Failures in a row after which the program is not started again.
const MAX_FAILURES: u32 = 6;
/// Run time after which the number of failures in a row is reset.
const HEALTHY_TIME: Duration = Duration::from_secs(60);

/// Check before each start of the program.
pub(crate) type StartCheck = Arc<dyn Fn(&ExtensionConfig) -> Result<(), String> + Send + Sync>;

/// Name and version of the host program, for extensions.
#[derive(Clone)]
pub(crate) struct HostProgram {
    pub(crate) name: String,
    pub(crate) version: String,
}

/// Runs an extension's program: starts it, serves it, and restarts it after a failure.
pub(crate) struct Life {
    pub(crate) shared: Arc<Shared>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) scope: Scope,
    pub(crate) exec: Option<Arc<dyn Exec>>,
    pub(crate) log: Option<LogSink>,
    pub(crate) check: Option<StartCheck>,
    pub(crate) host: HostProgram,
    /// Handler that refuses calls until the extension has registered its guards.
    pub(crate) start_guard: Option<Scope>,
    pub(crate) closing: CancellationToken,
    pub(crate) closed: CancellationToken,
}

/// End of one run of the program.
struct Ended {
    reason: String,
    /// Whether a restart may help.
    may_recover: bool,
}

impl From<String> for Ended {
    fn from(reason: String) -> Self {
        Self { reason, may_recover: true }
    }
}

impl Life {
    /// Runs until the plugin is closed.
    pub(crate) async fn run(mut self) {
        let _closed = self.closed.clone().drop_guard();
        let mut failures = 0;
        while let Some(bus) = self.scope.bus().filter(|_| !self.closing.is_cancelled()) {
            self.shared.set_state(ExtensionState::Starting);
            let began = Instant::now();
            let ended = self.start(&bus).await;
            drop(bus);
            if self.closing.is_cancelled() {
                return;
            }
            failures = if began.elapsed() > HEALTHY_TIME { 1 } else { failures + 1 };
            let pause = FIRST_PAUSE.saturating_mul(1 << (failures - 1).min(16)).min(MAX_PAUSE);
            let again_in = Some(pause).filter(|_| ended.may_recover && failures < MAX_FAILURES);
            self.announce_down(&ended.reason, again_in);
            self.shared.set_state(ExtensionState::Down { reason: ended.reason, again_in });
            match again_in {
                None => self.closing.cancelled().await,
                Some(pause) => tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = self.closing.cancelled() => return,
                },
            }
        }
    }

    fn announce_down(&self, reason: &str, again_in: Option<Duration>) {
        let refused = match self.start_guard.is_some() || self.shared.is_asked("tool:gate") {
            true => ", and calls are refused until it runs",
            false => "",
        };
        let next = match again_in {
            Some(pause) => format!("it is started again in {:.1} s", pause.as_secs_f32()),
            None => "it is not started again before `/reload`".to_owned(),
        };
        self.shared.notice(&format!("it does not run ({reason}){refused}; {next}"));
    }

    /// Starts the program and serves it to its end.
    async fn start(&mut self, bus: &Bus) -> Ended {
        if let Some(Err(reason)) = self.check.as_ref().map(|check| check(&self.shared.config)) {
            return Ended { reason, may_recover: false };
        }
        let Some(exec) = self.exec.clone().or_else(|| bus.service::<dyn Exec>()) else {
            let error = ExtensionError::NoExec { name: self.shared.name().to_owned() };
            return error.to_string().into();
        };
        let process = match exec.spawn(self.request(bus)).await {
            Ok(process) => process,
            Err(error) => return error.to_string().into(),
        };
        let (link, mut queue) = Link::new(self.shared.name());
        let limit = self.shared.config.limits.answer;
        let served =
            Arc::new(Host::new((self.shared.clone(), self.registry.clone()), bus.clone(), link.clone()));
        let mut pump = Pump::new(process, link.clone(), served, self.log.clone(), limit);
        let closing = self.closing.clone();
        let ended = {
            let running = pump.run(&mut queue);
            let greeting = async {
                match self.greet(bus, &link).await {
                    Ok(()) => std::future::pending::<Ended>().await,
                    Err(ended) => ended,
                }
            };
            tokio::select! {
                reason = running => reason.into(),
                ended = greeting => ended,
                () = closing.cancelled() => "it is being ended".to_owned().into(),
            }
        };
        link.break_off(&ended.reason);
        pump.end().await;
        ended
    }

    fn request(&self, bus: &Bus) -> ExecRequest {
        let Shared { config, project, .. } = &*self.shared;
        let program = config.command.first().map_or("", String::as_str);
        let mut request = ExecRequest { input: Input::Piped, ..ExecRequest::new(program, project) };
        request.args = config.command.iter().skip(1).map(OsString::from).collect();
        request.env.insert("ZK_PROJECT_DIR".into(), project.into());
        if config.origin.is_project {
            // The program must only load approved files.
            request.env.insert("PYTHONDONTWRITEBYTECODE".into(), "1".into());
        }
        if let Some(trace) = bus.service::<dyn TraceContext>() {
            let variables = trace_variables(trace.program_headers());
            request.env.extend(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
        }
        request.env.extend(config.env.iter().map(|(name, value)| (name.into(), value.into())));
        request
    }

    /// Sends `hello`, and registers the items of the answer.
    async fn greet(&mut self, bus: &Bus, link: &Arc<Link>) -> Result<(), Ended> {
        let config = &self.shared.config;
        let ms = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let hello = Hello {
            protocol: EXTENSION_PROTOCOL.to_owned(),
            name: config.name.clone(),
            host: self.host.name.clone(),
            version: self.host.version.clone(),
            project: self.shared.project.clone(),
            cwd: self.shared.cwd().to_owned(),
            session: bus.service::<SessionId>().map(|id| id.to_string()),
            asks: askable_names(config.origin.is_project),
            methods: METHODS.iter().map(|method| (*method).to_owned()).collect(),
            limits: HostLimits {
                line_bytes: MAX_LINE_BYTES,
                requests: MAX_REQUESTS,
                timeout: ms(config.limits.answer),
                call_timeout: ms(config.limits.call),
            },
            settings: Value::Object(config.settings.clone()),
        };
        let answer = link.request("hello", hello, config.limits.start, &self.closing).await;
        let answer = answer.map_err(|error| Ended::from(error.to_string()))?;
        let answer: HelloAnswer = serde_json::from_value(answer).map_err(|error| Ended {
            reason: format!("its answer to `hello` is not understood: {error}"),
            may_recover: false,
        })?;
        if major(&answer.protocol) != major(EXTENSION_PROTOCOL) {
            let spoken = quoted(answer.protocol.as_bytes());
            return Err(Ended {
                reason: format!(
                    "it speaks version {spoken} of the protocol, and zk version {EXTENSION_PROTOCOL}"
                ),
                may_recover: false,
            });
        }
        let unknown = answer.register.asks.iter().find(|ask| askable(&ask.event).is_none());
        // A guard of an unknown event would guard nothing.
        if let Some(ask) = unknown.filter(|_| config.guards) {
            let event = quoted(ask.event.as_bytes());
            return Err(Ended {
                reason: format!("it asks for `{event}`, which is no event that it may answer"),
                may_recover: false,
            });
        }
        let asked = answer.register.asks.iter().filter_map(|ask| askable(&ask.event)).map(|event| event.name);
        self.shared.set_asked(asked.collect::<BTreeSet<_>>());
        let left_out = self.registry.apply(&self.shared, bus, answer.register, true).await;
        for left in left_out {
            let (kind, name) = (left.kind, quoted(left.name.as_bytes()));
            self.shared.notice(&format!("{kind} `{name}` is left out: {}", left.reason));
        }
        let Introduction { name, version, protocol, link } = Introduction {
            name: answer.name,
            version: answer.version,
            protocol: answer.protocol,
            link: link.clone(),
        };
        self.shared.set_state(ExtensionState::Ready(Introduction { name, version, protocol, link }));
        // All guards are registered at this point.
        if let Some(guard) = self.start_guard.take() {
            guard.close().await;
        }
        Ok(())
    }
}
