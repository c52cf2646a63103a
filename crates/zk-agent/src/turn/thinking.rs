use zk_core::model::{Model, ThinkingLevel, ThinkingRequest, ThinkingSupport};

use crate::ThinkingDecay;

/// Returns the reasoning request for the turn with this number, from 1. Only an exact budget decays; a budget
/// that decayed to 0 turns reasoning off.
pub(crate) fn decayed_request(
    request: ThinkingRequest,
    decay: Option<&ThinkingDecay>,
    turn: u32,
) -> ThinkingRequest {
    let (Some(base), Some(decay)) = (request.budget, decay) else { return request };
    let wanted = match decay {
        ThinkingDecay::Geometric { after_turn, .. } if turn <= *after_turn => f64::from(base),
        ThinkingDecay::Geometric { after_turn, factor, floor } => {
            let shrunk = f64::from(base) * factor.powi(i32::try_from(turn - after_turn).unwrap_or(i32::MAX));
            shrunk.max(f64::from(*floor))
        }
        ThinkingDecay::With(curve) => curve(turn, base),
    };
    // The cast turns NaN into 0 and saturates.
    let budget = wanted.clamp(0.0, f64::from(base)) as u32;
    match budget {
        0 => ThinkingRequest { level: ThinkingLevel::Off, budget: None },
        budget => ThinkingRequest { budget: Some(budget), ..request },
    }
}

/// Default output limit in tokens, reasoning included.
const MAX_OUTPUT_TOKENS: u64 = 65_536;
/// Default output limit in tokens if the model's window is not known.
const MAX_OUTPUT_UNKNOWN_WINDOW: u64 = 16_384;

/// Returns the default output limit of a response in tokens: at most two fifths of the window, since the
/// input has to fit too.
pub(crate) fn default_output_limit(model: &Model) -> u32 {
    let room =
        model.window.map_or(MAX_OUTPUT_UNKNOWN_WINDOW, |window| (window / 5 * 2).clamp(1, MAX_OUTPUT_TOKENS));
    let limit = room.min(model.max_output.unwrap_or(u64::MAX));
    u32::try_from(limit).unwrap_or(u32::MAX)
}

/// Limits the output to an exact thinking budget, if the model itself decides how much it reasons: such a
/// model has no other limit on reasoning.
pub(crate) fn output_limit(max_tokens: u32, request: ThinkingRequest, model: &Model) -> u32 {
    match (request.level, request.budget) {
        (ThinkingLevel::Adaptive, Some(budget))
            if model.capabilities.thinking == ThinkingSupport::Adaptive =>
        {
            max_tokens.min(budget)
        }
        _ => max_tokens,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn budgets(decay: &ThinkingDecay, base: u32, turns: u32) -> Vec<Option<u32>> {
        let request = ThinkingRequest { level: ThinkingLevel::High, budget: Some(base) };
        (1..=turns).map(|turn| decayed_request(request, Some(decay), turn).budget).collect()
    }

    #[test]
    fn a_geometric_decay_starts_after_its_turn_and_stops_at_its_floor() {
        let decay = ThinkingDecay::Geometric { after_turn: 5, factor: 0.5, floor: 1024 };
        let full = Some(8192);
        assert_eq!(
            budgets(&decay, 8192, 9),
            [full, full, full, full, full, Some(4096), Some(2048), Some(1024), Some(1024)]
        );
    }

    #[test]
    fn a_curve_is_clamped_between_zero_and_the_budget() {
        let wild = ThinkingDecay::With(Arc::new(|turn, base| match turn {
            1 => f64::from(base) * 2.0,
            2 => -5.0,
            _ => f64::NAN,
        }));
        assert_eq!(budgets(&wild, 100, 3), [Some(100), None, None]);
    }

    #[test]
    fn a_budget_that_decayed_to_nothing_asks_for_no_reasoning() {
        let decay = ThinkingDecay::Geometric { after_turn: 1, factor: 0.5, floor: 0 };
        let request = ThinkingRequest { level: ThinkingLevel::High, budget: Some(2048) };
        let none = ThinkingRequest { level: ThinkingLevel::Off, budget: None };
        assert_eq!(decayed_request(request, Some(&decay), 12).budget, Some(1));
        assert_eq!(decayed_request(request, Some(&decay), 13), none);
        assert_eq!(decayed_request(request, Some(&decay), 900), none);
    }

    #[test]
    fn a_response_may_fill_two_fifths_of_the_window_up_to_a_limit() {
        for (window, max_output, limit) in [
            (Some(200_000), None, 65_536),
            (Some(200_000), Some(8192), 8192),
            (Some(32_768), None, 13_106),
            (None, None, 16_384),
            (None, Some(4096), 4096),
        ] {
            let model = Model { window, max_output, ..Model::unknown("p", "m") };
            assert_eq!(default_output_limit(&model), limit, "{window:?} {max_output:?}");
        }
    }

    #[test]
    fn without_an_exact_budget_nothing_decays() {
        let decay = ThinkingDecay::Geometric { after_turn: 0, factor: 0.5, floor: 0 };
        let request = ThinkingRequest { level: ThinkingLevel::High, budget: None };
        assert_eq!(decayed_request(request, Some(&decay), 9), request);
    }
}
