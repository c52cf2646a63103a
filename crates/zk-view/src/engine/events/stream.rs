use zk_core::events::{
    ProviderRetry, StreamIdle, StreamProvider, StreamStart, StreamText, StreamThinking, StreamToolArgs,
    ToolArgsRepaired,
};
use zk_core::kernel::Origin;

use super::{Engine, Reduce};
use crate::{Activity, AnswerEnd, Content, NoteLevel, Text};

impl Engine {
    fn count_arriving(&mut self, origin: &Origin, text: &str) {
        if origin.depth > 0 {
            self.count_agent_text(origin, text.len() as u64);
        } else if let Some(run) = &mut self.run {
            run.arriving += text.len() as u64;
        }
    }
}

impl Reduce for StreamStart {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane_and_core(origin);
        lane.begin_stream(core);
    }
}

impl Reduce for StreamText {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane_and_core(origin);
        lane.stream_text(core, &self.delta);
        engine.count_arriving(origin, &self.delta);
        engine.set_main_activity(origin, Activity::Answering);
    }
}

impl Reduce for StreamThinking {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane_and_core(origin);
        lane.stream_thinking(core, &self.delta);
        engine.count_arriving(origin, &self.delta);
        engine.set_main_activity(origin, Activity::Thinking);
    }
}

impl Reduce for StreamToolArgs {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane_and_core(origin);
        lane.stream_call(core, &self.call_id, &self.name);
        engine.count_arriving(origin, &self.delta);
        engine.set_main_activity(origin, Activity::Writing { tool: Text::line(&self.name) });
    }
}

impl Reduce for StreamProvider {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let (lane, core) = engine.lane_and_core(origin);
        lane.stream_provider(core, &self.text);
    }
}

impl Reduce for ToolArgsRepaired {
    fn reduce(&self, engine: &mut Engine, _: &Origin) {
        let text = format!("repaired characters in the arguments of {}", Text::line(&self.name));
        engine.add_note(NoteLevel::Info, &text);
    }
}

impl Reduce for StreamIdle {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let Self { idle_ms, idle_limit_ms, no_data_ms, no_data_limit_ms, .. } = *self;
        // Keep-alives arrive if data came more than a second after the silence began.
        let began = idle_ms.saturating_sub(no_data_ms);
        let keep_alives = began > 1000;
        let limit_ms = match keep_alives {
            true => idle_limit_ms,
            false => no_data_limit_ms.map_or(u64::MAX, |limit| limit + began).min(idle_limit_ms),
        };
        let model = Text::line(&self.model.to_string());
        engine.set_main_activity(origin, Activity::Silent { model, idle_ms, limit_ms, keep_alives });
    }
}

impl Reduce for ProviderRetry {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        let retry = &self.retry;
        if retry.discards {
            let (lane, core) = engine.lane_and_core(origin);
            let texts = lane.arriving_texts(core);
            // Remaining blocks come first: a screen reuses the rows of removed blocks for them.
            for text in texts.into_iter().filter(|text| origin.depth == 0 && !text.is_empty()) {
                engine.add_unstored_block(Content::Answer { text, end: AnswerEnd::SentAgain });
            }
            let (lane, core) = engine.lane_and_core(origin);
            lane.discard_turn(core);
            engine.discard_agent_text(origin);
        }
        let why = format!("{}: {}", retry.kind.as_str(), retry.message);
        let (attempt, max_attempts) = (retry.attempt, retry.max_attempts);
        // Only waits of the main agent are counted. A retry without a delay is a new request.
        if retry.delay.is_zero() {
            engine.add_note(NoteLevel::Warning, &format!("{why}; trying again"));
        } else if origin.depth > 0 && attempt <= 1 {
            let agent = Text::line(&origin.agent);
            engine.add_note(NoteLevel::Warning, &format!("{agent}: {why}; tries up to {max_attempts} times"));
        }
        let left_ms = u64::try_from(retry.delay.as_millis()).unwrap_or(u64::MAX);
        let why = Text::line(&why);
        engine.set_main_activity(origin, Activity::Retrying { why, attempt, max_attempts, left_ms });
    }
}
