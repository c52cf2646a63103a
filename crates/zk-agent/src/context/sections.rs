use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use zk_core::events::{PartKind, PartLeftOut, SectionSize, SystemSections};
use zk_core::kernel::{BoxError, Cx, Item};
use zk_core::model::AgentError;
use zk_core::service::{PromptSection, Redactor};

/// Time limit for a section to return its text.
const SECTION_TIME_LIMIT: Duration = Duration::from_secs(5);

/// Id of the section that tells the model its role. The definition of a sub-agent replaces it together with
/// [`GUIDE_SECTION`].
pub const IDENTITY_SECTION: &str = "identity";

/// Id of the section with general working instructions.
pub const GUIDE_SECTION: &str = "guide";

/// Section of a system prompt, with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionText {
    /// Id of the section; `system` is the agent's own prompt.
    pub id: String,
    /// Source that registered the section.
    pub source: String,
    /// Text of the section.
    pub text: String,
}

/// Returns the sections of a run's system prompt: `own`, the agent's own prompt, first and unchanged, then
/// the others by order and id, redacted if the bus has a [`Redactor`]. A section that fails is left out and
/// announced as [`PartLeftOut`].
///
/// # Errors
/// [`AgentError`] when a handler of that event fails.
pub async fn section_texts(cx: &Cx, own: &str) -> Result<Vec<SectionText>, AgentError> {
    let mut sections: Vec<_> =
        cx.items::<dyn PromptSection>().into_iter().map(|item| (item.value.order(), item)).collect();
    sections.sort_by(|(order, item), (other_order, other)| {
        order.cmp(other_order).then_with(|| item.name.cmp(&other.name))
    });
    let texts = join_all(sections.iter().map(|(_, item)| text(item, cx))).await;
    let redactor = cx.service::<Redactor>();
    let mut found = Vec::new();
    if !own.is_empty() {
        found.push(SectionText { id: "system".into(), source: "zk-agent".into(), text: own.to_owned() });
    }
    for ((_, item), text) in sections.iter().zip(texts) {
        let (id, source) = (item.name.to_string(), item.source.to_string());
        match text {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => {
                // Sections contain instructions from files, which are redacted like tool results.
                let text = match &redactor {
                    Some(redactor) => redactor.redact(&text).into_owned(),
                    None => text,
                };
                found.push(SectionText { id, source, text });
            }
            Err(error) => {
                let kind = PartKind::PromptSection;
                cx.emit(PartLeftOut { kind, name: id, source, error: error.to_string() }).await?;
            }
        }
    }
    Ok(found)
}

/// Returns the system prompt of a run with an empty line between sections, and the sizes of the sections.
pub(crate) async fn system_prompt(cx: &Cx, own: &str) -> Result<(String, Vec<SectionSize>), AgentError> {
    let found = section_texts(cx, own).await?;
    let prompt = found.iter().map(|section| &*section.text).collect::<Vec<_>>().join("\n\n");
    let size = |section: SectionText| SectionSize {
        id: section.id,
        source: section.source,
        bytes: section.text.len(),
    };
    let sizes: Vec<SectionSize> = found.into_iter().map(size).collect();
    if !cx.items::<dyn PromptSection>().is_empty() {
        cx.emit(SystemSections { sections: sizes.clone() }).await?;
    }
    Ok((prompt, sizes))
}

async fn text(section: &Item<dyn PromptSection>, cx: &Cx) -> Result<String, BoxError> {
    // The section is called within the guarded future, so that its panic is caught.
    let asked = AssertUnwindSafe(async { section.value.text(cx).await }).catch_unwind();
    match tokio::time::timeout(SECTION_TIME_LIMIT, asked).await {
        Ok(Ok(text)) => text,
        Ok(Err(_)) => Err("it panicked".into()),
        Err(_) => Err(format!("it took longer than {} s", SECTION_TIME_LIMIT.as_secs()).into()),
    }
}
