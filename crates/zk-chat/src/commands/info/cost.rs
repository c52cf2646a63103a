//! `/cost`: spending of the present session, by model.

use zk_agent::Agent;
use zk_core::kernel::BoxError;
use zk_core::model::{Spending, TurnUsage};

use crate::opening::sessions::ConversationSessions;

/// Cost of the session so far, in lines.
pub(super) async fn cost(sessions: &dyn ConversationSessions, agent: &Agent) -> Result<String, BoxError> {
    let entries = sessions.shown_entries().await?;
    let turns = entries.iter().filter_map(|entry| entry.kind.usage());
    let mut lines = lines(turns);
    if lines.is_empty() {
        let model = agent.model().reference();
        return Ok(format!("nothing was spent in this session yet; {model} answers next"));
    }
    lines.push("`zk cost` sums up all sessions, `zk cost why` says what it went for".to_owned());
    Ok(lines.join("\n"))
}

/// Total over all models, then a line for each if there are several.
fn lines<'a>(turns: impl Iterator<Item = &'a TurnUsage>) -> Vec<String> {
    let models = Spending::by_model(turns);
    let mut all = Spending::default();
    models.values().for_each(|spent| all.merge(spent));
    let mut lines = Vec::new();
    if models.len() > 1 {
        lines.push(format!("this session   {}", describe(&all)));
    }
    lines.extend(models.iter().map(|(model, spent)| format!("{model}   {}", describe(spent))));
    lines
}

fn describe(spent: &Spending) -> String {
    let Spending { answers: turns, usage, cost, unpriced } = spent;
    let turns_text = if *turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") };
    let cost = cost.unwrap_or_default();
    let cached = match usage.cache_read {
        0 => String::new(),
        cached => format!(" ({} from the cache)", tokens(cached)),
    };
    let money = match unpriced {
        0 => format!("${cost:.4}"),
        unpriced if unpriced == turns => "price not known".to_owned(),
        _ => format!("at least ${cost:.4}"),
    };
    format!("{money} · {turns_text} · {} in{cached}, {} out", tokens(usage.read()), tokens(usage.output))
}

/// A number of tokens as a person reads it.
pub(super) fn tokens(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use zk_core::model::{ModelRef, Usage};

    use super::*;

    #[test]
    fn spending_is_summed_up_by_model_and_an_unknown_price_is_said() {
        let turn = |model: &str, cost| TurnUsage {
            turn_id: "t".into(),
            model: ModelRef::new("p", model),
            usage: Usage { input: 12_000, cache_read: 30_000, output: 7, ..Usage::default() },
            cost,
        };
        let one = [turn("a", Some(0.5))];
        assert_eq!(lines(one.iter()), ["p/a   $0.5000 · 1 turn · 42.0k in (30.0k from the cache), 7 out"]);
        let two = [turn("a", Some(0.5)), turn("b", None), turn("a", Some(0.25))];
        let lines = lines(two.iter());
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("this session   at least $0.7500 · 3 turns"), "{lines:?}");
        assert!(lines[2].starts_with("p/b   price not known"), "{lines:?}");
    }
}
