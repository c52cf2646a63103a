//! Checks that hold for whatever is sent.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use serde_json::Map;
use zk_core::model::wire::Repair;
use zk_core::model::{Block, CallId, Message, ModelRef, Role, ThinkingReplay, WireReady, WireRules};
use zk_providers::{VENDORS, known_models};
use zk_testkit::rules::check_wire;

use super::Pins;
use super::case::Case;

/// The rules of every provider, each once, for the model that answered.
static RULES: LazyLock<Vec<(String, WireRules)>> = LazyLock::new(|| {
    let mut all = BTreeMap::new();
    for vendor in VENDORS {
        let Ok(provider) = vendor.provider_with(vendor.connection().key("key"), &Map::new()) else {
            continue;
        };
        for id in known_models(vendor.name).chain(["unknown"]) {
            let rules = provider.rules(&provider.model(id));
            let rules = WireRules { target: ModelRef::new("p", "m"), ..rules };
            all.entry(format!("{rules:?}")).or_insert((vendor.name.to_owned(), rules));
        }
    }
    all.into_values().collect()
});

#[test]
fn the_rules_differ_in_everything_that_providers_differ_in() {
    let has = |what: fn(&WireRules) -> bool| RULES.iter().any(|(_, rules)| what(rules));
    assert!(RULES.len() >= 6, "{:?}", RULES.iter().map(|(name, _)| name).collect::<Vec<_>>());
    assert!(has(|rules| rules.thinking == ThinkingReplay::Signed));
    assert!(has(|rules| rules.thinking == ThinkingReplay::Echo));
    assert!(has(|rules| rules.thinking == ThinkingReplay::Never));
    assert!(has(|rules| rules.ids.exact) && has(|rules| rules.resumes) && has(|rules| !rules.vision));
}

/// Calls without results, and results without calls.
fn torn(messages: &[Arc<Message>], rules: &WireRules) -> (WireReady, Vec<CallId>) {
    let ready = WireReady::normalise(messages, rules);
    let alone = ready.repairs().iter().filter_map(|repair| match repair {
        Repair::MissingResult { call_id } | Repair::OrphanResult { call_id } => Some(call_id.clone()),
        _ => None,
    });
    let alone = alone.collect();
    (ready, alone)
}

/// Checks that the sent form of `history` is valid. `pins` is the last pinned content.
pub(super) fn check_sent(
    case: &Case,
    history: &[Arc<Message>],
    sent: &[Arc<Message>],
    pins: &Pins,
) -> Result<(), TestCaseError> {
    for (name, rules) in RULES.iter() {
        let (ready, alone) = torn(sent, rules);
        let (_, before) = torn(history, rules);
        let is_new = alone.iter().find(|call| !before.contains(call));
        prop_assert!(is_new.is_none(), "{name}: {is_new:?} is alone in {case:?}");
        let wire = check_wire(&ready, rules);
        prop_assert!(wire.is_ok(), "{name}: {wire:?} in {case:?}");
        check_thinking(sent, &ready, rules)?;
    }
    for answer in sent.iter().filter(|message| message.role == Role::Assistant) {
        prop_assert!(history.contains(answer), "an answer is another one: {answer:?} in {case:?}");
    }
    let newest = |all: &[Arc<Message>]| all.last().map(|last| (last.role, last.content.len()));
    prop_assert_eq!(newest(sent), newest(history));
    let texts = Texts::of(sent);
    for line in history.iter().filter(|message| message.injected_by.is_none()).flat_map(lines_to_remember) {
        prop_assert!(texts.has_line(&line), "{line:?} is gone: {case:?}");
    }
    for (skill, text) in skills(history) {
        prop_assert!(texts.has(&text), "the skill {skill} is gone: {case:?}");
    }
    // After an omission, pinned texts are present in their last version.
    let is_pinned = |message: &&Arc<Message>| message.injected_by.as_deref() == Some("pinned");
    if sent.iter().any(|message| is_pinned(&message)) && pins.is_known() {
        for text in pins.said() {
            let count = sent.iter().filter(is_pinned).filter(|message| message.text() == text).count();
            prop_assert_eq!(count, 1, "pinned {:?} in {:?}", text, case);
        }
    }
    Ok(())
}

/// Reasoning that goes back does so byte for byte.
fn check_thinking(sent: &[Arc<Message>], ready: &WireReady, rules: &WireRules) -> Result<(), TestCaseError> {
    if rules.thinking == ThinkingReplay::Never {
        return Ok(());
    }
    let of = |messages: &[Arc<Message>]| {
        let blocks = messages.iter().flat_map(|message| message.content.clone());
        blocks.filter(|block| matches!(block, Block::Thinking(_))).collect::<Vec<_>>()
    };
    prop_assert_eq!(of(ready.messages()), of(sent));
    Ok(())
}

fn lines_to_remember(message: &Arc<Message>) -> Vec<String> {
    let text = if message.role == Role::User { message.text() } else { String::new() };
    text.lines().filter(|line| line.starts_with("Remember:")).map(str::to_owned).collect()
}

/// The skills that were given, by name, as they were given last.
fn skills(history: &[Arc<Message>]) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut asked = HashMap::new();
    for message in history {
        for call in message.calls().filter(|call| call.name == "skills_use") {
            asked.insert(call.id.clone(), call.args["skill"].as_str().unwrap().to_owned());
        }
        if let Some(name) = message.injected_by.as_deref().and_then(|by| by.strip_prefix("skill:")) {
            all.insert(name.to_owned(), message.text());
        }
        for result in message.results() {
            if let Some(name) = asked.get(&result.call_id) {
                all.insert(name.clone(), result.content.to_text());
            }
        }
    }
    all
}

/// All sent texts.
struct Texts(Vec<String>);

impl Texts {
    fn of(sent: &[Arc<Message>]) -> Self {
        let blocks = sent.iter().flat_map(|message| &message.content);
        let text = |block: &Block| match block {
            Block::Text(text) => Some(text.text.clone()),
            Block::ToolResult(result) => Some(result.content.to_text()),
            _ => None,
        };
        Self(blocks.filter_map(text).collect())
    }

    fn has(&self, text: &str) -> bool {
        self.0.iter().any(|sent| sent == text)
    }

    fn has_line(&self, line: &str) -> bool {
        self.0.iter().any(|sent| sent.lines().any(|sent| sent == line))
    }
}
