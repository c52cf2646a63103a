//! Vectors of prompts and facts, from the embedding model that the settings name.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zk_core::kernel::Cx;
use zk_core::service::{EMBEDDINGS_PART, PartModel, PartModels, Provider, Redactor};

use crate::MemoryStore;

/// Time limit of opening the model and embedding a prompt, for which the person waits.
pub(crate) const PROMPT_LIMIT: Duration = Duration::from_millis(1_200);

/// Time limit of embedding a batch of facts, in the background.
const FACTS_LIMIT: Duration = Duration::from_secs(30);

/// Maximum number of facts in a request for vectors, and of such requests after a prompt.
const BATCH_FACTS: usize = 64;
const MAX_BATCHES: usize = 16;

/// Maximum size of the beginning of a prompt that is embedded, in bytes.
const MAX_PROMPT_BYTES: usize = 8_000;

/// Embedding model with its provider.
pub(crate) struct Embedder {
    provider: Arc<dyn Provider>,
    model: String,
    /// Name under which vectors are stored.
    pub(crate) name: String,
}

impl Embedder {
    /// Opens the embedding model that the settings name.
    pub(crate) async fn open(cx: &Cx) -> Result<Self, String> {
        let models = cx.service::<dyn PartModels>().ok_or("this program opens no models for parts")?;
        let model = match models.choose(EMBEDDINGS_PART, cx).await {
            PartModel::Own(model) => *model,
            PartModel::OfRun => return Err("the host opens no model for it".to_owned()),
            PartModel::LeftOut(why) => return Err(why),
        };
        let provider = cx.item::<dyn Provider>(&model.provider);
        let provider = provider.ok_or_else(|| format!("there is no provider `{}`", model.provider))?;
        Ok(Self { provider, model: model.id.to_string(), name: model.reference().to_string() })
    }

    /// Embeds a prompt, without the secrets in it.
    pub(crate) async fn embed_prompt(
        &self,
        prompt: &str,
        store: &MemoryStore,
        cx: &Cx,
    ) -> Result<Vec<f32>, String> {
        let clean = match cx.service::<Redactor>() {
            Some(redactor) => redactor.redact(prompt).into_owned(),
            None => store.redacted(prompt),
        };
        let end = clean.floor_char_boundary(MAX_PROMPT_BYTES);
        let text = clean.get(..end).unwrap_or_default().to_owned();
        let mut vectors = self.embed(&[text], PROMPT_LIMIT, cx).await?;
        vectors.pop().ok_or_else(|| "it gave no vector".to_owned())
    }

    /// Embeds the facts of a project that have no vector yet, and stores the vectors. Facts with secrets get none. A
    /// failure is reported at the next prompt, which asks the same model.
    pub(crate) async fn add_missing_vectors(&self, store: &Arc<MemoryStore>, project: &Path, cx: &Cx) {
        for _ in 0..MAX_BATCHES {
            let (reading, name, project) = (store.clone(), self.name.clone(), project.to_owned());
            let missing = move || reading.without_vectors(&name, &project, BATCH_FACTS);
            let Ok(Ok(mut missing)) = tokio::task::spawn_blocking(missing).await else { return };
            missing.retain(|(_, text)| store.redacted(text) == *text);
            if missing.is_empty() {
                return;
            }
            let texts: Vec<String> = missing.iter().map(|(_, text)| text.clone()).collect();
            let Ok(vectors) = self.embed(&texts, FACTS_LIMIT, cx).await else { return };
            let count = missing.len();
            let pairs: Vec<_> = missing.into_iter().zip(vectors).collect();
            let (writing, name) = (store.clone(), self.name.clone());
            let put = move || writing.put_vectors(&name, &pairs);
            // Stops here, since facts that got no vector would be sent again.
            match tokio::task::spawn_blocking(put).await {
                Ok(Ok(stored)) if stored == count => {}
                _ => return,
            }
        }
    }

    async fn embed(&self, texts: &[String], limit: Duration, cx: &Cx) -> Result<Vec<Vec<f32>>, String> {
        let asked = self.provider.embed(&self.model, texts, cx);
        match tokio::time::timeout(limit, asked).await {
            Ok(Ok(Some(vectors))) => Ok(vectors),
            Ok(Ok(None)) => Err(format!("the provider `{}` has no embeddings", self.provider.name())),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {limit:?}")),
        }
    }
}
