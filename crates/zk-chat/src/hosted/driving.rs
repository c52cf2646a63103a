//! Loop that carries out the effects of a hosted conversation's view.

use std::sync::Weak;

use zk_core::model::Block;
use zk_core::service::Conversation;
use zk_view::{Effect, NoteLevel, ViewDriver};

use super::conversation::{HostedConversation, HostedEvent};
use crate::conversation::effects::{EffectHost, Remainder};

/// Carries out effects in order until the conversation is dropped. Runs and commands proceed in parallel.
pub(super) async fn carry_out_effects(hosted: Weak<HostedConversation>, view: ViewDriver) {
    loop {
        let effect = view.next_effect().await;
        let Some(hosted) = hosted.upgrade() else { return };
        match effect {
            Effect::Hurry => _ = hosted.factory().setup().limits.skip_waits(),
            Effect::Command { name, args } => {
                tokio::spawn(async move { hosted.run_command_in_view(&name, &args).await });
            }
            effect => hosted.carry_out(effect).await,
        }
    }
}

impl HostedConversation {
    async fn carry_out(&self, effect: Effect) {
        let present = self.present();
        let host = EffectHost {
            view: self.view(),
            conversation: &present.opened.conversation,
            sessions: &*present.opened.sessions,
            attachments: self.attachments(),
        };
        match host.carry_out(effect).await {
            Some(Remainder::Run(text)) => {
                let images = self.attachments().images_of(&text);
                let prompt = std::iter::once(Block::text(text)).chain(images).collect();
                if let Err(error) = present.opened.conversation.submit(prompt).await {
                    self.view().note(NoteLevel::Warning, &error.to_string());
                }
            }
            Some(Remainder::GiveBack(text)) => self.send_event(HostedEvent::GivenBack(text)),
            None => {}
        }
    }

    /// Runs a command and shows its output in the view.
    async fn run_command_in_view(&self, name: &str, args: &str) {
        match self.run_command(&format!("{name} {args}")).await {
            Ok(outcome) => self.follow(outcome, |text| self.view().note(NoteLevel::Info, text)),
            Err(why) => self.view().note(NoteLevel::Warning, &why),
        }
    }
}
