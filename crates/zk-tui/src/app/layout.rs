use crate::inline::{Caret, Size};
use crate::pick::Picker;
use crate::row::{Row, Style};
use crate::text::soft_split;

/// Redrawn parts of the screen, top to bottom.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// Open rows of the conversation, of which the last ones are shown.
    pub(crate) open: Vec<Row>,
    /// Rows of the open question.
    pub(crate) card: Vec<Row>,
    /// Rows above the draft: completions, queued texts, sub-agents and jobs.
    pub(crate) queue: Vec<Row>,
    pub(crate) status: Option<Row>,
    /// Rows of the composer.
    pub(crate) composer: Vec<Row>,
    /// Position of the caret in the composer.
    pub(crate) caret: Option<Caret>,
    /// Placeholder of an empty composer, if it fits.
    pub(crate) placeholder: Option<Row>,
}

/// Number of rows for each part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rooms {
    pub(crate) open: usize,
    card: usize,
    queue: usize,
    status: usize,
    composer: usize,
    /// Whether rules are drawn above and below the composer.
    has_rules: bool,
    /// Whether a blank row separates the conversation from the parts below.
    has_gap: bool,
}

/// Minimum number of conversation rows on the screen, below which the rules around the composer are omitted.
const MIN_OPEN_WITH_RULES: usize = 5;

/// Minimum screen height for a placeholder.
const MIN_PLACEHOLDER_ROWS: usize = 6;

/// Screen height below which queued texts are hidden beside a question.
const MIN_ROWS_WITH_QUEUE: usize = 10;

/// Maximum height of a question: leaves one row for the draft and one for the queue.
pub(crate) fn card_room(size: Size) -> usize {
    let rows = size.live_rows();
    rows.saturating_sub(if rows < MIN_ROWS_WITH_QUEUE { 2 } else { 3 }).max(1)
}

/// Maximum height of a list of completions or keys: leaves one row for the draft.
pub(crate) fn list_room(size: Size) -> usize {
    size.live_rows().saturating_sub(2).max(1)
}

/// Minimum width of a picker that leaves room for a narrower terminal, in columns.
const MIN_PICKER_COLUMNS: usize = 78;

/// Rows of a picker. They leave room for a terminal that becomes smaller: rows that a terminal moves above its
/// first row can no longer be erased. A narrower terminal turns each long row into two.
pub(crate) fn picker_rows(picker: &Picker, size: Size) -> Vec<Row> {
    let room = (size.height * 3 / 4).saturating_sub(2).min(list_room(size));
    let rows = picker.rows(size.width, room);
    let narrow = size.width.min(MIN_PICKER_COLUMNS.max(size.width * 4 / 5));
    let long = rows.iter().filter(|row| row.columns() > narrow).count();
    if rows.len() + long > room { picker.rows(narrow, room) } else { rows }
}

/// Maximum height of what stands above the draft: texts that wait, jobs, sub-agents and the to-do list.
pub(crate) fn queue_room(size: Size) -> usize {
    size.live_rows() / 3
}

impl Rooms {
    /// Distributes the rows: first the draft, then the question, then the other parts.
    pub(crate) fn of(parts: &Parts, size: Size) -> Self {
        let mut left = size.live_rows();
        let mut take = |wanted: usize, most: usize| {
            let taken = wanted.min(most).min(left);
            left -= taken;
            taken
        };
        let height = size.live_rows();
        let composer_most = if parts.card.is_empty() { (height / 2).max(1) } else { (height / 4).max(1) };
        let composer = take(parts.composer.len(), composer_most);
        let spare = usize::from(!parts.queue.is_empty() && height >= MIN_ROWS_WITH_QUEUE);
        let card = take(parts.card.len(), height.saturating_sub(composer + spare));
        let status = take(usize::from(parts.status.is_some()), 1);
        let queue = take(parts.queue.len(), queue_room(size));
        // Beside a question or a list every row is needed, and the question's frame already separates it.
        let has_rules = parts.card.is_empty() && left >= MIN_OPEN_WITH_RULES + 2;
        let has_gap = has_rules && left > MIN_OPEN_WITH_RULES + 2;
        let open = left - 2 * usize::from(has_rules) - usize::from(has_gap);
        Self { open, card, queue, status, composer, has_rules, has_gap }
    }
}

/// Live rows, each one row of the screen, and the caret within them.
pub(crate) fn live_rows(parts: &Parts, size: Size) -> (Vec<Row>, Option<Caret>) {
    let rooms = Rooms::of(parts, size);
    let mut rows: Vec<Row> = parts.open.iter().flat_map(|row| soft_split(row, size.width)).collect();
    rows.drain(..rows.len().saturating_sub(rooms.open));
    let clipped = |row: &Row| row.clipped(size.width);
    let rule = rooms.has_rules.then(|| Row::of(Style::DIM, &"─".repeat(size.width)));
    rows.extend(rooms.has_gap.then(Row::default));
    rows.extend(parts.card.iter().take(rooms.card).map(clipped));
    rows.extend(parts.queue.iter().take(rooms.queue).map(clipped));
    rows.extend(rule.clone());
    // Part of the draft around the caret.
    let caret_row = parts.caret.map_or(0, |caret| caret.row);
    let first = (caret_row + 1).saturating_sub(rooms.composer);
    let above = rows.len();
    let placeholder = parts.placeholder.as_ref().filter(|_| size.height >= MIN_PLACEHOLDER_ROWS);
    let composer = placeholder.map_or(parts.composer.as_slice(), std::slice::from_ref);
    rows.extend(composer.iter().skip(first).take(rooms.composer).map(clipped));
    rows.extend(rule);
    rows.extend(parts.status.iter().take(rooms.status).map(clipped));
    let caret =
        parts.caret.map(|caret| Caret { row: above + caret.row.saturating_sub(first), column: caret.column });
    (rows, caret)
}

/// First row of the empty composer, with the placeholder.
pub(crate) fn placeholder(first: &Row, width: usize) -> Option<Row> {
    let keys = "/ commands   @ files   ! shell   ? keys";
    let texts = [
        format!("Ask anything            {keys}"),
        format!("Ask anything   {keys}"),
        "Ask anything".to_owned(),
    ];
    texts.iter().map(|text| first.clone().with(Style::DIM, text)).find(|row| row.columns() <= width)
}
