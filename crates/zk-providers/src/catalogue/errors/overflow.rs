//! Wordings of providers for a request that exceeds the model's window.

/// Patterns over lower-case text: `#` matches a number, `*` anything.
const OVERFLOW: &[&str] = &[
    "prompt is too long",
    "prompt too long",
    "prompt exceeds max length",
    "request_too_large",
    "input is too long for requested model",
    "exceeds the context window",
    "maximum context length of #",
    "maximum context length of (#",
    "maximum context length is # tokens",
    "maximum context length (#",
    "context window exceeded",
    "input token count*exceeds the maximum",
    "maximum prompt length is #",
    "reduce the length of the messages",
    "maximum allowed input length of #",
    "input (# tokens) is longer than the model's context length",
    "exceeds the limit of #",
    "exceeds the available context size",
    "exceed_context_size_error",
    "greater than the context length",
    "input length exceeds the context length",
    "context window exceeds limit",
    "exceeded model token limit",
    "too large for model with # maximum context length",
    "prompt has # tokens, but the configured context size",
    "range of input length should be",
    "exceeded max context length",
    "context_length_exceeded",
    "too many tokens",
    "too_many_tokens",
    "too_many_prompt_tokens",
    "token limit exceeded",
    "model_context_window_exceeded",
];

/// Lower-case phrases that precede the size of the window in tokens.
const WINDOW: &[&str] = &[
    " tokens > ",
    "maximum context length of ",
    "maximum context length is ",
    "maximum context length (",
    "maximum number of tokens allowed (",
    "maximum prompt length is ",
    "maximum allowed input length of ",
    "context length (",
    "available context size (",
    "exceeds the limit of ",
    "exceeded model token limit: ",
    "too large for model with ",
    "configured context size is ",
    "input length should be [1, ",
];

/// Words that mark a text as an error about the request rate, even if it mentions tokens.
const NOT_OVERFLOW: &[&str] = &["rate limit", "rate_limit", "too many requests", "throttl", "tokens per min"];

/// Whether an error's text says that the request exceeds the window. Only whole phrases match: a single word
/// such as "token" or "context" occurs in many other errors.
pub(crate) fn is_overflow(text: &str) -> bool {
    let text = text.to_lowercase();
    !NOT_OVERFLOW.iter().any(|word| text.contains(word))
        && OVERFLOW.iter().any(|pattern| contains_match(&text, pattern))
}

/// Returns the size of the window in tokens, if an error about it mentions that.
pub(crate) fn window(text: &str) -> Option<u64> {
    let text = text.to_lowercase();
    WINDOW.iter().find_map(|before| {
        let (_, rest) = text.split_once(before)?;
        let number = rest.trim_start_matches('(');
        let end = number.find(|c: char| !is_of_number(c)).unwrap_or(number.len());
        let digits: String = number.get(..end)?.chars().filter(char::is_ascii_digit).collect();
        digits.parse().ok()
    })
}

fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, ',' | '.' | '_')
}

/// Whether `text` contains a match of `pattern`.
pub(crate) fn contains_match(text: &str, pattern: &str) -> bool {
    let literal = pattern.split(['#', '*']).next().unwrap_or_default();
    text.match_indices(literal).any(|(at, _)| text.get(at..).is_some_and(|rest| matches_start(rest, pattern)))
}

fn matches_start(text: &str, pattern: &str) -> bool {
    let Some(at) = pattern.find(['#', '*']) else { return text.starts_with(pattern) };
    let (literal, rest) = pattern.split_at(at);
    let Some(text) = text.strip_prefix(literal) else { return false };
    match rest.strip_prefix('#') {
        Some(rest) => {
            let number = text.trim_start_matches(is_of_number);
            number.len() < text.len() && matches_start(number, rest)
        }
        None => contains_match(text, rest.strip_prefix('*').unwrap_or_default()),
    }
}
