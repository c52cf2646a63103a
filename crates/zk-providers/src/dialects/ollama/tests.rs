use zk_core::model::{ThinkingLevel, ThinkingRequest, ThinkingSupport};

use super::think::{self, Think};
use crate::catalogue::thinking::local_support;

#[test]
fn a_family_is_recognised_by_the_last_part_of_the_name() {
    for (id, expected) in [
        ("gpt-oss:20b", ThinkingSupport::Effort),
        ("library/qwen3:4b", ThinkingSupport::Budget),
        ("qwen3-coder:30b", ThinkingSupport::None),
        ("hf.co/someone/magistral-small:Q4", ThinkingSupport::Budget),
        ("llama3.2", ThinkingSupport::None),
    ] {
        assert_eq!(local_support(id), expected, "{id}");
    }
}

#[test]
fn thinking_is_sent_as_a_level_a_flag_or_not_at_all() {
    let asked = |support, level| think::think(support, ThinkingRequest { level, budget: None });
    for (support, level, expected) in [
        (ThinkingSupport::Effort, ThinkingLevel::Off, Some(Think::Word("low"))),
        (ThinkingSupport::Effort, ThinkingLevel::XHigh, Some(Think::Word("high"))),
        (ThinkingSupport::Budget, ThinkingLevel::Low, Some(Think::Switch(true))),
        (ThinkingSupport::Budget, ThinkingLevel::Off, Some(Think::Switch(false))),
        (ThinkingSupport::None, ThinkingLevel::Off, Some(Think::Switch(false))),
        (ThinkingSupport::None, ThinkingLevel::High, None),
    ] {
        assert_eq!(asked(support, level), expected, "{support:?} {level:?}");
    }
}
