//! Forwards allowed requests of a server to the model.

use std::time::Duration;

use zk_core::kernel::{Cx, Source};
use zk_core::model::{Block, Role};
use zk_core::service::{Question, Questions, RunControl, SideCall, UiAnswer, visible_lines};

use crate::client::{Sampled, Sampling};
use crate::config::server_config::ServerPermission;

/// Time limit for a person to allow a request.
const PERSON_TIME_LIMIT: Duration = Duration::from_secs(600);
/// Time limit for the answer of the model.
const ANSWER_TIME_LIMIT: Duration = Duration::from_secs(120);

/// Asks the model of the run of `cx`. The tokens count in that run's budget.
pub(crate) async fn sample(
    server: &str,
    policy: ServerPermission,
    asked: Sampling,
    cx: &Cx,
) -> Result<Sampled, String> {
    let run = cx.service::<dyn RunControl>();
    let run = run.ok_or("the model answers only in the middle of a call that a run of zk made")?;
    match policy {
        ServerPermission::Allow => {}
        ServerPermission::Deny => return Err(format!("the settings of MCP server {server} deny it")),
        ServerPermission::Ask => ask_permission(server, &asked, cx).await?,
    }
    let call = SideCall {
        system: asked.system,
        messages: asked.messages,
        max_tokens: Some(asked.max_tokens),
        limit: ANSWER_TIME_LIMIT,
        ..SideCall::new(&Source::new(format!("mcp:{server}")), format!("sampling of MCP server {server}"), "")
    };
    let answer = run.side_call(call).await.map_err(|error| error.to_string())?;
    Ok(Sampled { text: answer.text, model: answer.usage.model.model })
}

/// Asks a person for permission, and shows everything that the model would get.
async fn ask_permission(server: &str, asked: &Sampling, cx: &Cx) -> Result<(), String> {
    let Some(questions) = cx.service::<Questions>().filter(|questions| questions.is_attended()) else {
        return Err(format!(
            "nobody is there to allow it; `sampling = \"allow\"` in the settings of MCP server {server} does"
        ));
    };
    match questions.ask(Question::Confirm { text: question(server, asked) }, cx, PERSON_TIME_LIMIT).await {
        UiAnswer::Once => Ok(()),
        UiAnswer::No { .. } => Err("the person declined it".to_owned()),
        _ => Err("the person gave no answer".to_owned()),
    }
}

fn question(server: &str, asked: &Sampling) -> String {
    let mut lines =
        vec![format!("MCP server {server} asks your model for at most {} tokens:", asked.max_tokens)];
    let mut part = |who: &str, text: &str| {
        lines.push(format!("{who}:"));
        lines.extend(visible_lines(text).into_iter().map(|line| format!("  {line}")));
    };
    if !asked.system.is_empty() {
        part("system", &asked.system);
    }
    for message in &asked.messages {
        let who = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        for block in &message.content {
            match block {
                Block::Image(image) => part(who, &format!("[image of type {}]", image.media_type)),
                other => part(who, other.as_text().unwrap_or("[content that cannot be shown here]")),
            }
        }
    }
    lines.push("You pay for it, and the answer goes to that server. Ask the model?".to_owned());
    lines.join("\n")
}
