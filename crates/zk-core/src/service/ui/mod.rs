mod command;
mod questions;
mod renderer;

pub use command::{ArgumentChoice, Command, CommandOutcome, match_command};
pub use questions::{
    Answer as UiAnswer, AnswerError, Approval, ApprovalCard, AskedKind, CardChoice, CardPart, FrontEnd,
    HunkHead, MAX_MARKS, PartKind, PendingQuestion, Question, QuestionDigest, QuestionId, Questions, Section,
    SectionKind, Selection, TrustRequest, WORDS_KEY, Wider, WiderKind, is_combining_mark,
    text_of_visible_lines, visible_diff, visible_line, visible_lines,
};
pub use renderer::{RenderInput, RenderedRow, RenderedSpan, Renderer, SpanRole};

/// Outlet for notices to the person, if a front-end shows them. Ask for the service `cx.service::<dyn Ui>()`
/// each time, since it can be replaced while an agent runs. Questions go through
/// [`Questions`](super::Questions).
pub trait Ui: Send + Sync {
    /// Shows one line that is not part of the answer.
    fn notify(&self, text: &str);
}
