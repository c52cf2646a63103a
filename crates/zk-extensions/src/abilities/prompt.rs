use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx, Scope};
use zk_core::service::{ContextMode, ContextProducer, PromptSection};

use crate::extension::Shared;
use crate::protocol::{ContextQuery, ContextRegistration, ContextTime, SectionQuery, SectionRegistration};

/// Longest text of a section or of a producer of context, in bytes.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// Section of the system prompt with a text of the extension.
pub(crate) struct ExtensionSection {
    shared: Arc<Shared>,
    section: SectionRegistration,
}

impl ExtensionSection {
    pub(crate) fn provide(
        scope: &Scope,
        shared: &Arc<Shared>,
        section: SectionRegistration,
    ) -> Result<(), String> {
        let id = section.id.clone();
        let item = Self { shared: shared.clone(), section };
        scope.provide::<dyn PromptSection>(&id, Arc::new(item)).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl PromptSection for ExtensionSection {
    fn order(&self) -> i32 {
        self.section.order
    }

    async fn text(&self, cx: &Cx) -> Result<String, BoxError> {
        if let Some(text) = &self.section.text {
            return bounded(text.clone());
        }
        let params = SectionQuery { id: &self.section.id, run: cx.run_id() };
        let limit = self.shared.config.limits.answer;
        let value = self.shared.request("section/text", params, limit, cx).await?;
        bounded(self.shared.read::<Option<String>>("section/text", value)?.unwrap_or_default())
    }
}

/// Producer of context with a text of the extension.
pub(crate) struct ExtensionContext {
    shared: Arc<Shared>,
    context: ContextRegistration,
}

impl ExtensionContext {
    pub(crate) fn provide(
        scope: &Scope,
        shared: &Arc<Shared>,
        context: ContextRegistration,
    ) -> Result<(), String> {
        let name = context.name.clone();
        let item = Self { shared: shared.clone(), context };
        scope.provide::<dyn ContextProducer>(&name, Arc::new(item)).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl ContextProducer for ExtensionContext {
    fn mode(&self) -> ContextMode {
        match self.context.when {
            ContextTime::Prompt => ContextMode::PerQuery,
            ContextTime::Request => ContextMode::PerRequest,
        }
    }

    async fn text(&self, cx: &Cx) -> Result<Option<String>, BoxError> {
        let params = ContextQuery { name: &self.context.name, run: cx.run_id() };
        let limit = self.shared.config.limits.answer;
        let value = self.shared.request("context/text", params, limit, cx).await?;
        self.shared.read::<Option<String>>("context/text", value)?.map(bounded).transpose()
    }
}

fn bounded(text: String) -> Result<String, BoxError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("its text has {} bytes, more than {MAX_TEXT_BYTES}", text.len()).into());
    }
    Ok(text)
}
