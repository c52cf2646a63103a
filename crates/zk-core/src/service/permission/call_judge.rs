use std::path::Path;

use crate::model::Effects;
use crate::service::{Connections, WiderKind};

/// Decides about calls by their effects, the permission mode and rules, before a person is asked:
/// `cx.service::<dyn CallJudge>()`.
///
/// The judge itself asks no person. Without this service, a permission gate knows only the declared effects
/// of a call.
pub trait CallJudge: Send + Sync {
    /// Decides about a call of `tool`, a canonical name, that would run in `cwd`, an absolute path. May block
    /// on file access.
    fn judge(&self, tool: &str, effects: &Effects, cwd: &Path) -> CallJudgement;

    /// Whether [`CallJudge::judge`] decides about such a call without waiting for the file system, so that it
    /// needs no thread of its own. False by default.
    fn is_quick(&self, effects: &Effects, cwd: &Path) -> bool {
        let _ = (effects, cwd);
        false
    }

    /// Whether a call runs without a question only because it seems read-only: no rule, no mode and no person
    /// allows it. Such a call runs in [`ReadExec`](crate::service::ReadExec), if there is one. May block like
    /// [`CallJudge::judge`].
    fn allows_as_read(&self, tool: &str, effects: &Effects, cwd: &Path) -> bool {
        let _ = (tool, effects, cwd);
        false
    }

    /// Whether [`CallJudge::allows_as_read`] would be true if all processes of such a call were confined. May
    /// block like [`CallJudge::judge`].
    fn would_allow_as_read(&self, tool: &str, effects: &Effects, cwd: &Path) -> bool {
        self.allows_as_read(tool, effects, cwd)
    }

    /// Whether a call runs without a question for another reason than being read-only: a rule, the mode or
    /// the sandbox of all commands allows it. Inspects the files once. May block like [`CallJudge::judge`].
    fn allows_beyond_read(&self, tool: &str, effects: &Effects, cwd: &Path) -> bool {
        let _ = (tool, effects, cwd);
        true
    }

    /// Whether a call that runs without a question because it is read-only also does so without a
    /// [`ReadExec`](crate::service::ReadExec). May block like [`CallJudge::judge`].
    fn allows_unheld_read(&self, tool: &str, effects: &Effects, cwd: &Path) -> bool {
        self.allows_as_read(tool, effects, cwd)
    }

    /// Returns the network connections that a call may make in an execution context that denies connections:
    /// the ones shown to the person who was asked about the call. May block like [`CallJudge::judge`].
    fn connections(&self, tool: &str, effects: &Effects, cwd: &Path) -> Option<Connections> {
        let _ = (tool, effects, cwd);
        None
    }

    /// Allows the calls that `offer` describes, until [`CallJudge::forget_session`]; if `lasting`, in later
    /// sessions too.
    ///
    /// # Errors
    /// A message, when the permission cannot be stored. It holds for this session only then.
    fn remember(&self, offer: &CallOffer, lasting: bool) -> Result<(), String>;

    /// Forgets permissions given for one session only.
    fn forget_session(&self);
}

/// Marker service: calls on this bus and its children that do more than read are decided on before they run.
/// Provided by the plugin whose handler of [`ToolGate`](crate::events::ToolGate) decides. Without it, an
/// agent rejects tools that may do more than read, unless it was built unguarded.
///
/// ```
/// use std::sync::Arc;
///
/// use zk_core::events::{Ruling, ToolGate};
/// use zk_core::kernel::{Bus, plugin_fn};
/// use zk_core::service::CallGuard;
///
/// let refuse = plugin_fn("refuse-all", |scope| {
///     scope.on_sync(|gate: &ToolGate, _| {
///         (!gate.effects.is_read_only()).then(|| Ruling::refuse("nothing is changed here"))
///     });
///     scope.provide_service(Arc::new(CallGuard));
///     Ok(())
/// });
/// let bus = Bus::new();
/// bus.install(&refuse).unwrap();
/// assert!(bus.child("sub-agent").service::<CallGuard>().is_some());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CallGuard;

/// Decision of a [`CallJudge`] about a call, with its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallJudgement {
    /// Whether the call runs, is asked about or is denied.
    pub decision: CallDecision,
    /// Reasons for the decision, one line for each part of the call that was judged.
    pub reasons: Vec<String>,
    /// Wider permission to offer to a person; `None` if no rule would cover such calls.
    pub offer: Option<CallOffer>,
    /// Tightest permission mode in which the call would run without a question; `None` if a rule prevents
    /// that in every mode.
    pub allowed_by: Option<String>,
}

/// Decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallDecision {
    /// The call runs without a question.
    Allow,
    /// A person decides.
    Ask {
        /// Whether a rule demands a person's decision, so that no earlier answer counts.
        by_rule: bool,
    },
    /// The call does not run, and no person is asked.
    Deny,
}

/// Permission for more than one call that can be offered to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOffer {
    /// Property that the permitted calls have in common.
    pub kind: WiderKind,
    /// Description of the permitted calls, with a permitted and a refused example.
    pub describes: String,
    /// The permitted calls in a few words, such as "every `git push …`".
    pub label: String,
    /// Warning about the permitted calls, if there is one.
    pub warning: Option<String>,
    /// Key of the offer within the judge.
    pub key: String,
}
