use std::sync::Arc;

use regex_lite::Regex;
use zk_core::kernel::Scope;
use zk_core::service::{RenderInput, RenderedRow, RenderedSpan, Renderer, SpanRole};

use crate::protocol::{RendererRegistration, RowRule, RuleRole};

/// Most rules of one renderer.
const MAX_RULES: usize = 32;

/// Renderer that applies rules, since an external program cannot be asked while a frame is drawn.
pub(crate) struct ExtensionRenderer {
    rules: Vec<(Regex, SpanRole, bool)>,
}

impl ExtensionRenderer {
    pub(crate) fn provide(scope: &Scope, renderer: RendererRegistration) -> Result<(), String> {
        let RendererRegistration { name, rules } = renderer;
        if !["fence:", "block:"].iter().any(|kind| name.starts_with(kind)) {
            return Err("the name of a renderer is `fence:LANGUAGE` or `block:KIND`".to_owned());
        }
        if rules.len() > MAX_RULES {
            return Err(format!("a renderer has at most {MAX_RULES} rules"));
        }
        let rules = rules.iter().map(compile_rule).collect::<Result<Vec<_>, _>>()?;
        scope.provide::<dyn Renderer>(&name, Arc::new(Self { rules })).map_err(|error| error.to_string())
    }

    fn render_row(&self, line: &str) -> RenderedRow {
        let mut spans = vec![RenderedSpan { text: line.to_owned(), role: SpanRole::Plain, bold: false }];
        for (pattern, role, bold) in &self.rules {
            // Parts that an earlier rule coloured are kept.
            spans = spans.into_iter().flat_map(|span| split(span, pattern, *role, *bold)).collect();
        }
        RenderedRow { spans }
    }
}

fn compile_rule(rule: &RowRule) -> Result<(Regex, SpanRole, bool), String> {
    let pattern = Regex::new(&rule.matches).map_err(|error| format!("`{}`: {error}", rule.matches))?;
    let role = match rule.role {
        RuleRole::Plain => SpanRole::Plain,
        RuleRole::Faint => SpanRole::Faint,
        RuleRole::Good => SpanRole::Good,
        RuleRole::Bad => SpanRole::Bad,
        RuleRole::Warning => SpanRole::Warning,
        RuleRole::Work => SpanRole::Work,
    };
    Ok((pattern, role, rule.bold))
}

/// Splits a plain span at the matches, which become spans of their own.
fn split(span: RenderedSpan, pattern: &Regex, role: SpanRole, bold: bool) -> Vec<RenderedSpan> {
    if span.role != SpanRole::Plain || span.bold {
        return vec![span];
    }
    let plain = |text: &str| RenderedSpan { text: text.to_owned(), role: SpanRole::Plain, bold: false };
    let (mut parts, mut end) = (Vec::new(), 0);
    for found in pattern.find_iter(&span.text).filter(|found| !found.as_str().is_empty()) {
        parts.extend(span.text.get(end..found.start()).filter(|text| !text.is_empty()).map(plain));
        parts.push(RenderedSpan { text: found.as_str().to_owned(), role, bold });
        end = found.end();
    }
    parts.extend(span.text.get(end..).filter(|text| !text.is_empty()).map(plain));
    parts
}

impl Renderer for ExtensionRenderer {
    fn render(&self, input: &RenderInput<'_>) -> Option<Vec<RenderedRow>> {
        let lines: Vec<&str> = input.text.lines().collect();
        if lines.iter().any(|line| line.chars().count() > input.width) {
            return None;
        }
        Some(lines.into_iter().map(|line| self.render_row(line)).collect())
    }
}

#[cfg(test)]
mod tests {
    use zk_core::kernel::Bus;

    use super::*;

    fn rule(matches: &str, role: RuleRole) -> RowRule {
        RowRule { matches: matches.into(), role, bold: false }
    }

    #[test]
    fn the_first_rule_that_matches_colours_a_part_of_a_line() {
        let bus = Bus::new();
        let rules = vec![rule("ERROR", RuleRole::Bad), rule("[A-Z]+", RuleRole::Good)];
        let renderer = RendererRegistration { name: "fence:log".into(), rules };
        ExtensionRenderer::provide(&bus.scope("x"), renderer).unwrap();
        let renderer = bus.item::<dyn Renderer>("fence:log").unwrap();
        let rows = renderer.render(&RenderInput { text: "a ERROR b OK\nplain", width: 40 }).unwrap();
        let parts: Vec<_> = rows[0].spans.iter().map(|span| (span.text.as_str(), span.role)).collect();
        assert_eq!(
            parts,
            [
                ("a ", SpanRole::Plain),
                ("ERROR", SpanRole::Bad),
                (" b ", SpanRole::Plain),
                ("OK", SpanRole::Good)
            ]
        );
        assert_eq!(rows[1].text(), "plain");
        assert_eq!(renderer.render(&RenderInput { text: "too wide", width: 3 }), None);
    }

    #[test]
    fn a_rule_that_is_no_pattern_is_refused() {
        let renderer = RendererRegistration { name: "fence:x".into(), rules: vec![rule("(", RuleRole::Bad)] };
        assert!(ExtensionRenderer::provide(&Bus::new().scope("x"), renderer).is_err());
    }
}
