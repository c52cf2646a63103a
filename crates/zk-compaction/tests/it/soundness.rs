use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use zk_compaction::{Shorten, Window, WindowOptions};
use zk_core::events::{Cause, ContextOverflow, ContextTransform, ModelSelect};
use zk_core::kernel::Bus;
use zk_core::model::{Block, Message, ModelRef, ToolCall, WireReady, WireRules, context_size};

/// Turns of a conversation: the user's text, if any, and the results of the answer's calls.
fn turns() -> impl Strategy<Value = Vec<(Option<usize>, Vec<usize>)>> {
    let size = || prop_oneof![0..200usize, 200..9000usize];
    prop::collection::vec((prop::option::of(size()), prop::collection::vec(size(), 0..4)), 1..25)
}

fn history(turns: &[(Option<usize>, Vec<usize>)]) -> Vec<Arc<Message>> {
    let mut history = vec![Message::user_text("go").shared()];
    for (number, (said, results)) in turns.iter().enumerate() {
        let id = |at: usize| format!("c{number}_{at}");
        if let Some(bytes) = said {
            history.push(Message::user_text(format!("and {}", "ä".repeat(*bytes / 2))).shared());
        }
        let mut answer = vec![Block::text("well")];
        answer.extend((0..results.len()).map(|at| Block::ToolCall(ToolCall::new(id(at), "ls", json!({})))));
        history.push(Message::assistant(answer).shared());
        if !results.is_empty() {
            let given = results.iter().enumerate();
            let blocks = given.map(|(at, bytes)| Block::result(id(at), "é".repeat(bytes / 2), false));
            history.push(Message::user(blocks.collect()).shared());
        }
    }
    history
}

async fn sent(bus: &Bus, turn: &str, messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let event = ContextTransform::new(turn.into(), messages.to_vec(), None);
    bus.cx().emit(event).await.unwrap().messages
}

async fn overflow(bus: &Bus, turn: &str, size: usize, window: Option<u64>) {
    let model = ModelRef::new("p", "m");
    let error = "too long".into();
    bus.cx().emit(ContextOverflow { turn_id: turn.into(), model, window, size, error }).await.unwrap();
}

fn talk(messages: usize) -> Vec<Arc<Message>> {
    let said = |at| match at % 2 {
        0 => Message::user_text("ä".repeat(500)),
        _ => Message::assistant(vec![Block::text("o".repeat(1000))]),
    };
    (0..messages).map(|at| said(at).shared()).collect()
}

#[tokio::test]
async fn an_earlier_point_of_a_conversation_is_shortened_anew_and_the_later_one_stays_as_it_was() {
    let bus = Bus::new();
    bus.install(&Window::default()).unwrap();
    bus.install(&Shorten).unwrap();
    let whole = talk(41);
    overflow(&bus, "t1", context_size(&whole), None).await;
    let later = sent(&bus, "t1", &whole).await;
    let earlier = &whole[..7];
    overflow(&bus, "t2", context_size(earlier), None).await;
    assert!(sent(&bus, "t2", earlier).await.len() < earlier.len());
    assert_eq!(sent(&bus, "t3", &whole).await, later);
}

#[tokio::test]
async fn a_turn_that_overflowed_is_shortened_also_when_another_model_is_chosen_meanwhile() {
    let bus = Bus::new();
    bus.install(&Window::default()).unwrap();
    bus.install(&Shorten).unwrap();
    let talk = talk(9);
    overflow(&bus, "t", context_size(&talk), None).await;
    let to = ModelRef::new("p", "other");
    bus.cx().emit(ModelSelect { from: None, to, window: None, cause: Cause::Set }).await.unwrap();
    assert!(sent(&bus, "t", &talk).await.len() < talk.len());
}

#[tokio::test]
async fn a_window_that_no_model_has_is_as_good_as_none() {
    let bus = Bus::new();
    bus.install(&Window::default()).unwrap();
    bus.install(&Shorten).unwrap();
    let talk = talk(9);
    overflow(&bus, "t", context_size(&talk), Some(u64::MAX)).await;
    assert!(sent(&bus, "t", &talk).await.len() < talk.len());
}

#[tokio::test]
async fn of_two_conversations_at_once_the_one_that_overflowed_is_shortened() {
    let bus = Bus::new();
    bus.install(&Window::default()).unwrap();
    bus.install(&Shorten).unwrap();
    let (one, other) = (talk(9), talk(9));
    overflow(&bus, "t1", context_size(&one), None).await;
    overflow(&bus, "t2", 1, None).await;
    assert_eq!(sent(&bus, "t3", &other).await, other);
    assert!(sent(&bus, "t1", &one).await.len() < one.len());
}

fn repairs(messages: &[Arc<Message>]) -> usize {
    WireReady::normalise(messages, &WireRules::tolerant(ModelRef::new("p", "m"))).repairs().len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn however_often_it_overflows_what_is_sent_is_sound_and_shrinks_and_the_newest_turn_stays(
        turns in turns(),
        window in prop::option::of(500..20_000u64),
        times in 1..4usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let bus = Bus::new();
            let options = WindowOptions { tokenizer: false, ..WindowOptions::default() };
            bus.install(&Window::with(options)).unwrap();
            bus.install(&Shorten).unwrap();
            let mut history = history(&turns);
            let stored = history.clone();
            let mut before = sent(&bus, "t", &history).await;
            prop_assert_eq!(&before, &history, "nothing is touched before an overflow");
            for _ in 0..times {
                overflow(&bus, "t", context_size(&before), window).await;
                let after = sent(&bus, "t", &history).await;
                prop_assert!(context_size(&after) <= context_size(&before).max(1) + 200, "it grew");
                prop_assert_eq!(repairs(&after), repairs(&history), "{:?}", after);
                prop_assert_eq!(&sent(&bus, "t", &history).await, &after, "it stays as it is");
                let newest = |all: &[Arc<Message>]| all.last().unwrap().content.len();
                prop_assert_eq!(newest(&after), newest(&history));
                before = after;
            }
            history.push(Message::user_text("more").shared());
            let more = sent(&bus, "t", &history).await;
            prop_assert!(more.starts_with(&before) && more.len() == before.len() + 1);
            prop_assert!(stored.iter().zip(&history).all(|(stored, now)| Arc::ptr_eq(stored, now)));
            Ok(())
        })?;
    }
}
