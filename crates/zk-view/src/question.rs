use serde::{Deserialize, Serialize};
use zk_core::service::{ApprovalCard, PendingQuestion, Question, QuestionDigest, QuestionId};

use crate::{SubAgent, Text};

/// Open question as structured data for a front end.
///
/// Commands that will run are drawn by `Approval::sections`, which shows invisible characters as code points
/// without removing any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Card {
    /// The id of the question.
    pub id: QuestionId,
    /// Digest of the shown question, to be returned with the answer.
    pub digest: QuestionDigest,
    /// Sub-agent that asks; `None` for the main agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<SubAgent>,
    /// The question.
    pub question: Question,
    /// Texts of a question about a call: title, command, reason, and every choice with its key.
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
