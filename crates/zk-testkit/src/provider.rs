use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::stream;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use zk_core::kernel::Cx;
use zk_core::model::{
    ErrorKind, IdRule, MediaTypes, Model, ModelRef, Phase, ProviderError, ThinkingReplay, WireRules,
};
use zk_core::service::{EventStream, Provider, Request, StreamEvent};

use crate::rules::check_wire;
use crate::script::{Beat, Playback, beats};
use crate::{Answered, Asked, Script};

/// Provider that plays a [`Script`], without network and key, and deterministically.
///
/// Calls get the ids `call_1`, `call_2` …; the run's stop token ends a stream at once; requests are recorded.
/// A history that breaks the rules is rejected, as by a real provider. Clones share the state.
///
/// ```
/// use std::sync::Arc;
/// use futures_util::StreamExt;
/// use zk_core::kernel::Bus;
/// use zk_core::service::Provider;
/// use zk_testkit::{Script, ScriptedProvider};
///
/// let provider = ScriptedProvider::new(Script::new().turn(|t| t.text("done")));
/// let bus = Bus::new();
/// bus.scope("host").provide::<dyn Provider>("scripted", Arc::new(provider.clone())).unwrap();
/// assert!(provider.requests().is_empty());
/// ```
#[derive(Clone)]
pub struct ScriptedProvider {
    inner: Arc<Inner>,
    name: Arc<str>,
    model: Option<Model>,
    rules: Option<RulesOf>,
    native_output: NativeOutput,
}

type RulesOf = Arc<dyn Fn(&Model) -> WireRules + Send + Sync>;

struct Inner {
    playback: Playback,
    requests: Mutex<Vec<Request>>,
}

impl fmt::Debug for ScriptedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedProvider")
            .field("name", &self.name)
            .field("playback", &self.inner.playback)
            .finish_non_exhaustive()
    }
}

/// Requests in which the provider enforces a schema for answers.
#[derive(Clone, Copy, Debug)]
enum NativeOutput {
    Never,
    WithoutTools,
    Always,
}

impl ScriptedProvider {
    /// Default model.
    pub const MODEL: &'static str = "scripted-1";

    /// Provider `scripted` that plays `script`.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self {
            inner: Arc::new(Inner { playback: Playback::new(script), requests: Mutex::default() }),
            name: Arc::from("scripted"),
            model: None,
            rules: None,
            native_output: NativeOutput::Never,
        }
    }

    /// Sets the provider's name; `scripted` by default.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the properties of the provider's models: window, prices, capabilities. Provider and id are filled
    /// in.
    #[must_use]
    pub fn with_model(mut self, model: Model) -> Self {
        self.model = Some(model);
        self
    }

    /// Sets the rules for accepted histories, in place of the tolerant defaults.
    #[must_use]
    pub fn with_rules(mut self, rules: impl Fn(&Model) -> WireRules + Send + Sync + 'static) -> Self {
        self.rules = Some(Arc::new(rules));
        self
    }

    /// Declares that the provider itself enforces requested schemas; the script is responsible for it.
    #[must_use]
    pub fn with_native_output(mut self) -> Self {
        self.native_output = NativeOutput::Always;
        self
    }

    /// Declares as [`ScriptedProvider::with_native_output`] does, but only for requests without tools.
    #[must_use]
    pub fn with_native_output_without_tools(mut self) -> Self {
        self.native_output = NativeOutput::WithoutTools;
        self
    }

    /// Requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.recorded_requests().clone()
    }

    /// Requests so far, in the form that scripts see.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.recorded_requests().iter().zip(1..).map(|(request, number)| Asked::of(request, number)).collect()
    }

    /// Last text of the user in the last request; empty if there is none.
    #[must_use]
    pub fn last_user_text(&self) -> String {
        self.asked().last().map(Asked::last_user_text).unwrap_or_default()
    }

    /// Tool results at the end of the last request.
    #[must_use]
    pub fn last_results(&self) -> Vec<Answered> {
        self.asked().last().map(Asked::results).unwrap_or_default()
    }

    fn recorded_requests(&self) -> MutexGuard<'_, Vec<Request>> {
        self.inner.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the request and computes its response.
    fn next_response(&self, request: Request) -> VecDeque<Beat> {
        let origin = request.model.reference();
        let verdict = check_wire(&request.history, &self.rules(&request.model));
        let (asked, number) = {
            let mut requests = self.recorded_requests();
            let number = requests.len() + 1;
            let asked = Asked::of(&request, number);
            requests.push(request);
            (asked, number)
        };
        if let Err(violation) = verdict {
            return VecDeque::from([Beat::Fail(rejection(
                &origin,
                "invalid_history",
                violation.to_string(),
            ))]);
        }
        match self.inner.playback.next(&asked, |number, _| format!("call_{number}")) {
            Ok(turn) => beats(&turn, &origin, number, self.inner.playback.pace()),
            Err(why) => VecDeque::from([Beat::Fail(rejection(&origin, "script_ended", why))]),
        }
    }
}

fn rejection(origin: &ModelRef, code: &str, why: String) -> Box<ProviderError> {
    let mut error =
        ProviderError::new(ErrorKind::Rejected, &*origin.provider, &*origin.model, Phase::Request, why);
    error.code = Some(code.to_owned());
    Box::new(error)
}

#[async_trait]
impl Provider for ScriptedProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn model(&self, id: &str) -> Model {
        let known = self.model.clone().unwrap_or_else(|| Model::unknown("", ""));
        Model { provider: self.name.to_string(), id: id.to_owned(), ..known }
    }

    fn default_model(&self) -> Option<String> {
        Some(self.model.as_ref().map_or_else(|| Self::MODEL.to_owned(), |model| model.id.clone()))
    }

    fn known_models(&self) -> Vec<Model> {
        self.default_model().map(|id| self.model(&id)).into_iter().collect()
    }

    fn rules(&self, model: &Model) -> WireRules {
        match &self.rules {
            Some(rules) => rules(model),
            None => WireRules {
                target: model.reference(),
                ids: IdRule::UP_TO_64,
                vision: model.capabilities.vision,
                media: MediaTypes::ANY,
                image_in_tool_result: model.capabilities.image_in_tool_result,
                image_in_answer: false,
                thinking: ThinkingReplay::Echo,
                resumes: false,
            },
        }
    }

    fn native_output(&self, _: &Model, _: &Value, with_tools: bool) -> bool {
        match self.native_output {
            NativeOutput::Never => false,
            NativeOutput::WithoutTools => !with_tools,
            NativeOutput::Always => true,
        }
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        let origin = request.model.reference();
        let beats = self.next_response(request);
        let state = Some((beats, cx.stop_token().clone(), origin));
        Box::pin(stream::unfold(state, |state| async {
            let (mut beats, stop, origin) = state?;
            let next = next(&mut beats, &stop, &origin).await?;
            let more = next.is_ok().then_some((beats, stop, origin));
            Some((next, more))
        }))
    }

    async fn list_models(&self, _: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        Ok(self.default_model().map(|id| vec![self.model(&id)]))
    }
}

async fn next(
    beats: &mut VecDeque<Beat>,
    stop: &CancellationToken,
    origin: &ModelRef,
) -> Option<Result<StreamEvent, ProviderError>> {
    loop {
        // A complete text is an answer, even if the run is stopped meanwhile.
        let beat = beats.pop_front()?;
        let pause = match beat {
            Beat::Emit(_) | Beat::Fail(_) if stop.is_cancelled() => return Some(Err(aborted_error(origin))),
            Beat::Emit(event) => return Some(Ok(event)),
            Beat::Fail(error) => return Some(Err(*error)),
            Beat::Wait(pause) => Some(pause),
            Beat::Hang => None,
        };
        let waited = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return Some(Err(aborted_error(origin))),
            () = waited => {}
        }
    }
}

fn aborted_error(origin: &ModelRef) -> ProviderError {
    ProviderError::new(
        ErrorKind::Aborted,
        &*origin.provider,
        &*origin.model,
        Phase::Stream,
        "the run was stopped",
    )
}
