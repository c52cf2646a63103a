use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zk_core::events::{ContextOverflow, ContextReduced, ContextTransform, ModelSelect};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, Plugin, Scope, Stage};
use zk_core::model::{Message, Role, TurnId, context_size};

use crate::instead::Instead;

/// The bytes that a token is taken for: few, as code and other languages than English have fewer in one.
const TOKEN: u64 = 3;

/// The least that a result of the newest turn is clipped to, in bytes.
const LEAST: usize = 1024;

/// Makes a conversation fit again after its provider said that it does not fit the model's window.
///
/// As long as everything fits, nothing is touched. After an overflow less is sent from then on: about half of it, or
/// half of the window where that is known and smaller. Left out are, until that is reached, the tool results before
/// the newest turn, the oldest messages but the first one, and the middle of the newest results. Then the bytes
/// stay the same until the conversation overflows again. What was left out is announced as [`ContextReduced`].
///
/// Another model gets the whole conversation again: what did not fit one may fit the next. So does a resumed session,
/// which overflows once more.
///
/// ```
/// use zk_compaction::Shorten;
/// use zk_core::kernel::Bus;
///
/// Bus::new().install(&Shorten).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Shorten;

impl Plugin for Shorten {
    fn name(&self) -> &'static str {
        "compaction-shorten"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let state = Arc::new(Shortener::default());
        let told = state.clone();
        scope.on_sync(move |event: &ContextOverflow, _: &Cx| {
            let room = event.window.map_or(u64::MAX, |window| (window / 2).saturating_mul(TOKEN));
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            told.lock().targets.insert(event.turn_id.clone(), room.min(event.size / 2));
        });
        let new = state.clone();
        scope.on_sync(move |_: &ModelSelect, _: &Cx| {
            let mut view = new.lock();
            // A turn that goes on has its old model, which is still to be given less.
            let targets = std::mem::take(&mut view.targets);
            *view = View { targets, ..View::default() };
        });
        scope.handle_at::<ContextTransform, _>(Stage::Early, state);
        Ok(())
    }
}

#[derive(Default)]
struct Shortener(Mutex<View>);

impl Shortener {
    fn lock(&self) -> MutexGuard<'_, View> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler<ContextTransform> for Shortener {
    async fn call(&self, event: &ContextTransform, cx: &Cx) -> Answer<ContextTransform> {
        let (sent, reduced) = {
            let mut view = self.lock();
            match view.targets.remove(&event.turn_id) {
                None if view.is_whole() => return Ok(None),
                None => (view.of(&event.messages), None),
                Some(target) => {
                    let before = context_size(&view.of(&event.messages));
                    let (results, messages) = view.reduce(&event.messages, target);
                    let sent = view.of(&event.messages);
                    let after = context_size(&sent);
                    let turn_id = event.turn_id.clone();
                    let reduced = ContextReduced { turn_id, results, messages, before, after };
                    (sent, (after < before).then_some(reduced))
                }
            }
        };
        if let Some(reduced) = reduced {
            cx.emit(reduced).await?;
        }
        Ok(Some(sent))
    }
}

/// What is sent of a conversation.
#[derive(Default)]
struct View {
    /// How much is to be sent at most in turns that overflowed, as other conversations go on at the same time.
    targets: HashMap<TurnId, usize>,
    instead: Instead,
    /// One for each conversation that was cut: each point that one went on from may have its own.
    cuts: Vec<Cut>,
}

/// The beginning of a conversation that is not sent.
struct Cut {
    /// The first message after it.
    first: Arc<Message>,
    /// How many messages that is.
    gone: usize,
    /// What stands for it.
    head: Vec<Arc<Message>>,
}

impl View {
    /// Whether everything is sent as it is stored.
    fn is_whole(&self) -> bool {
        self.cuts.is_empty() && self.instead.is_empty()
    }

    fn of(&self, messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
        let (head, rest) = self.parts(messages);
        head.iter().cloned().chain(self.instead.of(rest)).collect()
    }

    /// What stands for the beginning of `messages`, and what it does not stand for.
    fn parts<'a>(&'a self, messages: &'a [Arc<Message>]) -> (&'a [Arc<Message>], &'a [Arc<Message>]) {
        let Some((cut, at)) = self.cut_of(messages) else { return (&[], messages) };
        let head = self.cuts.get(cut).map_or(&[][..], |cut| &cut.head);
        (head, messages.get(at..).unwrap_or_default())
    }

    /// Which cut `messages` have, and how many of them are before its end.
    fn cut_of(&self, messages: &[Arc<Message>]) -> Option<(usize, usize)> {
        let ends = self.cuts.iter().enumerate().filter_map(|(cut, Cut { first, .. })| {
            Some((cut, messages.iter().position(|message| Arc::ptr_eq(message, first))?))
        });
        ends.max_by_key(|(_, at)| *at)
    }

    fn size(&self, messages: &[Arc<Message>]) -> usize {
        context_size(&self.of(messages))
    }

    /// Leaves out more of `messages`, until `target` is reached or nothing is left that may be left out. Gives
    /// how many results and messages that took.
    fn reduce(&mut self, messages: &[Arc<Message>], target: usize) -> (usize, usize) {
        let answered = messages.iter().rposition(|message| message.role == Role::Assistant).unwrap_or(0);
        let newest = messages.get(answered..).unwrap_or_default();
        let mut size = self.size(messages);
        let (mut results, mut left_out) = (0, 0);
        // What a cut left out already makes nothing smaller.
        let begin = self.cut_of(messages).map_or(0, |(_, at)| at);
        for message in messages.get(begin..answered).unwrap_or_default() {
            if size <= target {
                break;
            }
            let before = self.instead.sent(message).size();
            results += self.instead.stub(message);
            size = size.saturating_sub(before.saturating_sub(self.instead.sent(message).size()));
        }
        if size > target {
            left_out = self.cut(messages, answered, target);
            size = self.size(messages);
        }
        if size > target {
            let newest_results: usize = newest.iter().map(|message| message.results().count()).sum();
            let share = (target / 2 / newest_results.max(1)).max(LEAST);
            results += newest.iter().map(|message| self.instead.clip(message, share)).sum::<usize>();
        }
        (results, left_out)
    }

    /// Leaves the oldest messages out: as few as it takes, and at most all before the newest turn. Gives how many.
    fn cut(&mut self, messages: &[Arc<Message>], answered: usize, target: usize) -> usize {
        let before = self.cut_of(messages);
        let begin = before.map_or(0, |(_, at)| at);
        let visible = messages.get(begin..).unwrap_or_default();
        // The task is worth more than what was said of it, unless it is what fills the window.
        let first = messages.first().filter(|first| is_prompt(first) && first.size() <= target / 4);
        let kept = first.map_or(0, |first| first.size());
        let mut rest: usize = visible.iter().map(|message| self.instead.sent(message).size()).sum();
        let mut best = None;
        for (at, message) in messages.iter().enumerate().take(answered + 1).skip(begin) {
            // A result is nothing without its call.
            if at > usize::from(first.is_some()) && !has_results(message) {
                best = Some((at, message));
                if kept + rest <= target {
                    break;
                }
            }
            rest = rest.saturating_sub(self.instead.sent(message).size());
        }
        let Some((at, message)) = best.filter(|(at, _)| *at > begin) else { return 0 };
        let gone = at - usize::from(first.is_some());
        let note = format!(
            "[{gone} earlier message{} left out here to save context: what follows goes on later in the same conversation.]",
            if gone == 1 { " was" } else { "s were" }
        );
        let head =
            first.cloned().into_iter().chain([Message::injected(note, "compaction").shared()]).collect();
        let cut = Cut { first: message.clone(), gone, head };
        match before.and_then(|(before, _)| self.cuts.get_mut(before)) {
            Some(before) => gone - std::mem::replace(before, cut).gone,
            None => {
                self.cuts.push(cut);
                gone
            }
        }
    }
}

fn is_prompt(message: &Message) -> bool {
    message.role == Role::User && !has_results(message)
}

fn has_results(message: &Message) -> bool {
    message.results().next().is_some()
}
