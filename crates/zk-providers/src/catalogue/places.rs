//! Facts that an address, or the name of a model, gives about who answers there.

/// Whether this base URL of the Gemini API has the developer service's endpoints for counting tokens and listing
/// models; Vertex has others.
pub(crate) fn gemini_counts_and_lists(base_url: &str) -> bool {
    !base_url.contains("/publishers/")
}

/// Whether this is the service that runs Ollama's models, and not somebody's own server.
pub(crate) fn is_ollama_service(base_url: &str) -> bool {
    base_url.contains("://ollama.com")
}

/// Whether Ollama's service runs this model, also when a server here passes it on.
pub(crate) fn runs_on_ollama_service(id: &str) -> bool {
    id.ends_with("-cloud") || id.ends_with(":cloud")
}
