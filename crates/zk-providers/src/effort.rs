//! The words OpenAI made up for how much a model is to reason.

use zk_core::model::ThinkingLevel;

/// The effort word for a level, clamped to those the model has; all of them if that is not known.
pub(crate) fn effort(level: ThinkingLevel, known: &[&'static str]) -> Option<&'static str> {
    const LADDER: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    let wanted = match level {
        ThinkingLevel::Adaptive => return None,
        // Where nothing is known, not asking is the surest way to ask for nothing.
        ThinkingLevel::Off if known.is_empty() => return None,
        ThinkingLevel::Off => "none",
        ThinkingLevel::Minimal => "minimal",
        ThinkingLevel::Low => "low",
        ThinkingLevel::Medium => "medium",
        ThinkingLevel::High => "high",
        ThinkingLevel::XHigh => "xhigh",
    };
    let place = |word: &str| LADDER.iter().position(|step| *step == word).unwrap_or_default();
    if known.is_empty() {
        // `minimal` and `xhigh` are words of a few models only.
        return match wanted {
            "minimal" => Some("low"),
            "xhigh" => Some("high"),
            other => Some(other),
        };
    }
    // Thinking that was asked for is not turned off for want of a lower step.
    let usable = known.iter().filter(|word| level == ThinkingLevel::Off || **word != "none");
    usable.min_by_key(|word| place(word).abs_diff(place(wanted))).copied()
}
