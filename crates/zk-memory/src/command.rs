use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::SessionId;
use zk_core::service::{ArgumentChoice, Command, CommandOutcome, visible_line};

use crate::shared::Shared;
use crate::{FactFilter, FactId, FactOrigin, FactScope, NewFact, Saved, report};

/// Maximum number of facts offered as arguments.
const MAX_CHOICES: usize = 50;

/// The command `/remember`.
#[derive(Debug)]
pub(crate) struct RememberCommand(pub(crate) Arc<Shared>);

/// The command `/memory`.
#[derive(Debug)]
pub(crate) struct MemoryCommand(pub(crate) Arc<Shared>);

#[async_trait]
impl Command for RememberCommand {
    fn name(&self) -> &'static str {
        "remember"
    }

    fn help(&self) -> &'static str {
        "keep a fact for later sessions of this project; with --everywhere, of every project"
    }

    fn argument_hint(&self) -> Option<&str> {
        Some("[--everywhere] TEXT")
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let (text, scope) = match args.trim().strip_prefix("--everywhere") {
            Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => {
                (rest, FactScope::Everywhere)
            }
            _ => (args, FactScope::Project(self.0.project.clone())),
        };
        if text.trim().is_empty() {
            return Err("what is to be remembered? /remember TEXT; /memory lists what is".into());
        }
        let session = cx.service::<SessionId>().map(|id| id.to_string());
        let fact =
            NewFact { text: text.to_owned(), scope: scope.clone(), origin: FactOrigin::Person, session };
        let saved = self.0.blocking(move |store| store.keep(&fact)).await?;
        let place = scope.describe(&self.0.project);
        Ok(CommandOutcome::Show(match saved {
            Saved::New(id) => format!("kept as {id}, {place}; /memory forget {id} takes it back"),
            Saved::Known(id) => format!("it is kept already, as {id}"),
        }))
    }
}

#[async_trait]
impl Command for MemoryCommand {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn help(&self) -> &'static str {
        "what is remembered: /memory [list | show | forget | edit | why | proposed | accept | reject]"
    }

    async fn complete(&self, before: &str, _: &Cx) -> Vec<ArgumentChoice> {
        let word = before.trim();
        if word.is_empty() {
            let words = [
                ("list", "facts of this project, and of every project"),
                ("why", "facts that were recalled for the last prompt, and by which words"),
                ("proposed", "facts that wait for you"),
                ("show", "one fact"),
                ("forget", "remove a fact for good"),
                ("edit", "replace the text of a fact"),
                ("accept", "keep a proposed fact"),
                ("reject", "remove a proposed fact"),
            ];
            return words.map(|(word, note)| ArgumentChoice::new(word, note)).into();
        }
        let proposed = matches!(word, "accept" | "reject");
        if !proposed && !matches!(word, "show" | "forget" | "edit") {
            return Vec::new();
        }
        let filter = FactFilter { project: Some(self.0.project.clone()), proposed };
        let facts = self.0.blocking(move |store| store.list(&filter)).await.unwrap_or_default();
        let choice = |fact: &crate::Fact| ArgumentChoice::new(fact.id.to_string(), visible_line(&fact.text));
        facts.iter().take(MAX_CHOICES).map(choice).collect()
    }

    async fn run(&self, args: &str, cx: &Cx) -> Result<CommandOutcome, BoxError> {
        let args = args.trim();
        let (word, rest) = args.split_once(char::is_whitespace).unwrap_or((args, ""));
        let (rest, project) = (rest.trim().to_owned(), self.0.project.clone());
        let lines: Vec<String> = match word {
            "" | "list" => {
                let filter = FactFilter { project: Some(project.clone()), proposed: false };
                self.0
                    .blocking(move |store| {
                        let proposals = store.count_proposals(&project)?;
                        Ok(report::list(&store.list(&filter)?, proposals, &project))
                    })
                    .await?
            }
            "proposed" => {
                let filter = FactFilter { project: Some(project.clone()), proposed: true };
                let facts = self.0.blocking(move |store| store.list(&filter)).await?;
                report::proposals(&facts, &project)
            }
            "why" => {
                let session = cx.service::<SessionId>().map(|id| id.to_string());
                let at = project.clone();
                let last = self.0.blocking(move |store| store.last_recall(&at, session.as_deref())).await?;
                report::why(last.as_ref(), &project)
            }
            "show" => {
                let id: FactId = rest.parse()?;
                let fact = self.0.blocking(move |store| store.fact(id)).await?;
                report::show(&fact, &project)
            }
            "forget" | "reject" => {
                let id: FactId = rest.parse()?;
                let forgotten = self.0.blocking(move |store| store.forget(id)).await?;
                report::forgotten(&forgotten)
            }
            "accept" => {
                let id: FactId = rest.parse()?;
                let fact = self.0.blocking(move |store| store.accept(id)).await?;
                vec![format!("kept: {}", visible_line(&fact.text))]
            }
            "edit" => {
                let (id, text) = rest.split_once(char::is_whitespace).unwrap_or((&rest, ""));
                let (id, text): (FactId, String) = (id.parse()?, text.to_owned());
                let fact = self.0.blocking(move |store| store.edit(id, &text)).await?;
                vec![format!("{} says now: {}", fact.id, visible_line(&fact.text))]
            }
            other => {
                let given = visible_line(other);
                return Err(format!(
                    "there is no /memory {given}: list, show, forget, edit, why, proposed, accept or reject"
                )
                .into());
            }
        };
        Ok(CommandOutcome::Show(lines.join("\n")))
    }
}
