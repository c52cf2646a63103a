//! Fields of one chunk of a response, which has the form of a whole response.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use zk_core::model::Usage;

use super::partial_args::PartialArg;
use super::small_list::SmallList;
use crate::encode::json_str::Str;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) candidates: Option<SmallList<Candidate<'a>>>,
    pub(super) usage_metadata: Option<Counts>,
    #[serde(borrow)]
    pub(super) model_version: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) response_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) prompt_feedback: Option<Feedback<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(borrow)]
    pub(super) content: Option<Content<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) finish_message: Option<Str<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Content<'a> {
    #[serde(borrow)]
    pub(super) parts: Option<SmallList<Part<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
    pub(super) thought: Option<bool>,
    #[serde(borrow)]
    pub(super) thought_signature: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) function_call: Option<FunctionCall<'a>>,
    #[serde(borrow)]
    pub(super) inline_data: Option<InlineData<'a>>,
    pub(super) executable_code: Option<Value>,
    pub(super) code_execution_result: Option<Value>,
    pub(super) tool_call: Option<Value>,
    pub(super) tool_response: Option<Value>,
}

impl Part<'_> {
    /// Takes the content of a part for a server-side tool: the field, a display name, and the value.
    pub(super) fn take_hosted(&mut self) -> Option<(&'static str, &'static str, Value)> {
        let fields = [
            ("executableCode", "executable_code", self.executable_code.take()),
            ("codeExecutionResult", "code_execution_result", self.code_execution_result.take()),
            ("toolCall", "tool_call", self.tool_call.take()),
            ("toolResponse", "tool_response", self.tool_response.take()),
        ];
        let found = fields.into_iter().find_map(|(field, words, value)| Some((field, words, value?)));
        found.filter(|(_, _, value)| !value.is_null())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionCall<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    pub(super) args: Option<Value>,
    pub(super) partial_args: Option<Vec<PartialArg>>,
    pub(super) will_continue: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InlineData<'a> {
    #[serde(borrow)]
    pub(super) mime_type: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) data: Option<Str<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Feedback<'a> {
    #[serde(borrow)]
    pub(super) block_reason: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) block_reason_message: Option<Str<'a>>,
}

/// Token counts so far. Each chunk repeats them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    prompt_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
}

impl Counts {
    /// Fills missing counts with those of `before`.
    pub(super) fn or(self, before: Self) -> Self {
        Self {
            prompt_token_count: self.prompt_token_count.or(before.prompt_token_count),
            cached_content_token_count: self.cached_content_token_count.or(before.cached_content_token_count),
            tool_use_prompt_token_count: self
                .tool_use_prompt_token_count
                .or(before.tool_use_prompt_token_count),
            candidates_token_count: self.candidates_token_count.or(before.candidates_token_count),
            thoughts_token_count: self.thoughts_token_count.or(before.thoughts_token_count),
        }
    }

    /// Converts the counts: the prompt's include cached tokens, the candidates' do not include thoughts.
    pub(super) fn usage(self) -> Usage {
        let cached = self.cached_content_token_count.unwrap_or_default();
        let thoughts = self.thoughts_token_count.unwrap_or_default();
        let prompt = self.prompt_token_count.unwrap_or_default().saturating_sub(cached);
        Usage {
            input: prompt.saturating_add(self.tool_use_prompt_token_count.unwrap_or_default()),
            output: self.candidates_token_count.unwrap_or_default().saturating_add(thoughts),
            cache_read: cached,
            reasoning: thoughts,
            ..Usage::default()
        }
    }
}
