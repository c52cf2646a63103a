use serde::{Deserialize, Serialize};
use zk_core::service::{ApprovalCard, PendingQuestion, Question, QuestionDigest, QuestionId};

use crate::{SubAgent, Text};

/// A question that waits for the person, as structured data to draw.
///
/// Commands that will run are drawn by `Approval::sections`, which shows invisible characters as code points
/// and takes none out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Card {
    /// The id of the question.
    pub id: QuestionId,
    /// The digest of what is shown: an answer carries it back.
    pub digest: QuestionDigest,
    /// The sub-agent that asks; nothing for the conversation's own agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<SubAgent>,
    /// The question.
    pub question: Question,
    /// The words of a question about a call: its title, what will run, why it is asked, and every choice with its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<ApprovalCard>>,
}

impl Card {
    pub(crate) fn of(pending: &PendingQuestion) -> Self {
        let origin = &pending.origin;
        let agent =
            (origin.depth > 0).then(|| SubAgent { name: Text::line(&origin.agent), depth: origin.depth });
        let approval = match &pending.question {
            Question::Approve(approval) => Some(Box::new(approval.card())),
            Question::Confirm { .. }
            | Question::Trust(_)
            | Question::Select { .. }
            | Question::Input { .. } => None,
        };
        Self { id: pending.id, digest: pending.digest, agent, question: pending.question.clone(), approval }
    }
}
