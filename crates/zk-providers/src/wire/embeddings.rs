//! Embeddings in OpenAI's form, which many servers have beside their chat API.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use zk_core::kernel::Cx;
use zk_core::model::ProviderError;

use crate::wire::client::ApiClient;
use crate::wire::error::WireError;
use crate::wire::request::WireRequest;

/// Path of embeddings below the base URL.
pub(crate) const EMBEDDINGS: &str = "/embeddings";

#[derive(Serialize)]
struct EmbeddingRequest<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
}

#[derive(Deserialize)]
struct EmbeddingResponse {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

/// Requests the vectors of `texts`.
pub(crate) async fn embed(
    client: &ApiClient,
    path: &'static str,
    model: &str,
    texts: &[String],
    cx: &Cx,
) -> Result<Vec<Vec<f32>>, ProviderError> {
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let request = EmbeddingRequest { model, input: texts, encoding_format: "float" };
    let request = WireRequest::json(path, &request).map_err(|error| client.error(model, error))?;
    let response = client.fetch(model, request, cx).await?;
    read(response, texts.len()).map_err(|why| client.error(model, WireError::malformed(why)))
}

/// Reads as many vectors as texts were sent, in their order and of one length.
fn read(response: Value, count: usize) -> Result<Vec<Vec<f32>>, String> {
    let response: EmbeddingResponse = serde_json::from_value(response)
        .map_err(|error| format!("the response has no embeddings: {error}"))?;
    let mut vectors = vec![Vec::new(); count];
    for Embedding { index, embedding } in response.data {
        let place = vectors.get_mut(index).ok_or_else(|| format!("an embedding for no text ({index})"))?;
        *place = embedding;
    }
    let length = vectors.first().map_or(0, Vec::len);
    if length == 0 || vectors.iter().any(|vector| vector.len() != length) {
        return Err("the embeddings are incomplete, or of different lengths".to_owned());
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn vectors_are_in_the_order_of_the_texts_and_anything_else_is_refused() {
        let one = |index: usize, vector: &[f32]| json!({"index": index, "embedding": vector, "object": "embedding"});
        let read_of = |data: Value| read(json!({"object": "list", "data": data}), 2);
        let found = read_of(json!([one(1, &[3.0, 4.0]), one(0, &[1.0, 2.0])])).unwrap();
        assert_eq!(found, [[1.0, 2.0], [3.0, 4.0]]);
        for wrong in [
            json!([one(0, &[1.0])]),
            json!([one(0, &[1.0]), one(1, &[1.0, 2.0])]),
            json!([one(0, &[1.0]), one(2, &[1.0])]),
            json!([{"index": 0, "embedding": "AAAA"}]),
            json!({"error": "no"}),
        ] {
            assert!(read_of(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
