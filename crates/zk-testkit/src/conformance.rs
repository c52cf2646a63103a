//! Conformance checks for providers, also for those of other authors.

mod reading;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use zk_core::kernel::Bus;
use zk_core::model::{Block, ErrorKind, Message, ProviderError, StopReason, WireReady};
use zk_core::service::{Provider, Request};

use crate::report::Conformance;
use crate::server::{FakeServer, RawReply};
use reading::{Reading, read};

/// Longest time for one check.
const LIMIT: Duration = Duration::from_secs(20);

/// Longest time for a stopped request to end.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// Sample responses of a provider's service, recorded or written by its documentation.
#[derive(Clone, Debug)]
pub struct WireSamples {
    /// `content-type` of its responses, such as `text/event-stream`.
    pub content_type: String,
    /// Complete response with text and a regular end.
    pub text: Vec<u8>,
    /// Complete response with at least one tool call.
    pub calls: Vec<u8>,
    /// Body of an error; `{key}` in it is replaced by [`WireSamples::key`].
    pub error: Vec<u8>,
    /// Key with which the provider was made; no error message may contain it.
    pub key: String,
    /// Id of the model to request.
    pub model: String,
}

/// Checks a provider's contract over a real socket: the shape of its streams with any segmentation of the
/// bytes, broken connections, call ids, error kinds, cancellation and silence.
///
/// `make` builds the provider for a base URL, without retries, with the key of the samples, and with
/// time-outs of a few seconds for silence.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use zk_core::service::Provider;
/// # use zk_testkit::{WireSamples, check_provider};
/// # async fn check(make: impl Fn(&str) -> Arc<dyn Provider>, samples: WireSamples) {
/// let conformance = check_provider(make, &samples).await;
/// assert!(conformance.is_met(), "{conformance}");
/// # }
/// ```
pub async fn check_provider(make: impl Fn(&str) -> Arc<dyn Provider>, samples: &WireSamples) -> Conformance {
    let mut found = Conformance::default();
    let check = Check { make: &make, samples };
    found.add_result("an answer is one well-formed stream", check.check_shape(&samples.text).await);
    found.add_result(
        "an answer with calls is one well-formed stream",
        check.check_shape(&samples.calls).await,
    );
    found.add_result("calls have ids of their own and arguments that are objects", check.check_calls().await);
    found.add_result("bytes may be cut anywhere", check.check_segmentation().await);
    found.add_result("an answer that breaks off is an error", check.check_broken_connections().await);
    found.add_result("errors have their classes, and show no key", check.check_error_kinds().await);
    found.add_result("a history with results of tools is sent", check.check_history().await);
    found.add_result("a stopped run ends the request", check.check_cancellation().await);
    found.add_result("silence ends the request", check.check_silence().await);
    found
}

struct Check<'a, M> {
    make: &'a M,
    samples: &'a WireSamples,
}

impl<M: Fn(&str) -> Arc<dyn Provider>> Check<'_, M> {
    fn reply(&self, body: &[u8]) -> RawReply {
        RawReply::new(body).content_type(&*self.samples.content_type)
    }

    fn provider(&self, reply: RawReply) -> Result<(FakeServer, Arc<dyn Provider>), String> {
        let server = FakeServer::raw_replies([reply]).map_err(|error| error.to_string())?;
        let provider = (self.make)(&server.url());
        Ok((server, provider))
    }

    fn request(&self, provider: &dyn Provider, history: &[Message]) -> Request {
        let model = provider.model(&self.samples.model);
        let history: Vec<Arc<Message>> = history.iter().cloned().map(Message::shared).collect();
        Request::new(model.clone(), WireReady::normalise(&history, &provider.rules(&model)))
    }

    /// Sends one request that is answered with `reply`, and reads the stream.
    async fn ask(&self, reply: RawReply) -> Result<Reading, String> {
        let (_server, provider) = self.provider(reply)?;
        let request = self.request(&*provider, &[Message::user_text("hello")]);
        let reading = read(provider.stream(request, &Bus::new().cx()));
        let reading = tokio::time::timeout(LIMIT, reading).await;
        reading.map_err(|_| format!("no end within {} s", LIMIT.as_secs()))?
    }

    async fn check_shape(&self, body: &[u8]) -> Result<(), String> {
        match self.ask(self.reply(body)).await?.outcome {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("failed: {error}")),
        }
    }

    async fn check_calls(&self) -> Result<(), String> {
        let reading = self.ask(self.reply(&self.samples.calls)).await?;
        let mut ids = Vec::new();
        for block in &reading.blocks {
            let Block::ToolCall(call) = block else { continue };
            if call.id.as_str().is_empty() || ids.contains(&call.id) {
                return Err(format!("the call of {} has no id of its own: `{}`", call.name, call.id));
            }
            if call.name.is_empty() || !matches!(call.args, Value::Object(_)) {
                return Err(format!("the call `{}` of {} has no object as arguments", call.id, call.name));
            }
            ids.push(call.id.clone());
        }
        match reading.outcome {
            _ if ids.is_empty() => Err("no call was read".to_owned()),
            Ok(StopReason::ToolUse) => Ok(()),
            Ok(stop) => Err(format!("the answer ends with {stop:?} instead of {:?}", StopReason::ToolUse)),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn check_segmentation(&self) -> Result<(), String> {
        for body in [&self.samples.text, &self.samples.calls] {
            let whole = self.ask(self.reply(body)).await?;
            let every = self.ask(self.reply(body).cut_at(1..body.len())).await?;
            whole.check_same(&every).map_err(|why| format!("byte by byte {why}"))?;
        }
        Ok(())
    }

    async fn check_broken_connections(&self) -> Result<(), String> {
        let body = &self.samples.text;
        let whole = self.ask(self.reply(body)).await?;
        let step = (body.len() / 24).max(1);
        for at in (0..body.len()).step_by(step) {
            let part = body.get(..at).unwrap_or_default();
            for reply in [self.reply(part), self.reply(part).broken_off()] {
                let reading = self.ask(reply).await?;
                if reading.outcome.is_ok() {
                    let short =
                        |why| format!("behind {at} of {} bytes it is a success, and {why}", body.len());
                    whole.check_same(&reading).map_err(short)?;
                }
            }
        }
        Ok(())
    }

    async fn check_error_kinds(&self) -> Result<(), String> {
        let text = String::from_utf8_lossy(&self.samples.error).replace("{key}", &self.samples.key);
        let statuses: [(u16, &[ErrorKind]); 6] = [
            (401, &[ErrorKind::Auth]),
            (403, &[ErrorKind::Auth]),
            (429, &[ErrorKind::Rate, ErrorKind::Quota]),
            (500, &[ErrorKind::Overloaded]),
            (503, &[ErrorKind::Overloaded]),
            (529, &[ErrorKind::Overloaded]),
        ];
        for (status, kinds) in statuses {
            let reply = RawReply::new(&*text).status(status).content_type("application/json");
            let error = self.error_of(reply).await.map_err(|why| format!("{status}: {why}"))?;
            if !kinds.contains(&error.kind) {
                return Err(format!("{status} is {:?} instead of {kinds:?}: {error}", error.kind));
            }
        }
        let reply = RawReply::new(&*text).status(400).content_type("application/json");
        let error = self.error_of(reply).await.map_err(|why| format!("400: {why}"))?;
        if error.is_retryable() { Err(format!("400 is asked for again: {error}")) } else { Ok(()) }
    }

    /// Returns the error that the provider makes of the response `reply`.
    async fn error_of(&self, reply: RawReply) -> Result<ProviderError, String> {
        let (_server, provider) = self.provider(reply.clone())?;
        let Err(error) = self.ask(reply).await?.outcome else { return Err("a success".to_owned()) };
        if error.provider != provider.name() || error.model != self.samples.model {
            return Err(format!("the error is of {}/{}: {error}", error.provider, error.model));
        }
        let texts = [error.to_string(), format!("{error:?}")];
        if !self.samples.key.is_empty() && texts.iter().any(|text| text.contains(&self.samples.key)) {
            return Err("the error shows the key".to_owned());
        }
        Ok(error)
    }

    /// Checks that the provider accepts a history with its own tool calls and their results.
    async fn check_history(&self) -> Result<(), String> {
        let first = self.ask(self.reply(&self.samples.calls)).await?;
        let (server, provider) = self.provider(self.reply(&self.samples.text))?;
        let source = provider.model(&self.samples.model).reference();
        let mut answer = Message::assistant(first.blocks.clone());
        answer.origin = Some(source);
        let results = first.calls().map(|call| Block::result(call.id.clone(), "the result 7031", false));
        let history = [Message::user_text("hello"), answer, Message::user(results.collect())];
        let request = self.request(&*provider, &history);
        let reading = tokio::time::timeout(LIMIT, read(provider.stream(request, &Bus::new().cx()))).await;
        let reading = reading.map_err(|_| "no end".to_owned())??;
        if let Err(error) = reading.outcome {
            return Err(format!("failed: {error}"));
        }
        let sent = server.requests();
        let sent = sent
            .last()
            .map(|request| String::from_utf8_lossy(&request.body).into_owned())
            .unwrap_or_default();
        if sent.contains("the result 7031") { Ok(()) } else { Err(format!("the result is not sent: {sent}")) }
    }

    async fn check_cancellation(&self) -> Result<(), String> {
        let body = &self.samples.text;
        let half = body.get(..body.len() / 2).unwrap_or_default();
        let (_server, provider) = self.provider(self.reply(half).then_silence())?;
        let request = self.request(&*provider, &[Message::user_text("hello")]);
        let bus = Bus::new();
        let stop = tokio_util::sync::CancellationToken::new();
        let events = provider.stream(request, &bus.cx().with_stop(stop.clone()));
        let (reading, ()) = tokio::join!(tokio::time::timeout(STOP_LIMIT, read(events)), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            stop.cancel();
        });
        match reading.map_err(|_| format!("no end within {} s", STOP_LIMIT.as_secs()))??.outcome {
            Err(error) if error.kind == ErrorKind::Aborted => Ok(()),
            Err(error) => Err(format!("{:?} instead of {:?}: {error}", error.kind, ErrorKind::Aborted)),
            Ok(_) => Err("a success".to_owned()),
        }
    }

    async fn check_silence(&self) -> Result<(), String> {
        let body = &self.samples.text;
        for part in [&[][..], body.get(..body.len() / 2).unwrap_or_default()] {
            match self.ask(self.reply(part).then_silence()).await?.outcome {
                Err(error) if error.kind == ErrorKind::Stalled => {}
                Err(error) => {
                    return Err(format!("{:?} instead of {:?}: {error}", error.kind, ErrorKind::Stalled));
                }
                Ok(_) => return Err("a success".to_owned()),
            }
        }
        Ok(())
    }
}
