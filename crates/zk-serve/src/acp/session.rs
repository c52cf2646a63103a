use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::{OwnedMutexGuard, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use zk_chat::HostedConversation;

use super::files::{BufferFilesPlugin, Buffers};
use super::options::Choices;
use super::told::{Order, Pump};
use super::wire::{Client, Peer, RpcError};

/// Commands that only make sense on a terminal, or that act on another session.
const NOT_FOR_EDITORS: [&str; 14] = [
    "background",
    "cd",
    "clear",
    "copy",
    "exit",
    "login",
    "new",
    "quit",
    "resume",
    "screen",
    "sessions",
    "show",
    "theme",
    "tree",
];

/// Session that an editor has open.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: Arc<str>,
    pub(super) cwd: PathBuf,
    pub(super) hosted: Arc<HostedConversation>,
    pub(super) peer: Arc<Peer>,
    client: Client,
    buffers: Option<BufferFilesPlugin>,
    orders: Mutex<Option<mpsc::UnboundedSender<Order>>>,
    /// Lock held by the running prompt.
    prompting: Arc<tokio::sync::Mutex<()>>,
    /// Signal that stops the running prompt.
    stop: Mutex<CancellationToken>,
    /// Choices last sent to the editor.
    choices: tokio::sync::Mutex<Choices>,
    title: Mutex<Option<String>>,
}

impl Session {
    pub(super) fn new(
        id: Arc<str>,
        cwd: PathBuf,
        hosted: Arc<HostedConversation>,
        peer: Arc<Peer>,
        client: Client,
        buffers: Option<Buffers>,
    ) -> Self {
        Self {
            id,
            cwd,
            hosted,
            peer,
            client,
            buffers: buffers.map(BufferFilesPlugin),
            orders: Mutex::default(),
            prompting: Arc::default(),
            stop: Mutex::default(),
            choices: tokio::sync::Mutex::default(),
            title: Mutex::default(),
        }
    }

    /// Installs the editor's unsaved texts above all other file services of the conversation.
    pub(super) fn put_buffers(&self) -> Result<(), RpcError> {
        if let Some(buffers) = &self.buffers {
            let installed = self.hosted.agent().bus().install(buffers);
            installed.map_err(|error| RpcError::internal(error.to_string()))?;
        }
        Ok(())
    }

    /// Sends an order to the task that sends updates to the editor; the first order starts the task.
    fn send_order(&self, order: Order) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let orders = orders.get_or_insert_with(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            let pump =
                Pump::new(self.id.clone(), self.cwd.clone(), &self.hosted, self.peer.clone(), self.client);
            tokio::spawn(pump.run(self.hosted.view().reader(), receiver));
            sender
        });
        // Without a view there are no updates to send.
        let _ = orders.send(order);
    }

    async fn send_order_and_wait(&self, order: impl FnOnce(oneshot::Sender<()>) -> Order) {
        let (done, is_done) = oneshot::channel();
        self.send_order(order(done));
        // The task ends with its view.
        let _ = is_done.await;
    }

    /// Sends the whole history to the editor.
    pub(super) async fn replay(&self) {
        self.stop_updates();
        self.send_order_and_wait(Order::Replay).await;
    }

    /// Marks the whole history as known to the editor.
    pub(super) async fn skip(&self) {
        self.send_order_and_wait(Order::Skip).await;
    }

    /// Ends the task that sends updates.
    fn stop_updates(&self) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    pub(super) fn begin_updates(&self) {
        self.send_order(Order::Begin);
    }

    /// Sends all remaining updates; no more follow until something runs again.
    pub(super) async fn flush_updates(&self) {
        self.send_order_and_wait(Order::Settle).await;
    }

    /// Takes the lock of the running prompt, which `stop` ends.
    pub(super) fn begin_prompt(&self, stop: &CancellationToken) -> Result<OwnedMutexGuard<()>, RpcError> {
        let prompting = self.prompting.clone().try_lock_owned().map_err(|_| RpcError::busy())?;
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = stop.clone();
        Ok(prompting)
    }

    pub(super) fn is_prompting(&self) -> bool {
        self.prompting.try_lock().is_err()
    }

    /// Stops the prompt that runs, if one does.
    pub(super) fn cancel(&self) {
        if self.is_prompting() {
            self.stop.lock().unwrap_or_else(PoisonError::into_inner).cancel();
        }
    }

    /// Ends the session: its prompt, its processes, its files.
    pub(super) async fn close(&self) {
        self.cancel();
        let _no_more = self.prompting.lock().await;
        for unsaved in self.hosted.close().await {
            self.hosted.factory().setup().notices.show(&format!("warning: {unsaved}"));
        }
        self.stop_updates();
    }

    /// Returns the fields of an answer with the session's modes and options.
    pub(super) async fn choices(&self) -> Value {
        let choices = Choices::of(&self.hosted).await;
        let told = json!({ "modes": choices.modes, "configOptions": choices.options });
        *self.choices.lock().await = choices;
        told
    }

    /// Sends changed choices to the editor. `asked` is the kind of choice that the editor has just set
    /// itself.
    pub(super) async fn send_choices(&self, asked: Option<&str>) -> Vec<Value> {
        let now = Choices::of(&self.hosted).await;
        let mut before = self.choices.lock().await;
        if now.current_mode() != before.current_mode() && asked != Some("mode") {
            let update =
                json!({ "sessionUpdate": "current_mode_update", "currentModeId": now.current_mode() });
            self.peer.update(&self.id, &update);
        }
        if now.options != before.options && asked != Some("option") {
            let update = json!({ "sessionUpdate": "config_option_update", "configOptions": now.options });
            self.peer.update(&self.id, &update);
        }
        let options = now.options.clone();
        *before = now;
        options
    }

    /// Sends the list of commands to the editor.
    pub(super) async fn send_commands(&self) {
        let listed = self.hosted.commands().await;
        let commands: Vec<Value> = listed
            .into_iter()
            .filter(|command| is_for_editors(&command.name))
            .map(|command| {
                let mut told = json!({ "name": command.name, "description": command.help });
                if let (Some(hint), Some(told)) = (command.argument_hint, told.as_object_mut()) {
                    told.insert("input".into(), json!({ "hint": hint }));
                }
                told
            })
            .collect();
        let update = json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands });
        self.peer.update(&self.id, &update);
    }

    /// Whether a prompt begins with a command; an error for a command that makes no sense in an editor.
    pub(super) async fn command(&self, text: &str) -> Option<Result<(), String>> {
        let name = text.strip_prefix('/')?.split_whitespace().next()?;
        let listed = self.hosted.commands().await;
        let names: HashSet<&str> = listed.iter().map(|command| command.name.as_str()).collect();
        if !names.contains(name) {
            return None;
        }
        Some(if is_for_editors(name) {
            Ok(())
        } else {
            Err(format!(
                "/{name} is for a conversation on a terminal: your editor has its own way to do that."
            ))
        })
    }

    /// Sends the title of a session that has none yet.
    pub(super) fn send_title(&self, prompt: &str) {
        let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let mut title = self.title.lock().unwrap_or_else(PoisonError::into_inner);
        if title.is_some() || line.is_empty() {
            return;
        }
        let short: String = line.chars().take(MAX_TITLE_CHARS).collect();
        self.peer.update(&self.id, &json!({ "sessionUpdate": "session_info_update", "title": short }));
        *title = Some(short);
    }

    /// Records the title of a stored session.
    pub(super) fn set_title(&self, stored: String) {
        *self.title.lock().unwrap_or_else(PoisonError::into_inner) = Some(stored);
    }
}

/// Most characters of the title of a session.
const MAX_TITLE_CHARS: usize = 80;

fn is_for_editors(command: &str) -> bool {
    !NOT_FOR_EDITORS.contains(&command)
}
