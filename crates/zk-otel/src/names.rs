//! Names of the semantic conventions for generative AI, and zk's own.

pub(crate) const OPERATION: &str = "gen_ai.operation.name";
pub(crate) const PROVIDER: &str = "gen_ai.provider.name";
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub(crate) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(crate) const RESPONSE_ID: &str = "gen_ai.response.id";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const CACHE_WRITE_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
pub(crate) const REASONING_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
pub(crate) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(crate) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(crate) const TOOL_CALL: &str = "gen_ai.tool.call.id";
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(crate) const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(crate) const TOOL_RESULT: &str = "gen_ai.tool.call.result";
pub(crate) const SYSTEM: &str = "gen_ai.system_instructions";
pub(crate) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(crate) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(crate) const STREAM: &str = "gen_ai.request.stream";
pub(crate) const ERROR_TYPE: &str = "error.type";
pub(crate) const HTTP_STATUS: &str = "http.response.status_code";
pub(crate) const EXIT_CODE: &str = "process.exit.code";

/// Error class for errors without a class of their own.
pub(crate) const OTHER_ERROR: &str = "_OTHER";

/// Tool name for a call of an unknown tool, whose own name was made up by the model.
pub(crate) const UNKNOWN_TOOL: &str = "_unknown";

pub(crate) const RUN: &str = "zk.run.id";
pub(crate) const LEG_TOKEN: &str = "zk.leg.token";
pub(crate) const LEG_ATTEMPT: &str = "zk.leg.attempt";
pub(crate) const STATUS: &str = "zk.run.status";
pub(crate) const DEPTH: &str = "zk.agent.depth";
pub(crate) const TURN: &str = "zk.turn.number";
pub(crate) const TURN_ID: &str = "zk.turn.id";
pub(crate) const COST: &str = "zk.cost.usd";
pub(crate) const EARLIER_MESSAGES: &str = "zk.session.earlier_messages";
pub(crate) const OUTCOME: &str = "zk.call.outcome";
pub(crate) const READ_ONLY: &str = "zk.call.read_only";
pub(crate) const WAIT: &str = "zk.wait.for";
pub(crate) const ANSWER: &str = "zk.wait.answer";
pub(crate) const TRIGGER: &str = "zk.compaction.trigger";
pub(crate) const STAGE: &str = "zk.compaction.stage";
pub(crate) const BEFORE: &str = "zk.compaction.before_tokens";
pub(crate) const AFTER: &str = "zk.compaction.after_tokens";
pub(crate) const ATTEMPT: &str = "zk.retry.attempt";
pub(crate) const DELAY: &str = "zk.retry.delay_ms";
pub(crate) const PURPOSE: &str = "zk.side_call.purpose";
pub(crate) const CACHE_KIND: &str = "zk.cache.kind";

/// Lines with zk's name and the conventions' name of a provider, where these differ.
const PROVIDER_NAMES: &str = include_str!("provider-names.tsv");

/// Returns the conventions' name of a provider; zk's own name if they have none.
pub(crate) fn provider(name: &str) -> &str {
    let renamed = PROVIDER_NAMES.lines().filter_map(|line| line.split_once('\t'));
    renamed.into_iter().find(|(own, _)| *own == name).map_or(name, |(_, of_conventions)| of_conventions)
}
