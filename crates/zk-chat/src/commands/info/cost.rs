//! `/cost`: tokens and cost of the present session, by model.

use std::collections::BTreeMap;

use zk_agent::Agent;
use zk_core::kernel::BoxError;
use zk_core::model::{ModelRef, Spending, TurnUsage};
use zk_core::service::{EntryKind, visible_line};
use zk_tui::{dollars, thousands};

use crate::opening::sessions::ConversationSessions;

/// Cost of the session so far, in lines.
pub(super) async fn cost(sessions: &dyn ConversationSessions, agent: &Agent) -> Result<String, BoxError> {
    let entries = sessions.shown_entries().await?;
    let mut lines = model_lines(entries.iter().filter_map(|entry| entry.kind.usage()));
    if lines.is_empty() {
        let model = agent.model().reference();
        return Ok(format!("nothing was spent in this session yet; {model} answers next"));
    }
    lines.extend(part_lines(entries.iter().map(|entry| &entry.kind)));
    lines.push("`zk cost` sums up all sessions, `zk cost why` says what it went for".to_owned());
    Ok(lines.join("\n"))
}

/// Lines with the total over all models, and with the sum of each model if there are several.
fn model_lines<'a>(turns: impl Iterator<Item = &'a TurnUsage>) -> Vec<String> {
    let models = Spending::by_model(turns);
    let mut all = Spending::default();
    models.values().for_each(|spent| all.merge(spent));
    let mut lines = Vec::new();
    if models.len() > 1 {
        lines.push(format!("this session   {}", describe_spending(&all)));
    }
    lines.extend(models.iter().map(|(model, spent)| format!("{model}   {}", describe_spending(spent))));
    lines
}

/// Lines with the sum of each part beside the conversation, by model. The total includes them.
fn part_lines<'a>(entries: impl Iterator<Item = &'a EntryKind>) -> Vec<String> {
    let mut parts = BTreeMap::<(&str, &ModelRef), Spending>::new();
    for kind in entries {
        if let EntryKind::Usage { usage, side_call: Some(call) } = kind {
            parts.entry((call.part_name(), &usage.model)).or_default().add(usage);
        }
    }
    let line = |((part, model), spent): (&(&str, &ModelRef), &Spending)| {
        visible_line(&format!("of it {part}   {model}   {}", describe_spending(spent)))
    };
    parts.iter().map(line).collect()
}

fn describe_spending(spent: &Spending) -> String {
    let Spending { answers: turns, usage, cost, unpriced } = spent;
    let turns_text = if *turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") };
    let cost = cost.unwrap_or_default();
    let cached = match usage.cache_read {
        0 => String::new(),
        cached => format!(" ({} from the cache)", thousands(cached)),
    };
    let money = match unpriced {
        0 => dollars(cost),
        unpriced if unpriced == turns => "price not known".to_owned(),
        _ => format!("at least {}", dollars(cost)),
    };
    format!(
        "{money} · {turns_text} · {} in{cached}, {} out",
        thousands(usage.read()),
        thousands(usage.output)
    )
}

#[cfg(test)]
mod tests {
    use zk_core::model::Usage;
    use zk_core::service::SideCallOf;

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
        assert_eq!(model_lines(one.iter()), ["p/a   $0.50 · 1 turn · 42k in (30k from the cache), 7 out"]);
        let two = [turn("a", Some(0.5)), turn("b", None), turn("a", Some(0.25))];
        let lines = model_lines(two.iter());
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("this session   at least $0.75 · 3 turns"), "{lines:?}");
        assert!(lines[2].starts_with("p/b   price not known"), "{lines:?}");
    }

    #[test]
    fn parts_are_listed_separately_with_their_models() {
        let of = |part: Option<&str>, purpose: &str, model: &str| EntryKind::Usage {
            usage: Box::new(TurnUsage {
                turn_id: "t".into(),
                model: ModelRef::new("p", model),
                usage: Usage { input: 1_250, output: 7, ..Usage::default() },
                cost: Some(0.001),
            }),
            side_call: Some(SideCallOf {
                source: "s".to_owned(),
                purpose: purpose.to_owned(),
                part: part.map(str::to_owned),
            }),
        };
        let entries = [
            of(Some("summary"), "compaction", "small"),
            of(Some("summary"), "branch summary", "small"),
            of(Some("summary"), "compaction", "big"),
            of(None, "btw", "big"),
        ];
        let lines = part_lines(entries.iter());
        assert_eq!(lines[0], "of it btw   p/big   $0.0010 · 1 turn · 1.2k in, 7 out");
        assert_eq!(lines[2], "of it summary   p/small   $0.0020 · 2 turns · 2.5k in, 14 out");
        assert_eq!(lines.len(), 3);
    }
}
