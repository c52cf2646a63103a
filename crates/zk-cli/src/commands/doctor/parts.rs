//! Checks of the models for parts of zk, and of the model that was kept for this directory.

use std::sync::Arc;

use zk_core::model::Model;
use zk_core::service::{Provider, visible_line};
use zk_providers::smaller_model;

use super::findings::{Finding, fine, warning};
use crate::app::AppContext;
use crate::{agents, compose, kept, parts, select};

/// Checks the model of each part, and proposes one if there is none.
pub(super) async fn check_parts(app: &AppContext) -> Vec<Finding> {
    let mut findings = kept_choice(app).await.into_iter().collect::<Vec<_>>();
    // Without a provider there is a failure already.
    let Ok(endpoint) = app.endpoint().await else { return findings };
    let Ok(own) = compose::provider(&app.work.machine, &app.settings, &app.shared, &endpoint).await else {
        return findings;
    };
    let (options, of_agents) = agents::options(app, own.name(), true);
    let names: Vec<&str> = options.agents.iter().map(|agent| &*agent.name).collect();
    let named = parts::named_parts(app, of_agents, &names);
    if named.is_empty() {
        findings.extend(proposal(app, &own));
        return findings;
    }
    for (part, opened) in parts::open_all(app, own, named).await {
        findings.push(match opened {
            Ok(model) => {
                let text = format!("part {part}: {}{}", model.reference(), price(&model));
                match app.settings.known_providers().unknown_model(&model) {
                    Some(unknown) => {
                        warning(visible_line(&format!("{text}: {}", select::unlisted_model_note(&unknown))))
                    }
                    None => fine(visible_line(&text)),
                }
            }
            Err(why) => warning(visible_line(&format!("part {part}: its model cannot be used: {why}"))),
        });
    }
    findings
}

/// Proposes a smaller model of the conversation's provider.
fn proposal(app: &AppContext, own: &Arc<dyn Provider>) -> Option<Finding> {
    let named = app.settings.program.model.clone().or_else(|| own.default_model())?;
    let model = own.model(&app.settings.known_providers().model_id(own.name(), &named));
    let smaller = smaller_model(&model)?;
    let name = smaller.reference();
    Some(fine(visible_line(&format!(
        "parts: each asks {}{}; {name}{} would do for summaries and other small work: `[parts]` with \
         `summary = \"{name}\"`, `compress`, `title`, `subgoal` or `explore` in your settings",
        model.reference(),
        price(&model),
        price(&smaller)
    ))))
}

fn price(model: &Model) -> String {
    let rates = model.prices.as_ref().map(|prices| prices.rates);
    rates.map_or_else(String::new, |rates| {
        format!(" (${} in, ${} out per million)", rates.input, rates.output)
    })
}

/// Reports the model that a conversation in this directory begins with, since the person chose it in an earlier one.
async fn kept_choice(app: &AppContext) -> Option<Finding> {
    let choice = match kept::choice(app) {
        Ok(choice) => choice?,
        Err(error) => {
            return Some(warning(visible_line(&format!("kept model: {error}; delete it to go on"))));
        }
    };
    let model = choice.model?;
    let name = visible_line(&model.to_string());
    Some(match kept::unusable_reason(app, &model).await {
        None => {
            fine(format!("kept model: conversations here begin with {name}, which was chosen in one before"))
        }
        Some(why) => warning(visible_line(&format!(
            "kept model: {name} was chosen here before and cannot be used, so that the usual model begins: {why}"
        ))),
    })
}
