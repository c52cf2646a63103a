use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::Value;
use zk_core::events::ViewBlock;
use zk_core::kernel::Bus;
use zk_core::service::{Ui, visible_line};

use super::rate::Rate;
use super::registry::Registry;
use super::requests;
use super::shared::Shared;
use crate::link::{Link, Served};
use crate::protocol::{BackendText, ErrorObject, Notice, ShowBlock, ToolProgress};

/// Lines for the person and blocks that an extension may show within [`SHOWN_WITHIN`].
const MAX_SHOWN: usize = 50;
const SHOWN_WITHIN: Duration = Duration::from_secs(10);
/// Messages for the conversation that an extension may deliver within [`DELIVERED_WITHIN`], since they may begin runs.
const MAX_DELIVERED: usize = 30;
const DELIVERED_WITHIN: Duration = Duration::from_secs(3600);

/// Methods that an extension can call.
pub(crate) const METHODS: [&str; 17] = [
    "register",
    "unregister",
    "ask",
    "notify",
    "show",
    "tool/progress",
    "backend/text",
    "session/append",
    "session/entries",
    "side_call",
    "run/steer",
    "run/follow_up",
    "run/next_prompt",
    "run/abort",
    "deliver",
    "ping",
    "cancel",
];

/// Services of zk, for one running program of an extension.
pub(crate) struct Host {
    pub(super) shared: Arc<Shared>,
    pub(super) registry: Arc<Registry>,
    pub(super) bus: Bus,
    pub(super) link: Arc<Link>,
    shown: Rate,
    pub(super) delivered: Rate,
}

impl Host {
    pub(crate) fn new((shared, registry): (Arc<Shared>, Arc<Registry>), bus: Bus, link: Arc<Link>) -> Self {
        let shown = Rate::new(MAX_SHOWN, SHOWN_WITHIN);
        Self { shared, registry, bus, link, shown, delivered: Rate::new(MAX_DELIVERED, DELIVERED_WITHIN) }
    }

    fn notify(&self, notice: &Notice) {
        if !self.shown.allows() {
            return;
        }
        let text = visible_line(&format!("{}: {}", self.shared.name(), notice.text));
        match self.bus.service::<dyn Ui>() {
            Some(ui) => ui.notify(&text),
            None => self.shared.notice(&visible_line(&notice.text)),
        }
    }

    fn show(&self, block: ShowBlock) {
        if !self.shown.allows() {
            return;
        }
        let ShowBlock { key, kind, title, body, last } = block;
        let source = self.shared.config.source();
        let block = ViewBlock { source, key, kind, title, body, last };
        let cx = self.bus.cx();
        tokio::spawn(async move {
            // The outcome is ignored: an observer that fails changes nothing here.
            let _ = cx.emit(block).await;
        });
    }
}

#[async_trait]
impl Served for Host {
    async fn serve(&self, method: &str, params: Value) -> Result<Value, ErrorObject> {
        match method {
            "register" => requests::register(self, read(params)?).await,
            "unregister" => requests::unregister(self, read(params)?).await,
            "ask" => requests::ask(self, read(params)?).await,
            "session/append" => requests::append(self, read(params)?).await,
            "session/entries" => requests::entries(self, read(params)?).await,
            "side_call" => requests::side_call(self, read(params)?).await,
            "run/steer" | "run/follow_up" | "run/next_prompt" => {
                requests::message(self, method, read(params)?)
            }
            "run/abort" => requests::abort(self, &read(params)?),
            "deliver" => requests::deliver(self, read(params)?).await,
            "ping" => Ok(Value::Null),
            "notify" => {
                self.notify(&read(params)?);
                Ok(Value::Null)
            }
            "show" => {
                self.show(read(params)?);
                Ok(Value::Null)
            }
            _ => Err(ErrorObject {
                code: -32601,
                message: format!("zk knows no method `{}`", visible_line(method)),
            }),
        }
    }

    fn handle_notification(&self, method: &str, params: Value) {
        match method {
            "notify" => read(params).iter().for_each(|notice| self.notify(notice)),
            "show" => read(params).into_iter().for_each(|block| self.show(block)),
            "tool/progress" => {
                if let Ok(ToolProgress { call, text }) = read(params)
                    && let Some(progress) = self.shared.progress(&call)
                {
                    progress.show(&text);
                }
            }
            "backend/text" => {
                if let Ok(text) = read::<BackendText>(params) {
                    self.shared.turns.pass_text(text);
                }
            }
            // Notifications of a later version have no meaning here.
            _ => {}
        }
    }
}

/// Reads parameters; nothing stands for an empty object.
fn read<T: DeserializeOwned>(params: Value) -> Result<T, ErrorObject> {
    let params = if params.is_null() { Value::Object(serde_json::Map::new()) } else { params };
    serde_json::from_value(params)
        .map_err(|error| ErrorObject { code: -32602, message: format!("the parameters are wrong: {error}") })
}
