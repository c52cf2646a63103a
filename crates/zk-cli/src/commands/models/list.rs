use std::collections::BTreeSet;
use std::time::SystemTime;

use serde::Serialize;
use zk_core::model::{Model, ThinkingSupport};
use zk_providers::{Efforts, Shutdown, known_shutdown};

use crate::exit::{Failure, Outcome};

/// A model in the list.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Listed {
    #[serde(flatten)]
    model: Model,
    /// Efforts, as the settings write them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    efforts: Vec<String>,
    /// Last day of the model, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    shutdown: Option<Shutdown>,
    /// Whether the server listed the model.
    live: bool,
}

impl Listed {
    /// Model of the catalogue, which no server was asked about.
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

    /// Whether the provider and the id contain every word. The words are in small letters.
    pub(super) fn contains(&self, provider: &str, words: &[String]) -> bool {
        let name = format!("{provider}/{}", self.model.id).to_lowercase();
        words.iter().all(|word| name.contains(word.as_str()))
    }

    fn cells(&self) -> [String; 8] {
        let model = &self.model;
        let count = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
        let rates = model.prices.as_ref().map(|prices| prices.rates);
        let price = |price: Option<f64>| price.map_or_else(|| "?".to_owned(), |price| price.to_string());
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
            price(rates.map(|rates| rates.input)),
            price(rates.map(|rates| rates.output)),
            thinking.to_owned(),
            if model.capabilities.vision { "yes" } else { "-" }.to_owned(),
            self.source(SystemTime::now()),
        ]
    }

    /// Returns who named the model, and whether it is served for long.
    fn source(&self, now: SystemTime) -> String {
        let source = if self.live { "server" } else { "catalogue" };
        match self.shutdown {
            Some(end) if !end.is_past(now) => format!("{source}, until {end}"),
            // A model that a server lists is served, whatever was announced.
            Some(end) if !self.live => format!("{source}, shut down {end}"),
            Some(_) | None => source.to_owned(),
        }
    }
}

/// Joins the models that a server lists, in its order, with the others that are known.
pub(super) fn merge(live: Vec<Listed>, known: Vec<Listed>) -> Vec<Listed> {
    let named: BTreeSet<String> = live.iter().map(|live| live.model.id.clone()).collect();
    let known = known.into_iter().filter(|known| !named.contains(&known.model.id));
    live.into_iter().map(|live| Listed { live: true, ..live }).chain(known).collect()
}

const HEAD: [&str; 8] = ["model", "window", "output", "$/M in", "$/M out", "thinking", "vision", "from"];

/// A table of the models of each provider, under its name if that is wanted.
pub(super) fn lines(listed: &[(String, Vec<Listed>)], named: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for (provider, models) in listed {
        if named {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.push(format!("{provider}:"));
        }
        let head = HEAD.map(str::to_owned);
        let rows: Vec<[String; 8]> = std::iter::once(head).chain(models.iter().map(Listed::cells)).collect();
        let widths: Vec<usize> = (0..HEAD.len())
            .map(|column| {
                rows.iter()
                    .filter_map(|row| row.get(column))
                    .map(|cell| cell.chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        lines.extend(rows.iter().map(|row| line(row, &widths)));
    }
    lines
}

/// The providers with the number of models that each has, and the command that lists them.
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

/// A line of JSON for each model.
pub(super) fn json(listed: &[(String, Vec<Listed>)]) -> Outcome<Vec<String>> {
    let models = listed.iter().flat_map(|(_, models)| models);
    let lines: Result<_, _> = models.map(serde_json::to_string).collect();
    lines.map_err(|error| Failure::failed(format!("a model cannot be written as JSON: {error}")))
}

/// Names to the left, numbers to the right.
fn line(row: &[String; 8], widths: &[usize]) -> String {
    let mut line = String::new();
    for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
        let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
        let is_number = (1..=4).contains(&at);
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
        assert_eq!(o1(false).source(UNIX_EPOCH), "catalogue, until 2026-10-23");
        assert_eq!(o1(true).source(UNIX_EPOCH), "server, until 2026-10-23");
        assert_eq!(o1(false).source(later), "catalogue, shut down 2026-10-23");
        assert_eq!(o1(true).source(later), "server");
        assert!(serde_json::to_string(&o1(false)).unwrap().contains("\"shutdown\":\"2026-10-23\""));
        assert_eq!(known("b").source(later), "catalogue");
    }

    #[test]
    fn columns_stand_under_their_names_and_models_under_their_providers() {
        let one = vec![("p".to_owned(), vec![known("long-name"), known("b")])];
        assert_eq!(
            lines(&one, false),
            [
                "model      window  output  $/M in  $/M out  thinking  vision  from",
                "long-name  128000       ?     0.1     12.5  -         yes     catalogue",
                "b          128000       ?     0.1     12.5  -         yes     catalogue",
            ]
        );
        let two = [one[0].0.as_str(), "q"].map(|name| (name.to_owned(), vec![known("b")]));
        let lines = lines(&two, true);
        assert_eq!((lines[0].as_str(), lines[3].as_str(), lines[4].as_str()), ("p:", "", "q:"));
    }
}
