use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::corrections::{
    CORRECTIONS, Change, Correction, FILE, LEFT_OUT, NewModel, SHUTDOWNS, matches_id, providers,
};
use super::table::{LEVELS, Row};

/// Corrected rows of the catalogue that zk uses.
///
/// # Errors
/// When a line is invalid, or a correction or exception matches no row any more.
pub(super) fn read(text: &str) -> Result<Vec<Row>> {
    read_with(text, CORRECTIONS)
}

/// Variant of [`read`] with other corrections.
pub(super) fn read_with(text: &str, corrections: &[Correction]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let (mut used, mut left_out) = (vec![false; corrections.len()], vec![false; LEFT_OUT.len()]);
    for (at, line) in text.lines().enumerate().skip(1) {
        let place = || format!("line {} of the catalogue", at + 1);
        let Some((api, mut row)) = row(line).with_context(place)? else { continue };
        let exception = LEFT_OUT.iter().position(|out| out.api == api && matches_id(out.id, &row.id));
        if let Some(seen) = exception.and_then(|at| left_out.get_mut(at)) {
            *seen = true;
            continue;
        }
        for (correction, used) in corrections.iter().zip(&mut used) {
            if correction.provider == row.provider && matches_id(correction.id, &row.id) {
                *used = true;
                match correction.change {
                    Change::Add(_) => bail!(
                        "the catalogue has {}/{} by now: take its `Change::Add` out of {FILE}",
                        row.provider,
                        row.id
                    ),
                    Change::Window(tokens) => row.window = tokens.to_string(),
                    Change::Price(rates) => {
                        row.rates = rates.map(str::to_owned);
                        // The price steps belonged to the corrected price.
                        row.tiers = "-".to_owned();
                    }
                    Change::MaxOutput(most) => row.max_output = most.to_string(),
                    Change::Efforts(words) => row.efforts = words.to_owned(),
                    Change::AlsoCalled(id) => rows.push(Row { id: id.to_owned(), ..row.clone() }),
                }
            }
        }
        rows.push(row);
    }
    for (correction, used) in corrections.iter().zip(&used) {
        let Correction { provider, id, change, why } = correction;
        match change {
            Change::Add(model) => rows.push(added(provider, id, model)),
            _ if *used => {}
            _ => bail!(
                "the correction of {provider}/{id} ({why}) means no model any more: take it out of {FILE}"
            ),
        }
    }
    if let Some((out, _)) = LEFT_OUT.iter().zip(&left_out).find(|(_, seen)| !**seen) {
        bail!(
            "leaving out {} of {} ({}) means no model any more: take it out of {FILE}",
            out.id,
            out.api,
            out.why
        );
    }
    for shutdown in SHUTDOWNS {
        for id in shutdown.ids {
            let is_it = |row: &&mut Row| row.provider == shutdown.provider && row.id == *id;
            let Some(row) = rows.iter_mut().find(is_it) else {
                bail!(
                    "the shutdown of {}/{id} means no model any more: take it out of {FILE}",
                    shutdown.provider
                );
            };
            row.shutdown = shutdown.date.to_owned();
        }
    }
    Ok(rows)
}

fn added(provider: &str, id: &str, model: &NewModel) -> Row {
    Row {
        provider: provider.to_owned(),
        id: id.to_owned(),
        window: model.window.to_string(),
        max_output: model.max_output.to_string(),
        rates: model.price.map(str::to_owned),
        tiers: "-".to_owned(),
        vision: model.vision,
        thinking: model.thinking,
        efforts: model.efforts.to_owned(),
        shutdown: "-".to_owned(),
    }
}

/// Parses a line into a row and its API; `None` for a provider that zk does not know.
fn row(line: &str) -> Result<Option<(&str, Row)>> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [provider, id, api, window, max_output, rates @ .., tiers, input, reasoning, efforts] = &cells[..]
    else {
        bail!("it has {} cells", cells.len());
    };
    let &[input_rate, output_rate, read_rate, write_rate] = rates else {
        bail!("it has {} prices", rates.len());
    };
    let Some((_, name)) = providers().find(|(theirs, _)| theirs == provider) else { return Ok(None) };
    let known: Map<String, Value> = match efforts.is_empty() {
        true => Map::new(),
        false => serde_json::from_str(efforts).context("its map of efforts")?,
    };
    let reasons = *reasoning == "R";
    let row = Row {
        provider: name.to_owned(),
        id: (*id).to_owned(),
        window: (*window).to_owned(),
        max_output: if max_output.is_empty() { "-" } else { max_output }.to_owned(),
        rates: [input_rate, output_rate, read_rate, write_rate].map(str::to_owned),
        tiers: self::tiers(tiers)?,
        vision: input.split('+').any(|kind| kind == "image"),
        thinking: thinking(name, reasons, !known.is_empty()),
        efforts: if reasons { self::efforts(&known)? } else { "-".to_owned() },
        shutdown: "-".to_owned(),
    };
    Ok(Some((api, row)))
}

/// Kind of a model's thinking: a token budget if its dialect had one and the catalogue lists no efforts.
fn thinking(provider: &str, reasons: bool, has_efforts: bool) -> &'static str {
    match (provider, reasons, has_efforts) {
        (_, false, _) => "none",
        ("anthropic" | "gemini" | "minimax", true, false) => "budget",
        ("anthropic" | "minimax", true, true) => "adaptive",
        _ => "effort",
    }
}

/// Price tiers, each as `above:input:output:cache_read:cache_write`.
fn tiers(text: &str) -> Result<String> {
    if text.is_empty() {
        return Ok("-".to_owned());
    }
    let tiers: Vec<Map<String, Value>> = serde_json::from_str(text).context("its price tiers")?;
    let tier = |tier: &Map<String, Value>| -> Result<String> {
        let names = ["inputTokensAbove", "input", "output", "cacheRead", "cacheWrite"];
        let number = |name| tier.get(name).filter(|value| value.is_number()).map(ToString::to_string);
        let cells: Option<Vec<String>> = names.into_iter().map(number).collect();
        Ok(cells.with_context(|| format!("a price tier lacks one of {names:?}"))?.join(":"))
    };
    Ok(tiers.iter().map(tier).collect::<Result<Vec<_>>>()?.join(","))
}

/// Levels of the model, each with its name if that differs. A usual level that the map leaves out exists; the
/// lowest and the two highest must be named.
fn efforts(map: &Map<String, Value>) -> Result<String> {
    if map.is_empty() {
        return Ok("-".to_owned());
    }
    if let Some(level) = map.keys().find(|level| !LEVELS.iter().any(|(name, _)| name == level)) {
        bail!("its map of efforts has a level `{level}`");
    }
    let mut cells = Vec::new();
    for (level, usual) in LEVELS {
        let is_usual = ["off", "low", "medium", "high"].contains(level);
        match map.get(*level) {
            None if is_usual => cells.push((*level).to_owned()),
            None | Some(Value::Null) => {}
            Some(Value::String(word)) if word == usual => cells.push((*level).to_owned()),
            Some(Value::String(word)) => cells.push(format!("{level}={word}")),
            Some(other) => bail!("its effort `{level}` is {other}"),
        }
    }
    Ok(if cells.is_empty() { "-".to_owned() } else { cells.join(",") })
}
