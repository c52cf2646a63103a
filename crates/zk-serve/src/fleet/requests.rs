use serde::{Deserialize, Serialize};
use zk_core::model::{Budget, RunId};
use zk_core::service::{
    EngineError, EngineName, EngineRun, Job, Question, RunFilter, RunPhase, StoredQuestion, UiAnswer, Wait,
};
use zk_engine::{Placement, Runs};
use zk_session::open_questions;

use super::access::FleetAccess;
use super::error::FleetError;

/// Most runs in one list.
const MAX_LISTED_RUNS: usize = 500;

/// Run that a client submits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SubmitRequest {
    prompt: String,
    run: Option<EngineName>,
    preset: Option<EngineName>,
    workspace: Option<EngineName>,
    queue: Option<EngineName>,
    #[serde(default)]
    priority: i8,
    budget: Option<BudgetRequest>,
}

/// Budget of a run that a client submits: money, tokens or both.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BudgetRequest {
    usd: Option<f64>,
    tokens: Option<u64>,
}

impl TryFrom<BudgetRequest> for Budget {
    type Error = FleetError;

    fn try_from(BudgetRequest { usd, tokens }: BudgetRequest) -> Result<Self, FleetError> {
        let is_amount = usd.is_none_or(|usd| usd > 0.0 && usd.is_finite()) && tokens != Some(0);
        let budget = Self { usd, tokens };
        if !is_amount || budget.is_unlimited() {
            return Err(FleetError::Invalid("`budget` has `usd`, `tokens` or both, above 0".to_owned()));
        }
        Ok(budget)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SteerRequest {
    text: String,
}

/// Decision about the call that a run waits with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApproveRequest {
    digest: Option<String>,
    /// Calls that the yes is for.
    #[serde(default, rename = "for")]
    scope: ApproveScope,
    #[serde(default)]
    no: bool,
    message: Option<String>,
}

/// Calls that a yes is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ApproveScope {
    /// The call of the question.
    #[default]
    Once,
    /// Equal calls of the run, too.
    Session,
    /// Equal calls of the run, too, and of later sessions of the worker that goes on.
    Always,
}

impl ApproveScope {
    fn to_answer(self) -> UiAnswer {
        match self {
            Self::Once => UiAnswer::Once,
            Self::Session => UiAnswer::Session,
            Self::Always => UiAnswer::Always,
        }
    }
}

/// Answer to a question that is no permission.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerRequest {
    text: Option<String>,
    /// Number of an option, from 1.
    choice: Option<usize>,
    #[serde(default)]
    no: bool,
}

/// Run with the answer that it was given.
#[derive(Debug, Serialize)]
pub(super) struct AnsweredRun {
    #[serde(flatten)]
    run: EngineRun,
    /// Calls that the answer allows from now on, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    granted: Option<String>,
}

/// Run with the question that it waits with.
#[derive(Debug, Serialize)]
pub(super) struct ShownRun {
    #[serde(flatten)]
    run: EngineRun,
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<StoredQuestion>,
}

/// Requests of one client, with the runs that its token gives access to.
pub(super) struct Client<'a> {
    pub(super) runs: &'a Runs,
    pub(super) access: &'a FleetAccess,
}

impl Client<'_> {
    /// Returns the tenant whose runs the client sees; `None` for all.
    fn tenant(&self) -> Result<Option<EngineName>, FleetError> {
        match self.access {
            FleetAccess::All => Ok(None),
            FleetAccess::Tenant(tenant) => Ok(Some(tenant.clone())),
            FleetAccess::Hook(_) => Err(FleetError::Forbidden),
        }
    }

    pub(super) async fn list(&self, query: &str) -> Result<Vec<EngineRun>, FleetError> {
        let mut filter =
            RunFilter { tenant: self.tenant()?, limit: Some(MAX_LISTED_RUNS), ..RunFilter::default() };
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let invalid = || FleetError::Invalid(format!("`{name}` has no such value"));
            match name {
                "phase" => {
                    let phase: RunPhase = serde_json::from_value(value.into()).map_err(|_| invalid())?;
                    filter.phases.push(phase);
                }
                "queue" => filter.queue = Some(EngineName::new(value)?),
                "limit" => {
                    let limit: usize = value.parse().map_err(|_| invalid())?;
                    filter.limit = Some(limit.min(MAX_LISTED_RUNS));
                }
                _ => return Err(FleetError::Invalid(format!("there is no parameter `{name}`"))),
            }
        }
        Ok(self.runs.engine().list(&filter).await?)
    }

    /// Returns a run that the client has access to. The run of another tenant is unknown.
    pub(super) async fn find(&self, id: &str) -> Result<EngineRun, FleetError> {
        let filter = RunFilter { tenant: self.tenant()?, ..RunFilter::run(id.into()) };
        let found = self.runs.engine().list(&filter).await?.into_iter().next();
        found.ok_or_else(|| FleetError::NoRun(id.to_owned()))
    }

    pub(super) async fn show(&self, id: &str) -> Result<ShownRun, FleetError> {
        let run = self.find(id).await?;
        let question = self.question(&run).await?;
        Ok(ShownRun { run, question })
    }

    async fn question(&self, run: &EngineRun) -> Result<Option<StoredQuestion>, FleetError> {
        let Some(Wait::Answer(entry)) = &run.wait else { return Ok(None) };
        let entries = self.runs.store().read_live(run.job.session()).await?.entries;
        let open = open_questions(&entries).into_iter().find(|(open, _)| open == entry);
        Ok(open.map(|(_, question)| question))
    }

    /// Submits a run in the directory of the server, or in the workspace that it names.
    pub(super) async fn submit(
        &self,
        request: SubmitRequest,
        cwd: &std::path::Path,
    ) -> Result<Job, FleetError> {
        let SubmitRequest { prompt, run, preset, workspace, queue, priority, budget } = request;
        let tenant = self.tenant()?;
        let budget = budget.map(Budget::try_from).transpose()?;
        let run = run.map(|run| RunId::from(run.as_str()));
        if let Some(run) = &run {
            let known = self.runs.engine().list(&RunFilter::run(run.clone())).await?.into_iter().next();
            if known.is_some_and(|known| tenant.is_some() && known.job.tenant() != tenant.as_ref()) {
                return Err(EngineError::OtherJob(run.clone()).into());
            }
        }
        let placement = Placement { run, preset, workspace, files: None, queue, priority, budget, tenant };
        Ok(self.runs.submit(cwd, &prompt, placement).await?)
    }

    pub(super) async fn steer(&self, id: &str, request: SteerRequest) -> Result<EngineRun, FleetError> {
        self.runs.steer(&self.find(id).await?, &request.text).await?;
        self.find(id).await
    }

    pub(super) async fn abort(&self, id: &str) -> Result<EngineRun, FleetError> {
        let run = self.find(id).await?;
        self.runs.cancel(&run).await?;
        self.find(id).await
    }

    /// Decides about the call that a run waits with. A yes names the digest of the call that was read.
    pub(super) async fn approve(&self, id: &str, request: ApproveRequest) -> Result<AnsweredRun, FleetError> {
        let (run, question) = self.waiting_question(id).await?;
        let answer = match (request.no, request.digest) {
            (true, _) if request.scope != ApproveScope::Once => {
                return Err(FleetError::Invalid("`no` is about the call of the question alone".to_owned()));
            }
            (true, _) => UiAnswer::No { message: request.message },
            (false, Some(digest)) if digest.eq_ignore_ascii_case(&question.digest) => {
                request.scope.to_answer()
            }
            (false, Some(_)) => return Err(FleetError::OtherDigest(question.digest)),
            (false, None) => {
                return Err(FleetError::Invalid("give the `digest` of the call, or `no`".to_owned()));
            }
        };
        let granted = question.question.granted_by(&answer).map(str::to_owned);
        self.runs.answer(&run, answer).await?;
        Ok(AnsweredRun { run: self.find(id).await?, granted })
    }

    /// Answers a question of a run that is no permission; a permission can only be refused.
    pub(super) async fn answer(&self, id: &str, request: AnswerRequest) -> Result<AnsweredRun, FleetError> {
        let (run, question) = self.waiting_question(id).await?;
        let invalid = |why: &str| Err(FleetError::Invalid(why.to_owned()));
        let answer = match (request.text, request.choice, request.no) {
            (None, None, true) => UiAnswer::No { message: None },
            (Some(text), None, false) => UiAnswer::Text { text },
            (None, Some(number), false) => match number.checked_sub(1) {
                Some(index) => UiAnswer::Choice { index },
                None => return invalid("`choice` is the number of an option, from 1"),
            },
            _ => return invalid("give one of `text`, `choice` and `no`"),
        };
        match question.question {
            Question::Approve(_) | Question::Confirm { .. } | Question::Trust(_) if !request.no => {
                return invalid("the question is about a permission: `approve` gives it");
            }
            Question::Approve(_)
            | Question::Confirm { .. }
            | Question::Trust(_)
            | Question::Select(_)
            | Question::Input { .. } => self.runs.answer(&run, answer).await?,
        }
        Ok(AnsweredRun { run: self.find(id).await?, granted: None })
    }

    /// Returns a run with the question that it waits with.
    async fn waiting_question(&self, id: &str) -> Result<(EngineRun, StoredQuestion), FleetError> {
        let run = self.find(id).await?;
        let question = self.question(&run).await?;
        Ok((run, question.ok_or_else(|| FleetError::NoQuestion(id.to_owned()))?))
    }

    /// Submits a run of a schedule now. Equal keys give one run.
    pub(super) async fn hook(&self, name: &str, key: Option<&str>) -> Result<Job, FleetError> {
        match self.access {
            FleetAccess::All => {}
            FleetAccess::Hook(hook) if hook.as_str() == name => {}
            FleetAccess::Hook(_) | FleetAccess::Tenant(_) => return Err(FleetError::Forbidden),
        }
        let plans = self.runs.engine().schedules().await?;
        let plan = plans.into_iter().find(|plan| plan.name.as_str() == name);
        let plan = plan.ok_or_else(|| FleetError::NoSchedule(name.to_owned()))?;
        Ok(self.runs.submit_scheduled(&plan, key).await?)
    }
}
