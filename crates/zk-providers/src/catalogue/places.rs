//! Facts that follow from a base URL or from the name of a model.

/// Whether the Gemini API at this base URL has the developer service's endpoints for counting tokens and
/// listing models; those of Vertex differ.
pub(crate) fn gemini_counts_and_lists(base_url: &str) -> bool {
    !base_url.contains("/publishers/")
}

/// Whether the base URL is that of the hosted Ollama service, not of a person's own server.
pub(crate) fn is_ollama_service(base_url: &str) -> bool {
    base_url.contains("://ollama.com")
}

/// Whether the hosted Ollama service runs this model, even if a local server forwards it.
pub(crate) fn runs_on_ollama_service(id: &str) -> bool {
    id.ends_with("-cloud") || id.ends_with(":cloud")
}
