use std::borrow::Cow;

use memchr::memmem;
use zk_core::events::{ResultPatch, ToolTransform};
use zk_core::kernel::{BoxError, Cx, HookOptions, Plugin, Scope, Stage};
use zk_core::model::{Block, ToolContent};

/// Black flag emoji, which tag characters turn into the flag of a region.
const BLACK_FLAG: char = '\u{1f3f4}';
/// Tag character at the end of a flag's tags.
const END_TAG: char = '\u{e007f}';
/// Maximum number of tag characters of a flag, the end tag included.
const MAX_FLAG_TAGS: usize = 7;

/// Makes tag characters in results visible: people cannot see them, but models read them as text.
///
/// Each becomes `⟨U+E0041⟩`, for the model, the session and every observer. Flag emoji, which contain them,
/// are kept.
///
/// ```
/// use zk_core::kernel::Bus;
/// use zk_tools::VisibleTags;
///
/// let bus = Bus::new();
/// bus.install(&VisibleTags).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct VisibleTags;

impl Plugin for VisibleTags {
    fn name(&self) -> &'static str {
        "visible-tags"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.on_sync_at(HookOptions::from(Stage::Framework), |result: &ToolTransform, _: &Cx| {
            let content = with_visible_tags(&result.content)?;
            Some(ResultPatch { content: Some(content), ..ResultPatch::default() })
        });
        Ok(())
    }
}

/// Content with every tag visible; `None` if there is nothing to change.
fn with_visible_tags(content: &ToolContent) -> Option<ToolContent> {
    match content {
        ToolContent::Text(text) => match visible_tags(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(ToolContent::Text(text)),
        },
        ToolContent::Blocks(blocks) => {
            let mut changed = false;
            let blocks = blocks.iter().map(|block| match block {
                Block::Text(part) => match visible_tags(&part.text) {
                    Cow::Borrowed(_) => block.clone(),
                    Cow::Owned(text) => {
                        changed = true;
                        Block::text(text)
                    }
                },
                other => other.clone(),
            });
            let blocks = blocks.collect();
            changed.then_some(ToolContent::Blocks(blocks))
        }
    }
}

fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0000}'..='\u{e007f}')
}

pub(crate) fn visible_tags(text: &str) -> Cow<'_, str> {
    // All tag characters begin with these bytes: a quick check that rules out most texts.
    if memmem::find(text.as_bytes(), &[0xf3, 0xa0]).is_none() || !text.contains(is_tag) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_tag) {
        let (before, tags) = rest.split_at(at);
        let end = tags.find(|c| !is_tag(c)).unwrap_or(tags.len());
        let (tags, after) = tags.split_at(end);
        out.push_str(before);
        let is_flag =
            before.ends_with(BLACK_FLAG) && tags.ends_with(END_TAG) && tags.chars().count() <= MAX_FLAG_TAGS;
        if is_flag {
            out.push_str(tags);
        } else {
            tags.chars().for_each(|c| out.push_str(&format!("⟨U+{:04X}⟩", u32::from(c))));
        }
        rest = after;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_visible_and_flags_stay() {
        let england = "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}";
        for (text, shown) in [
            ("plain é 漢 🙂", "plain é 漢 🙂".to_owned()),
            ("a\u{e0068}\u{e0069}b", "a⟨U+E0068⟩⟨U+E0069⟩b".to_owned()),
            (england, england.to_owned()),
            ("\u{1f3f4}\u{e0068}", "\u{1f3f4}⟨U+E0068⟩".to_owned()),
        ] {
            assert_eq!(visible_tags(text), shown);
        }
        let long = format!("{BLACK_FLAG}{}{END_TAG}", "\u{e0041}".repeat(40));
        assert!(!visible_tags(&long).contains(is_tag), "a message is no flag");
        assert_eq!(with_visible_tags(&"plain".into()), None);
        let blocks = ToolContent::Blocks(vec![Block::text("x\u{e0041}")]);
        assert!(with_visible_tags(&blocks).unwrap().to_text().contains("⟨U+E0041⟩"));
    }
}
