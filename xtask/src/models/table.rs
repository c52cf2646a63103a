use super::corrections::{PROVIDERS_FILE, providers};

const HEAD: &str = "# provider\tid\twindow\tmax_output\tinput\toutput\tcache_read\tcache_write\ttiers\tvision\
                    \tthinking\tefforts\tshutdown";

/// Levels of effort, the lowest first, with their usual names.
pub(super) const LEVELS: &[(&str, &str)] = &[
    ("off", "none"),
    ("minimal", "minimal"),
    ("low", "low"),
    ("medium", "medium"),
    ("high", "high"),
    ("xhigh", "xhigh"),
    ("max", "max"),
];

/// Upper bound for the price of a million tokens, as a plausibility check.
const MAX_PRICE_USD: f64 = 2_000.0;
/// Lower bound for a model's context window.
const MIN_WINDOW_TOKENS: u64 = 2_048;

/// Row of the table. Numbers are kept as text.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) provider: String,
    pub(super) id: String,
    pub(super) window: String,
    pub(super) max_output: String,
    pub(super) rates: [String; 4],
    pub(super) tiers: String,
    pub(super) vision: bool,
    pub(super) thinking: &'static str,
    pub(super) efforts: String,
    /// Date as `YYYY-MM-DD`.
    pub(super) shutdown: String,
}

/// Formats the table, sorted as the program's lookup requires.
pub(super) fn write(rows: &[Row]) -> String {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by(|a, b| (&a.provider, &a.id).cmp(&(&b.provider, &b.id)));
    let mut text = format!("{HEAD}\n");
    for row in rows {
        let vision = if row.vision { "yes" } else { "no" };
        let [input, output, read, write] = &row.rates;
        let cells = [
            &row.provider,
            &row.id,
            &row.window,
            &row.max_output,
            input,
            output,
            read,
            write,
            &row.tiers,
            vision,
            row.thinking,
            &row.efforts,
            &row.shutdown,
        ];
        text.push_str(&cells.join("\t"));
        text.push('\n');
    }
    text
}

/// Faults of a table, by line.
pub(super) fn faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut before = None;
    for (number, line) in (1..).zip(text.lines()) {
        let mut fault = |what: String| faults.push(format!("line {number}: {what}"));
        if number == 1 {
            if line != HEAD {
                fault("the names of the columns are others".to_owned());
            }
            continue;
        }
        let cells: Vec<&str> = line.split('\t').collect();
        let [provider, id, window, max_output, rates @ .., tiers, vision, thinking, efforts, shutdown] =
            &cells[..]
        else {
            fault(format!("{} cells", cells.len()));
            continue;
        };
        let key = Some((*provider, *id));
        if before >= key {
            fault(format!("{provider}/{id} is there twice, or out of order"));
        }
        before = key;
        if !providers().any(|(_, name)| name == *provider) {
            fault(format!("`{provider}` is not in {PROVIDERS_FILE}"));
        }
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            fault(format!("`{id}` is no id"));
        }
        let size = |cell: &str| cell.parse::<u64>().ok().filter(|size| *size > 0);
        let known = size(window).filter(|window| *window >= MIN_WINDOW_TOKENS);
        if known.is_none() {
            fault(format!("`{window}` is no window"));
        }
        if *max_output != "-" && size(max_output).is_none_or(|most| known.is_some_and(|window| most > window))
        {
            fault(format!("`{max_output}` is no output limit in a window of {window}"));
        }
        if rates.len() != 4 || !rates.iter().all(|rate| is_rate(rate)) {
            fault(format!("{rates:?} are no prices"));
        }
        if *tiers != "-" && !are_tiers(tiers) {
            fault(format!("`{tiers}` are no price tiers"));
        }
        if !["yes", "no"].contains(vision) {
            fault(format!("vision is `{vision}`"));
        }
        if !["none", "budget", "effort", "adaptive"].contains(thinking) {
            fault(format!("thinking is `{thinking}`"));
        }
        if *efforts != "-" && (*thinking == "none" || !are_efforts(efforts)) {
            fault(format!("`{efforts}` are no efforts of a model whose thinking is `{thinking}`"));
        }
        if *shutdown != "-" && !is_date(shutdown) {
            fault(format!("`{shutdown}` is no date"));
        }
    }
    if before.is_none() {
        faults.push("there is no model".to_owned());
    }
    faults
}

/// Whether a cell is a date `YYYY-MM-DD`, whose text order is the order in time.
fn is_date(cell: &str) -> bool {
    let shape: String = cell.chars().map(|char| if char.is_ascii_digit() { '0' } else { char }).collect();
    shape == "0000-00-00"
}

fn is_rate(cell: &str) -> bool {
    cell.parse::<f64>().is_ok_and(|rate| (0.0..MAX_PRICE_USD).contains(&rate))
}

/// Whether the tiers are sorted by their lower bound.
fn are_tiers(cell: &str) -> bool {
    let mut before = 0;
    cell.split(',').all(|tier| {
        let cells: Vec<&str> = tier.split(':').collect();
        let Some((above, rates)) = cells.split_first() else { return false };
        let Some(above) = above.parse::<u64>().ok().filter(|above| *above > before) else { return false };
        before = above;
        rates.len() == 4 && rates.iter().all(|rate| is_rate(rate))
    })
}

/// Whether all levels are known and in order.
fn are_efforts(cell: &str) -> bool {
    let mut levels = LEVELS.iter();
    cell.split(',').all(|effort| {
        let (level, word) = effort.split_once('=').unwrap_or((effort, effort));
        !word.is_empty() && levels.any(|(name, _)| *name == level)
    })
}
