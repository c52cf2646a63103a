//! Binary search in the lines of `models.tsv`, without parsing the others.

use std::borrow::Cow;

use zk_core::model::{Capabilities, Model, PriceTier, Prices, Rates, ThinkingSupport};

use super::shutdown::Shutdown;
use crate::encode::effort::Efforts;

/// The table of models, sorted by its first two columns; written and checked by `cargo xtask models`.
pub(super) const TABLE: &str = include_str!("models.tsv");

/// Parsed row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    window: Option<u64>,
    max_output: Option<u64>,
    prices: Prices,
    vision: bool,
    thinking: ThinkingSupport,
    efforts: Efforts,
    shutdown: Option<Shutdown>,
}

impl Row {
    /// Returns the day of the model's shutdown, if it was announced.
    pub(super) fn shutdown(&self) -> Option<Shutdown> {
        self.shutdown
    }

    /// Returns the effort levels of the model.
    pub(crate) fn efforts(self) -> Efforts {
        self.efforts
    }

    /// Returns the row with all prices set to zero.
    pub(super) fn for_nothing(self) -> Self {
        Self { prices: Prices::default(), ..self }
    }

    /// Converts the row to the model `id` of `provider`.
    pub(crate) fn model(self, provider: &str, id: &str) -> Model {
        Model {
            window: self.window,
            max_output: self.max_output,
            capabilities: Capabilities {
                vision: self.vision,
                image_in_tool_result: false,
                thinking: self.thinking,
                ..Capabilities::default()
            },
            prices: Some(self.prices),
            ..Model::unknown(provider, id)
        }
    }

    /// Parses the cells of a line after the id.
    pub(super) fn read(line: &'static str) -> Option<Self> {
        let mut cells = line.split('\t').skip(2);
        let window = cells.next()?.parse().ok();
        let max_output = cells.next()?.parse().ok();
        let prices = Prices { rates: parse_rates(&mut cells)?, tiers: parse_tiers(cells.next()?)? };
        let vision = cells.next()? == "yes";
        let thinking = match cells.next()? {
            "budget" => ThinkingSupport::Budget,
            "effort" => ThinkingSupport::Effort,
            "adaptive" => ThinkingSupport::Adaptive,
            _ => ThinkingSupport::None,
        };
        let efforts = match cells.next()? {
            "-" => Efforts::default(),
            levels => Efforts::of(levels.split(',').map(|level| match level.split_once('=') {
                Some((level, word)) => (level, Some(Cow::Borrowed(word))),
                None => (level, None),
            })),
        };
        let shutdown = cells.next().filter(|date| *date != "-").map(Shutdown::on);
        Some(Self { window, max_output, prices, vision, thinking, efforts, shutdown })
    }
}

fn parse_rates<'a>(cells: &mut impl Iterator<Item = &'a str>) -> Option<Rates> {
    let mut rate = || cells.next()?.parse().ok();
    Some(Rates { input: rate()?, output: rate()?, cache_read: rate()?, cache_write: rate()? })
}

fn parse_tiers(cell: &str) -> Option<Vec<PriceTier>> {
    if cell == "-" {
        return Some(Vec::new());
    }
    let tier = |tier: &str| {
        let mut cells = tier.split(':');
        Some(PriceTier { above: cells.next()?.parse().ok()?, rates: parse_rates(&mut cells)? })
    };
    cell.split(',').map(tier).collect()
}

/// Returns the provider and the id of a line.
fn key(line: &str) -> (&str, &str) {
    let mut cells = line.split('\t');
    (cells.next().unwrap_or_default(), cells.next().unwrap_or_default())
}

/// Returns the offset of the first line whose key is at least `wanted`.
fn lower_bound(wanted: (&str, &str)) -> usize {
    let (mut low, mut high) = (0, TABLE.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let before = TABLE.get(low..middle).unwrap_or_default();
        let start = before.rfind('\n').map_or(low, |at| low + at + 1);
        let line = TABLE.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        if key(line) < wanted {
            low = start + line.len() + 1;
        } else {
            high = start;
        }
    }
    low
}

/// Returns the lines from the first one whose key is at least `provider` and `id`.
fn lines_from(provider: &str, id: &str) -> impl Iterator<Item = &'static str> {
    TABLE.get(lower_bound((provider, id))..).unwrap_or_default().lines()
}

/// Returns the line for `id` at `provider`.
pub(super) fn line(provider: &str, id: &str) -> Option<&'static str> {
    lines_from(provider, id).next().filter(|line| key(line) == (provider, id))
}

/// Returns the ids of `provider`, sorted.
pub(super) fn ids(provider: &str) -> impl Iterator<Item = &'static str> {
    lines_from(provider, "").map(key).take_while(move |(name, _)| *name == provider).map(|(_, id)| id)
}
