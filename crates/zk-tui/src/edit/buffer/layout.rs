use unicode_segmentation::UnicodeSegmentation;

use crate::inline::Caret;
use crate::row::{Span, Style};
use crate::text::graphemes;

/// Layout of a draft: breaks at words; a word longer than a row is split.
pub(super) struct Layout {
    /// Width of a row in columns.
    room: usize,
    rows: Vec<Vec<Piece>>,
    /// Width of the last row so far, in columns.
    column: usize,
}

/// Grapheme with its position and width.
struct Piece {
    /// Byte position of the grapheme in the text.
    at: usize,
    span: Span,
    columns: usize,
    /// Whether a row may end after it.
    is_break: bool,
}

impl Layout {
    pub(super) fn new(room: usize) -> Self {
        Self { room: room.max(1), rows: vec![Vec::new()], column: 0 }
    }

    /// Rows of a text, and the position of the caret before the byte `caret`.
    pub(super) fn lay_out(mut self, text: &str, caret: usize) -> (Vec<Vec<Span>>, Caret) {
        let mut at = 0;
        for grapheme in text.graphemes(true) {
            let span = Span::new(Style::PLAIN, grapheme);
            let columns: usize = graphemes(span.text()).map(|(_, columns)| columns).sum();
            let is_blank = grapheme == " ";
            // Scripts without blanks break between any two characters.
            let is_break = is_blank || columns == 2;
            match grapheme {
                "\n" => {
                    self.push(Piece { at, span: Span::new(Style::PLAIN, ""), columns: 0, is_break: false })
                }
                " " if self.column >= self.room => {
                    self.start_row();
                    self.push(Piece { at, span: Span::new(Style::PLAIN, ""), columns: 0, is_break: false });
                }
                _ => {
                    self.wrap_if_full(columns);
                    self.push(Piece { at, span, columns, is_break });
                }
            }
            if grapheme == "\n" {
                self.start_row();
            }
            at += grapheme.len();
        }
        if caret == text.len() && self.column >= self.room {
            self.start_row();
        }
        let end = Caret { row: self.rows.len() - 1, column: self.column };
        let caret = if caret == text.len() { end } else { self.caret_position(caret).unwrap_or(end) };
        let spans = |row: Vec<Piece>| row.into_iter().map(|piece| piece.span).collect();
        (self.rows.into_iter().map(spans).collect(), caret)
    }

    /// Moves the current word to a new row if `columns` more do not fit.
    fn wrap_if_full(&mut self, columns: usize) {
        while self.column > 0 && self.column + columns > self.room {
            let row = self.rows.last_mut().filter(|_| columns < 2);
            let begins = row.as_ref().and_then(|row| row.iter().rposition(|piece| piece.is_break));
            let word = row.zip(begins).map(|(row, at)| row.split_off(at + 1)).unwrap_or_default();
            self.column = word.iter().map(|piece| piece.columns).sum();
            self.rows.push(word);
        }
    }

    fn start_row(&mut self) {
        self.rows.push(Vec::new());
        self.column = 0;
    }

    fn push(&mut self, piece: Piece) {
        self.column += piece.columns;
        if let Some(row) = self.rows.last_mut() {
            row.push(piece);
        }
    }

    fn caret_position(&self, caret: usize) -> Option<Caret> {
        self.rows.iter().enumerate().find_map(|(row, pieces)| {
            let index = pieces.iter().position(|piece| piece.at == caret)?;
            let before = pieces.get(..index).unwrap_or_default();
            Some(Caret { row, column: before.iter().map(|piece| piece.columns).sum() })
        })
    }
}
