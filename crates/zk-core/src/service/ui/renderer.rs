/// Renderer for blocks of one kind, or for fences of one language. A registry item: its name is `block:KIND`,
/// the [kind](crate::events::ViewBlock::kind) of blocks, or `fence:LANGUAGE`, the first word after the
/// backticks in an answer.
///
/// A renderer is pure: equal inputs give equal rows. A front-end for a screen reader shows the original text.
/// The default drawing is used if a renderer returns `None`, exceeds the width, or returns more than
/// [`RenderInput::MAX_ROWS`] rows.
///
/// ```
/// use std::sync::Arc;
///
/// use zk_core::kernel::{Bus, plugin_fn};
/// use zk_core::service::{RenderInput, RenderedRow, Renderer, SpanRole};
///
/// /// Draws `name 3` as a bar.
/// struct Bars;
///
/// impl Renderer for Bars {
///     fn render(&self, input: &RenderInput<'_>) -> Option<Vec<RenderedRow>> {
///         let bar = |line: &str| {
///             let (name, length) = line.rsplit_once(' ')?;
///             let bar = "█".repeat(length.parse().ok().filter(|length| *length <= input.width / 2)?);
///             Some(RenderedRow::of(SpanRole::Plain, &format!("{name} ")).with(SpanRole::Work, &bar))
///         };
///         input.text.lines().map(bar).collect()
///     }
/// }
///
/// let bars = plugin_fn("bars", |scope| {
///     scope.provide::<dyn Renderer>("fence:bars", Arc::new(Bars))?;
///     Ok(())
/// });
/// let bus = Bus::new();
/// bus.install(&bars).unwrap();
///
/// let renderer = bus.item::<dyn Renderer>("fence:bars").unwrap();
/// let rows = renderer.render(&RenderInput { text: "apples 3", width: 40 }).unwrap();
/// assert_eq!(rows[0].text(), "apples ███");
/// assert_eq!(renderer.render(&RenderInput { text: "apples many", width: 40 }), None);
/// ```
pub trait Renderer: Send + Sync {
    /// Renders the text in rows of at most the width in `input`; `None` if this renderer does not draw it.
    fn render(&self, input: &RenderInput<'_>) -> Option<Vec<RenderedRow>>;
}

/// Text that a [`Renderer`] draws, and the width available for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderInput<'a> {
    /// Content of the fence, or lines of the block.
    pub text: &'a str,
    /// Maximum number of columns in a row.
    pub width: usize,
}

impl RenderInput<'_> {
    /// Maximum number of rows that a renderer may return for one text.
    pub const MAX_ROWS: usize = 2_000;
    /// Maximum number of bytes of a text that is given to a renderer.
    pub const MAX_BYTES: usize = 64 * 1024;
}

/// Row of styled text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedRow {
    /// Styled parts of the row, from left to right.
    pub spans: Vec<RenderedSpan>,
}

impl RenderedRow {
    /// Creates a row of one span.
    #[must_use]
    pub fn of(role: SpanRole, text: &str) -> Self {
        Self::default().with(role, text)
    }

    /// Appends a span to the row.
    #[must_use]
    pub fn with(mut self, role: SpanRole, text: &str) -> Self {
        self.spans.push(RenderedSpan { text: text.to_owned(), role, bold: false });
        self
    }

    /// Returns the text of the row without styles.
    #[must_use]
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }
}

/// Part of a row with one style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedSpan {
    /// Text of the span.
    pub text: String,
    /// Role of the text's colour.
    pub role: SpanRole,
    /// Whether the text is bold.
    pub bold: bool,
}

/// Role of a text's colour, which a theme chooses. Every colour is accompanied by a sign or a word with the
/// same meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpanRole {
    /// The terminal's own colour.
    #[default]
    Plain,
    /// Secondary information.
    Faint,
    /// Success or addition.
    Good,
    /// Failure or removal.
    Bad,
    /// A warning.
    Warning,
    /// Names of tools and commands that the agent uses, and code.
    Work,
}
