use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use zk_core::events::{PartKind, PartLeftOut, SectionSize, SystemSections};
use zk_core::kernel::{BoxError, Cx, Item};
use zk_core::model::AgentError;
use zk_core::service::PromptSection;

/// How long a section may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The system prompt of a run: the agent's own, then the sections by order and id.
pub(crate) async fn system_prompt(cx: &Cx, own: &str) -> Result<String, AgentError> {
    let mut sections: Vec<_> =
        cx.items::<dyn PromptSection>().into_iter().map(|item| (item.value.order(), item)).collect();
    if sections.is_empty() {
        return Ok(own.to_owned());
    }
    sections.sort_by(|(order, item), (other_order, other)| {
        order.cmp(other_order).then_with(|| item.name.cmp(&other.name))
    });
    let texts = join_all(sections.iter().map(|(_, item)| text(item, cx))).await;
    let mut prompt = own.to_owned();
    let mut sizes = Vec::new();
    if !own.is_empty() {
        sizes.push(SectionSize { id: "system".into(), source: "zk-agent".into(), bytes: own.len() });
    }
    for ((_, item), text) in sections.iter().zip(texts) {
        match text {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => {
                if !prompt.is_empty() {
                    prompt.push_str("\n\n");
                }
                prompt.push_str(&text);
                let (id, source) = (item.name.to_string(), item.source.to_string());
                sizes.push(SectionSize { id, source, bytes: text.len() });
            }
            Err(error) => {
                let left_out = PartLeftOut {
                    kind: PartKind::PromptSection,
                    name: item.name.to_string(),
                    source: item.source.to_string(),
                    error: error.to_string(),
                };
                cx.emit(left_out).await?;
            }
        }
    }
    cx.emit(SystemSections { sections: sizes }).await?;
    Ok(prompt)
}

async fn text(section: &Item<dyn PromptSection>, cx: &Cx) -> Result<String, BoxError> {
    // The call itself is made inside, so that nothing a section does can unwind further.
    let asked = AssertUnwindSafe(async { section.value.text(cx).await }).catch_unwind();
    match tokio::time::timeout(LIMIT, asked).await {
        Ok(Ok(text)) => text,
        Ok(Err(_)) => Err("it panicked".into()),
        Err(_) => Err(format!("it took longer than {} s", LIMIT.as_secs()).into()),
    }
}
