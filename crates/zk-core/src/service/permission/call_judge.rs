use std::path::Path;

use crate::model::Effects;
use crate::service::{Connections, WiderKind};

/// Decides about calls before a person is asked: by what they do, a mode and rules. `cx.service::<dyn CallJudge>()`.
///
/// The judge asks nobody. Without the service, a permission gate knows what a call says it does and nothing
/// else.
pub trait CallJudge: Send + Sync {
    /// Decides about a call of the tool `tool`, canonical, that would run in `cwd`, absolute. Calls may block for as
    /// long as the file system does.
    fn judge(&self, tool: &str, effects: &Effects, cwd: &Path) -> CallJudgement;

    /// Whether a call runs unasked for nothing but that it seems to only read: no rule, no mode and no person allows it.
    /// Such a call runs in [`ReadExec`](crate::service::ReadExec), where there is one. Calls may block as those of
    /// [`CallJudge::judge`].
    fn allows_as_read(&self, tool: &str, effects: &Effects, cwd: &Path) -> bool {
        let _ = (tool, effects, cwd);
        false
    }

    /// Whether [`CallJudge::allows_as_read`] would be true if something held what such a call starts. Calls may block as those
    /// of [`CallJudge::judge`].
    fn would_allow_as_read(&self, tool: &str, effects: &Effects, cwd: &Path) -> bool {
        self.allows_as_read(tool, effects, cwd)
    }

    /// Whether a call runs unasked for more than that it only reads: a rule, the mode or the sandbox of all commands allows
    /// it. One look at the files decides. Calls may block as those of [`CallJudge::judge`].
    fn allows_beyond_read(&self, tool: &str, effects: &Effects, cwd: &Path) -> bool {
        let _ = (tool, effects, cwd);
        true
    }

    /// Whether a call that runs unasked because it only reads does so where there is no
    /// [`ReadExec`](crate::service::ReadExec), too. Calls may block as those of [`CallJudge::judge`].
    fn allows_unheld_read(&self, tool: &str, effects: &Effects, cwd: &Path) -> bool {
        self.allows_as_read(tool, effects, cwd)
    }

    /// Connections that a call may make once it runs, where its context makes none by itself: those that a person was told
    /// of who was asked about it. Calls may block as those of [`CallJudge::judge`].
    fn connections(&self, tool: &str, effects: &Effects, cwd: &Path) -> Option<Connections> {
        let _ = (tool, effects, cwd);
        None
    }

    /// Lets what `offer` describes run from now on: until [`CallJudge::forget_session`], or in later sessions too.
    ///
    /// # Errors
    /// In words, when it cannot be stored. It holds for this session then.
    fn remember(&self, offer: &CallOffer, lasting: bool) -> Result<(), String>;

    /// Forgets what was allowed for one session only.
    fn forget_session(&self);
}

/// Says that calls of a bus and of its children which do more than read are decided on before they run: a service of the
/// plugin whose handler of [`ToolGate`](crate::events::ToolGate) does so. An agent on a bus without it takes no tool that
/// may do more than read, unless it was built unguarded.
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

/// Decision of a [`CallJudge`], with its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallJudgement {
    /// The decision.
    pub decision: CallDecision,
    /// Reasons for the decision, a line for each part of the call that had a say in it.
    pub reasons: Vec<String>,
    /// Offer to a person to allow more than this call; nothing where no rule would cover it.
    pub offer: Option<CallOffer>,
    /// The tightest permission mode in which the call would run without a question; nothing where a rule stands against
    /// it in every mode.
    pub allowed_by: Option<String>,
}

/// Decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallDecision {
    /// The call runs without a question.
    Allow,
    /// A person decides. With `by_rule` a rule wants it so, and no earlier answer counts.
    Ask {
        /// Whether a rule says so.
        by_rule: bool,
    },
    /// The call does not run, and nobody is asked.
    Deny,
}

/// Something a person can allow beyond one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOffer {
    /// Property that the allowed calls have in common.
    pub kind: WiderKind,
    /// Description of the allowed calls, in words, with one that is allowed and one that is not.
    pub describes: String,
    /// The allowed calls in a few words, such as "every `git push …`".
    pub label: String,
    /// Warning about what is allowed, where there is one.
    pub warning: Option<String>,
    /// The judge's own name of it.
    pub key: String,
}
