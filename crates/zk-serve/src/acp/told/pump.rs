use std::path::PathBuf;
use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use zk_chat::HostedConversation;
use zk_core::service::{Question, QuestionId};
use zk_view::{Activity, Patch, Reader};

use super::updates::Updates;
use crate::acp::options;
use crate::acp::permission::Asked;
use crate::acp::wire::Client;
use crate::acp::wire::Peer;

/// Order to the task that sends updates. It is carried out after all earlier patches of the view.
#[derive(Debug)]
pub(in crate::acp) enum Order {
    /// Send the whole history, with the person's prompts.
    Replay(oneshot::Sender<()>),
    /// Mark everything so far as sent.
    Skip(oneshot::Sender<()>),
    /// Send everything from now on: a prompt begins.
    Begin,
    /// Send the rest, and then nothing until something runs again.
    Settle(oneshot::Sender<()>),
}

/// Task that sends the changes of a session's view to the editor.
pub(in crate::acp) struct Pump {
    session: Arc<str>,
    hosted: Weak<HostedConversation>,
    peer: Arc<Peer>,
    updates: Updates,
    asked: Asked,
    mode: &'static str,
    is_live: bool,
}

impl Pump {
    pub(in crate::acp) fn new(
        session: Arc<str>,
        cwd: PathBuf,
        hosted: &Arc<HostedConversation>,
        peer: Arc<Peer>,
        client: Client,
    ) -> Self {
        Self {
            asked: Asked::new(session.clone(), cwd.clone(), hosted, peer.clone(), client),
            session,
            hosted: Arc::downgrade(hosted),
            peer,
            updates: Updates::new(cwd, client),
            mode: options::mode(hosted),
            is_live: false,
        }
    }

    /// Sends updates until all senders of orders are gone.
    pub(in crate::acp) async fn run(
        mut self,
        mut reader: Reader,
        mut orders: mpsc::UnboundedReceiver<Order>,
    ) {
        loop {
            tokio::select! {
                biased;
                patches = reader.next() => match patches {
                    Some(patches) => self.apply_patches(&patches),
                    // The view is closed; another opening of its conversation may open it again.
                    None => match orders.recv().await {
                        Some(order) => {
                            while let Some(Some(patches)) = reader.next().now_or_never() {
                                self.apply_patches(&patches);
                            }
                            self.carry_out(order);
                        }
                        None => return,
                    },
                },
                order = orders.recv() => match order {
                    Some(order) => self.carry_out(order),
                    None => return,
                },
            }
        }
    }

    fn apply_patches(&mut self, patches: &[Patch]) {
        self.updates.apply_patches(patches);
        let runs = self.updates.view().status.activity != Activity::Idle;
        if self.is_live || runs {
            self.send_updates(false);
        }
        for patch in patches {
            match patch {
                Patch::Answered { id } => self.asked.withdraw(*id),
                Patch::Reset { view } => {
                    let waiting: Vec<QuestionId> = view.cards.iter().map(|card| card.id).collect();
                    self.asked.keep(&waiting);
                }
                _ => {}
            }
        }
        for card in &self.updates.view().cards {
            let call = match &card.question {
                Question::Approve(approval) => self.updates.waiting_call(&approval.tool, &approval.args),
                _ => None,
            };
            self.asked.ask(card, call);
        }
    }

    fn carry_out(&mut self, order: Order) {
        let done = match order {
            Order::Replay(done) => {
                self.send_updates(true);
                done
            }
            Order::Skip(done) => {
                self.updates.skip();
                done
            }
            Order::Begin => {
                self.is_live = true;
                return;
            }
            Order::Settle(done) => {
                self.send_updates(false);
                self.is_live = false;
                done
            }
        };
        // The sender of the order may be gone.
        let _ = done.send(());
    }

    fn send_updates(&mut self, replayed: bool) {
        for update in self.updates.drain(replayed) {
            self.peer.update(&self.session, &update);
        }
        let Some(hosted) = self.hosted.upgrade() else { return };
        let mode = options::mode(&hosted);
        if mode != std::mem::replace(&mut self.mode, mode) {
            let update = json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode });
            self.peer.update(&self.session, &update);
        }
    }
}
