use hyper::Method;
use hyper::header::HeaderMap;

use crate::rules::Dialect;

/// Endpoint that a request is for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Generate(Dialect),
    CountTokens(Dialect),
    Models(Dialect),
    Model(Dialect, String),
    /// Ollama's description of the model in the body.
    Show,
    Unknown,
}

/// Route of a request, by the end of its path, so that any base URL works.
pub(crate) fn route(method: &Method, path: &str, headers: &HeaderMap) -> Route {
    let path = path.trim_end_matches('/');
    if method == Method::POST {
        match self::method(path) {
            Some((_, "streamGenerateContent" | "generateContent")) => {
                return Route::Generate(Dialect::Gemini);
            }
            Some((_, "countTokens")) => return Route::CountTokens(Dialect::Gemini),
            Some(_) | None => {}
        }
        if path.ends_with("/messages") {
            return Route::Generate(Dialect::Anthropic);
        }
        if path.ends_with("/messages/count_tokens") {
            return Route::CountTokens(Dialect::Anthropic);
        }
        if path.ends_with("/api/chat") {
            return Route::Generate(Dialect::Ollama);
        }
        if path.ends_with("/api/show") {
            return Route::Show;
        }
        if path.ends_with("/codex/responses") {
            return Route::Generate(Dialect::Codex);
        }
        if path.ends_with("/responses") {
            return Route::Generate(Dialect::Responses);
        }
        if path.ends_with("/responses/input_tokens") {
            return Route::CountTokens(Dialect::Responses);
        }
        if path.ends_with("/chat/completions") {
            return Route::Generate(Dialect::Chat);
        }
    }
    if method == Method::GET {
        let anthropic = headers.contains_key("anthropic-version") || headers.contains_key("x-api-key");
        let google = headers.contains_key("x-goog-api-key") || path.contains("/v1beta/");
        let dialect = match (anthropic, google) {
            (true, _) => Dialect::Anthropic,
            (false, true) => Dialect::Gemini,
            (false, false) => Dialect::Chat,
        };
        if path.ends_with("/api/tags") {
            return Route::Models(Dialect::Ollama);
        }
        if path.ends_with("/models") {
            return Route::Models(dialect);
        }
        if let Some((_, id)) = path.split_once("/models/") {
            return Route::Model(dialect, id.to_owned());
        }
    }
    Route::Unknown
}

/// Model and method in a path of the Gemini API.
pub(crate) fn method(path: &str) -> Option<(&str, &str)> {
    let (model, method) = path.rsplit_once(':')?;
    let (_, model) = model.rsplit_once("models/")?;
    Some((model, method))
}
