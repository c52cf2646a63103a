use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use zk_core::service::{RenderInput, RenderedRow, RenderedSpan, Renderer, SpanRole};
use zk_view::{Block, Content};

use super::detail::MARGIN;
use crate::row::{Row, Span, Style};

/// Finds a renderer by the name of its registry item.
type FindRenderer = dyn Fn(&str) -> Option<Arc<dyn Renderer>> + Send + Sync;

/// Custom renderers of blocks and fences. Without one, or if it fails, the default drawing is used.
#[derive(Clone, Default)]
pub struct Renderers(Option<Arc<FindRenderer>>);

impl fmt::Debug for Renderers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renderers").finish_non_exhaustive()
    }
}

impl Renderers {
    /// Creates the renderers from `find`, which looks them up by name: `block:KIND` and `fence:LANGUAGE`.
    pub fn new(find: impl Fn(&str) -> Option<Arc<dyn Renderer>> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(find)))
    }

    /// Whether a renderer exists for fences with this info string.
    pub(crate) fn has_fence(&self, info: &str) -> bool {
        self.of_fence(info).is_some()
    }

    /// Rows of a fence; `None` if it is drawn as code.
    pub(crate) fn fence(&self, info: &str, text: &str, width: usize) -> Option<Vec<Row>> {
        drawn(&*self.of_fence(info)?, text, width)
    }

    /// Rows of a closed plugin block; `None` if it is drawn as text.
    pub(crate) fn block(&self, block: &Block, width: usize) -> Option<Vec<Row>> {
        let (Content::Plugin(plugin), Some(find)) = (&block.content, &self.0) else { return None };
        let renderer = find(&format!("block:{}", plugin.kind.as_str()))?;
        let lines: Vec<&str> = plugin.body.lines.iter().map(|line| line.as_str()).collect();
        let body = drawn(&*renderer, &lines.join("\n"), width)?;
        let title = Some(plugin.title.as_str()).filter(|title| !title.is_empty());
        Some(
            title
                .map(|title| Row::of(Style::BOLD, &format!("{MARGIN}{title}")))
                .into_iter()
                .chain(body)
                .collect(),
        )
    }

    fn of_fence(&self, info: &str) -> Option<Arc<dyn Renderer>> {
        let language = info.split([' ', ',', '{', '\t']).next().filter(|language| !language.is_empty())?;
        self.0.as_ref()?(&format!("fence:{}", language.to_ascii_lowercase()))
    }
}

/// Rows that a renderer returns, if they are within the limits.
fn drawn(renderer: &dyn Renderer, text: &str, width: usize) -> Option<Vec<Row>> {
    if text.len() > RenderInput::MAX_BYTES {
        return None;
    }
    // A panic in a foreign renderer must not end the screen.
    let rendered =
        catch_unwind(AssertUnwindSafe(|| renderer.render(&RenderInput { text, width }))).ok()??;
    if rendered.len() > RenderInput::MAX_ROWS {
        return None;
    }
    let rows: Vec<Row> = rendered.iter().map(row).collect();
    rows.iter().all(|row| row.columns() <= width).then_some(rows)
}

fn row(rendered: &RenderedRow) -> Row {
    let mut row = Row::default();
    for RenderedSpan { text, role, bold } in &rendered.spans {
        let style = match role {
            SpanRole::Plain => Style::PLAIN,
            SpanRole::Faint => Style::DIM,
            SpanRole::Good => Style::GREEN,
            SpanRole::Bad => Style::RED,
            SpanRole::Warning => Style::YELLOW,
            SpanRole::Work => Style::CYAN,
        };
        row.push(Span::new(Style { bold: *bold, ..style }, text));
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Of(fn(&RenderInput<'_>) -> Option<Vec<RenderedRow>>);

    impl Renderer for Of {
        fn render(&self, input: &RenderInput<'_>) -> Option<Vec<RenderedRow>> {
            (self.0)(input)
        }
    }

    fn fence(render: fn(&RenderInput<'_>) -> Option<Vec<RenderedRow>>, text: &str) -> Option<Vec<String>> {
        let renderers =
            Renderers::new(move |name| (name == "fence:bars").then(|| Arc::new(Of(render)) as Arc<_>));
        let rows = renderers.fence("Bars title=x", text, 20)?;
        Some(rows.iter().map(Row::text).collect())
    }

    #[test]
    fn a_renderer_draws_its_fence_and_nothing_that_a_terminal_would_act_on() {
        let draw: fn(&RenderInput<'_>) -> Option<Vec<RenderedRow>> =
            |input| Some(vec![RenderedRow::of(SpanRole::Work, &format!("{}\u{1b}[2J\n!", input.text))]);
        assert_eq!(fence(draw, "two"), Some(vec!["two !".to_owned()]));
    }

    #[test]
    fn a_renderer_that_fails_or_exceeds_limits_falls_back_to_the_default() {
        assert_eq!(fence(|_| None, "x"), None);
        assert_eq!(fence(|_| Some(vec![RenderedRow::default(); RenderInput::MAX_ROWS + 1]), "x"), None);
        assert_eq!(fence(|_| Some(vec![RenderedRow::of(SpanRole::Plain, &"x".repeat(21))]), "x"), None);
        assert_eq!(fence(|_| Some(Vec::new()), &"x".repeat(RenderInput::MAX_BYTES + 1)), None);
        assert_eq!(
            fence(|input| Some(vec![RenderedRow::of(SpanRole::Plain, input.text.get(9..)?)]), "x"),
            None
        );
    }

    #[test]
    fn a_renderer_that_panics_costs_its_own_rows_only() {
        assert_eq!(fence(|_| panic!("of somebody else"), "x"), None);
    }
}
