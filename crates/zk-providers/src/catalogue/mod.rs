//! What is known about models before any server is asked: a table that anybody can correct, `models.tsv`.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use zk_core::model::{Capabilities, Model, Rates, ThinkingSupport};

static ROWS: LazyLock<Vec<Row>> =
    LazyLock::new(|| include_str!("models.tsv").lines().filter_map(row).collect());

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    provider: &'static str,
    id: &'static str,
    window: Option<u64>,
    max_output: Option<u64>,
    prices: Rates,
    vision: bool,
    thinking: ThinkingSupport,
    efforts: Vec<&'static str>,
}

impl Row {
    /// The effort words the model takes, `none` included if it can be told not to reason.
    pub(crate) fn efforts(&self) -> &[&'static str] {
        &self.efforts
    }

    /// The row as a model of `provider`, called `id` there.
    pub(crate) fn model(&self, provider: &str, id: &str) -> Model {
        Model {
            window: self.window,
            max_output: self.max_output,
            capabilities: Capabilities {
                vision: self.vision,
                image_in_tool_result: false,
                thinking: self.thinking,
            },
            prices: Some(self.prices.into()),
            ..Model::unknown(provider, id)
        }
    }
}

fn row(line: &'static str) -> Option<Row> {
    if line.starts_with('#') {
        return None;
    }
    let mut cells = line.split('\t');
    let mut cell = || cells.next();
    let (provider, id) = (cell()?, cell()?);
    let (window, max_output) = (cell()?.parse().ok(), cell()?.parse().ok());
    let mut price = || cell().and_then(|price| price.parse().ok());
    let prices = Rates { input: price()?, output: price()?, cache_read: price()?, cache_write: price()? };
    let vision = cells.next()? == "yes";
    let thinking = match cells.next()? {
        "budget" => ThinkingSupport::Budget,
        "effort" => ThinkingSupport::Effort,
        "adaptive" => ThinkingSupport::Adaptive,
        _ => ThinkingSupport::None,
    };
    let efforts = cells.next()?.split(',').filter(|word| *word != "-").collect();
    Some(Row { provider, id, window, max_output, prices, vision, thinking, efforts })
}

/// The row of `id` at `provider`, or at any provider: by its name, else without the date at its end.
pub(crate) fn find(provider: Option<&str>, id: &str) -> Option<&'static Row> {
    let named = |id: &str| {
        ROWS.iter().find(|row| row.id == id && provider.is_none_or(|provider| provider == row.provider))
    };
    named(id).or_else(|| named(without_date(id)?))
}

/// `name-20260101` and `name-2026-01-01` without their end.
fn without_date(id: &str) -> Option<&str> {
    let cut = id.trim_end_matches(|char: char| char.is_ascii_digit() || char == '-');
    let tail = id.get(cut.len()..)?;
    let digits = tail.bytes().filter(u8::is_ascii_digit).count();
    let date_at = [8, 10].into_iter().filter_map(|len| id.len().checked_sub(len + 1)).find(|at| {
        id.get(*at..)
            .is_some_and(|end| end.starts_with("-20") && end.bytes().filter(u8::is_ascii_digit).count() == 8)
    })?;
    if digits < 8 { None } else { id.get(..date_at) }
}

/// The ids of `provider` in the table that look most like `id`, best first, at most three: for "did you mean".
///
/// ```
/// let found = zk_providers::near_matches("anthropic", "claude-sonet-5");
/// assert_eq!(found.first(), Some(&"claude-sonnet-5"));
/// ```
#[must_use]
pub fn near_matches(provider: &str, id: &str) -> Vec<&'static str> {
    let id = id.to_lowercase();
    let mut found: Vec<(f64, &'static str)> = ROWS
        .iter()
        .filter(|row| row.provider == provider)
        .map(|row| (strsim::normalized_damerau_levenshtein(&id, row.id), row.id))
        .filter(|(likeness, _)| *likeness > 0.6)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    found.into_iter().map(|(_, id)| id).take(3).collect()
}

/// The ids of `provider` in the table, in its order.
///
/// ```
/// assert!(zk_providers::known_models("anthropic").any(|id| id == "claude-opus-5"));
/// ```
pub fn known_models(provider: &str) -> impl Iterator<Item = &'static str> {
    let provider = provider.to_owned();
    ROWS.iter().filter(move |row| row.provider == provider).map(|row| row.id)
}

/// Advice on a model the provider does not know.
pub(crate) fn did_you_mean(provider: &str, id: &str) -> Option<String> {
    let near = near_matches(provider, id);
    let (last, others) = near.split_last()?;
    let names: Vec<String> = others.iter().map(|id| format!("`{id}`")).collect();
    Some(match names.is_empty() {
        true => format!("Did you mean `{last}`?"),
        false => format!("Did you mean {} or `{last}`?", names.join(", ")),
    })
}
