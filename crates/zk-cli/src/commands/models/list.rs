use std::collections::BTreeSet;
use std::time::SystemTime;

use serde::Serialize;
use zk_core::model::{Model, ThinkingSupport};
use zk_providers::{Efforts, Shutdown, known_shutdown};

use crate::exit::{Failure, Outcome};

/// Row of a model in the list.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Listed {
    #[serde(flatten)]
    model: Model,
    /// Effort levels, as written in settings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    efforts: Vec<String>,
    /// Shutdown date of the model, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    shutdown: Option<Shutdown>,
    /// Whether the server listed the model.
    live: bool,
}

impl Listed {
    /// Creates a row for a model of the catalogue, without a request to its server.
    pub(super) fn from_catalogue(model: Model, efforts: &Efforts) -> Self {
        let usual = Efforts::of(Efforts::LEVELS.map(|level| (level, None)));
        let is_usual = |level: (&str, &str)| usual.levels().any(|usual| usual == level);
        let efforts = efforts.levels().map(|(level, word)| match is_usual((level, word)) {
            true => level.to_owned(),
            false => format!("{level}={word}"),
        });
        let shutdown = known_shutdown(&model.provider, &model.id);
        Self { efforts: efforts.collect(), model, shutdown, live: false }
    }

    /// Whether the provider or the id contains each word. The words are in lower case.
    pub(super) fn contains(&self, provider: &str, words: &[String]) -> bool {
        let name = format!("{provider}/{}", self.model.id).to_lowercase();
        words.iter().all(|word| name.contains(word.as_str()))
    }

    fn cells(&self) -> [String; COLUMNS] {
        let model = &self.model;
        let count = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), short_count);
        let rates = model.prices.as_ref().map(|prices| prices.rates);
        let price = rates.map_or_else(|| "?".to_owned(), |rates| format!("{}/{}", rates.input, rates.output));
        let thinking = match model.capabilities.thinking {
            ThinkingSupport::None => "-",
            ThinkingSupport::Budget => "budget",
            ThinkingSupport::Effort => "effort",
            ThinkingSupport::Adaptive => "adaptive",
        };
        [
            model.id.clone(),
            count(model.window),
            count(model.max_output),
            price,
            thinking.to_owned(),
            if model.capabilities.vision { "yes" } else { "-" }.to_owned(),
            if self.live { "server" } else { "catalogue" }.to_owned(),
        ]
    }

    /// Remark on the announced shutdown of a model.
    fn shutdown_remark(&self, now: SystemTime) -> Option<String> {
        match self.shutdown {
            Some(end) if !end.is_past(now) => Some(format!("until {end}")),
            // A shutdown date is ignored as long as the server lists the model.
            Some(end) if !self.live => Some(format!("shut down {end}")),
            Some(_) | None => None,
        }
    }
}

/// Joins the models listed by a server, in its order, with other known models.
pub(super) fn merge(live: Vec<Listed>, known: Vec<Listed>) -> Vec<Listed> {
    let named: BTreeSet<String> = live.iter().map(|live| live.model.id.clone()).collect();
    let known = known.into_iter().filter(|known| !named.contains(&known.model.id));
    live.into_iter().map(|live| Listed { live: true, ..live }).chain(known).collect()
}

/// Number of columns of the table.
const COLUMNS: usize = 7;

const HEAD: [&str; COLUMNS] = ["model", "window", "output", "$/M in/out", "thinking", "vision", "from"];

/// Width of an id in columns up to which the whole table fits 80 columns. A longer id has its own row.
const MAX_ID_COLUMNS: usize = 22;

/// Formats a number of tokens in at most five characters.
fn short_count(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{}k", count / 1000),
        _ if count % 1_000_000 < 100_000 => format!("{}M", count / 1_000_000),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// Formats the models of each provider as a table, under the provider's name if `named`.
pub(super) fn lines(listed: &[(String, Vec<Listed>)], named: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for (provider, models) in listed {
        if named {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.push(format!("{provider}:"));
        }
        let now = SystemTime::now();
        let mut rows = vec![(None, HEAD.map(str::to_owned))];
        for model in models {
            let mut cells = model.cells();
            let end = model.shutdown_remark(now);
            let [id, ..] = &mut cells;
            // A long id and a shutdown date have their own row.
            let is_long = id.chars().count() > MAX_ID_COLUMNS || end.is_some();
            let above = is_long.then(|| {
                let id = std::mem::take(id);
                end.map_or_else(|| id.clone(), |end| format!("{id}  ({end})"))
            });
            rows.push((above, cells));
        }
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|(_, row)| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
        for (above, row) in &rows {
            lines.extend(above.clone());
            lines.push(line(row, &widths));
        }
    }
    lines
}

/// Formats the number of models of each provider, with the command that lists them.
pub(super) fn counts(listed: &[(String, Vec<Listed>)]) -> Vec<String> {
    let width = listed.iter().map(|(provider, _)| provider.chars().count()).max().unwrap_or(0);
    let row = |(provider, models): &(String, Vec<Listed>)| {
        let models = models.len();
        format!("{provider:<width$}  {models:>4} model{}", if models == 1 { "" } else { "s" })
    };
    let next = "`zk models WORD` lists those that contain it, `zk models --provider NAME` those of a provider, `zk auth \
                login` stores a key";
    listed.iter().map(row).chain([next.to_owned()]).collect()
}

/// Formats each model as a line of JSON.
pub(super) fn json(listed: &[(String, Vec<Listed>)]) -> Outcome<Vec<String>> {
    let models = listed.iter().flat_map(|(_, models)| models);
    let lines: Result<_, _> = models.map(serde_json::to_string).collect();
    lines.map_err(|error| Failure::failed(format!("a model cannot be written as JSON: {error}")))
}

/// Formats a row with left-aligned names and right-aligned numbers.
fn line(row: &[String; COLUMNS], widths: &[usize]) -> String {
    let mut line = String::new();
    for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
        let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
        let is_number = (1..=3).contains(&at);
        if at > 0 {
            line.push_str("  ");
        }
        line.push_str(&if is_number { format!("{blanks}{cell}") } else { format!("{cell}{blanks}") });
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use zk_core::model::{Prices, Rates};

    use super::*;

    fn known(id: &str) -> Listed {
        let rates = Rates { input: 0.1, output: 12.5, ..Rates::default() };
        let prices = Some(Prices::from(rates));
        Listed::from_catalogue(
            Model { window: Some(128_000), prices, ..Model::unknown("p", id) },
            &Efforts::default(),
        )
    }

    #[test]
    fn what_the_server_lists_comes_first_and_each_model_once() {
        let table = ["a", "b", "c"].map(known);
        let merged = merge(vec![known("c"), known("x")], table.into());
        let seen: Vec<(&str, bool)> = merged.iter().map(|one| (one.model.id.as_str(), one.live)).collect();
        assert_eq!(seen, [("c", true), ("x", true), ("a", false), ("b", false)]);
    }

    #[test]
    fn every_word_has_to_be_in_the_provider_and_the_id_whatever_the_case() {
        let listed = known("Vendor/Big-Model-4");
        let contains = |words: &[&str]| {
            listed.contains("host", &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert!(contains(&[]) && contains(&["big", "host/v"]) && contains(&["model-4"]));
        assert!(!contains(&["big", "small"]));
    }

    #[test]
    fn a_model_with_a_last_day_says_it_and_a_listed_one_is_there() {
        let o1 = |live| Listed {
            live,
            ..Listed::from_catalogue(Model::unknown("openai", "o1"), &Efforts::default())
        };
        let later = UNIX_EPOCH + Duration::from_secs(4_000_000_000);
        let end = |live, now| o1(live).shutdown_remark(now);
        assert_eq!(end(false, UNIX_EPOCH).as_deref(), Some("until 2026-10-23"));
        assert_eq!(end(true, UNIX_EPOCH).as_deref(), Some("until 2026-10-23"));
        assert_eq!(end(false, later).as_deref(), Some("shut down 2026-10-23"));
        assert_eq!(end(true, later), None);
        assert!(serde_json::to_string(&o1(false)).unwrap().contains("\"shutdown\":\"2026-10-23\""));
        assert_eq!(known("b").shutdown_remark(later), None);
    }

    #[test]
    fn columns_stand_under_their_names_and_models_under_their_providers() {
        let one = vec![("p".to_owned(), vec![known("long-name"), known("b")])];
        assert_eq!(
            lines(&one, false),
            [
                "model      window  output  $/M in/out  thinking  vision  from",
                "long-name    128k       ?    0.1/12.5  -         yes     catalogue",
                "b            128k       ?    0.1/12.5  -         yes     catalogue",
            ]
        );
        let long = vec![(
            "p".to_owned(),
            vec![known("a-name-that-is-too-long-for-the-table"), known(&"b".repeat(22))],
        )];
        let shown = lines(&long, false);
        assert_eq!(shown[1], "a-name-that-is-too-long-for-the-table");
        assert!(
            shown[2].starts_with(&" ".repeat(24)) && shown.iter().all(|line| line.chars().count() <= 80),
            "{shown:#?}"
        );
        let two = [one[0].0.as_str(), "q"].map(|name| (name.to_owned(), vec![known("b")]));
        let lines = lines(&two, true);
        assert_eq!((lines[0].as_str(), lines[3].as_str(), lines[4].as_str()), ("p:", "", "q:"));
    }
}
