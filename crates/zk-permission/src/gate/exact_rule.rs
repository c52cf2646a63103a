use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use zk_core::events::ToolGate;
use zk_core::kernel::Cx;
use zk_core::service::{Redactor, Trust, TrustError, TrustItem};

use super::PermissionGate;
use super::grant::{CallKey, exact_args, other_commands};

/// Maximum listed length of a remembered call, in characters; the comparison uses all of it.
const RULE_CHARS: usize = 500;

/// A call as a rule of the trust store: the tool, the arguments and the directory, exactly.
pub(super) struct ExactRule {
    trust: Arc<dyn Trust>,
    project: PathBuf,
    /// Name of the rule, which people read and revoke it by.
    name: String,
    bytes: Vec<u8>,
    cwd: String,
}

impl ExactRule {
    /// Rule that would allow exactly this call in `project`; `None` if the host remembers no calls.
    pub(super) fn of(gate: &ToolGate, key: &CallKey, project: Option<&Path>, cx: &Cx) -> Option<Self> {
        let (project, trust) = (project?.to_owned(), cx.service::<dyn Trust>()?);
        let (tool, args) = (&gate.call.name, exact_args(gate));
        let runs = other_commands(gate);
        let CallKey(bytes) = key.clone();
        let cwd = gate.place.cwd.to_str()?.to_owned();
        let shown = match runs {
            // The further commands come first, so that they are listed however long the arguments are.
            Some(runs) => format!("{tool} runs {runs} for {args}"),
            None => format!("{tool} {args}"),
        };
        let redacted = cx.service::<Redactor>().map(|redactor| redactor.redact(&shown).into_owned());
        let mut name = redacted.unwrap_or(shown);
        if let Some((at, _)) = name.char_indices().nth(RULE_CHARS) {
            name.truncate(at);
            name.push('…');
        }
        Some(Self { trust, project, name, bytes, cwd })
    }

    fn trust_item(&self) -> TrustItem<'_> {
        let kind = PermissionGate::TRUST_KIND;
        TrustItem { project: &self.project, kind, name: &self.name, bytes: &self.bytes }
    }

    pub(super) fn is_trusted(&self) -> bool {
        self.trust.is_trusted(&self.trust_item())
    }

    pub(super) async fn remember(&self) -> Result<(), TrustError> {
        self.trust.clone().approve_in_background(&self.trust_item()).await
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "exactly this call in {}, in later sessions too, but not with any other argument, in another directory or with \
             another script; \
             `zk policy list` shows it and `zk policy revoke` takes it back",
            self.cwd
        )
    }
}

/// Bytes of a remembered call: its arguments, the further commands `runs`, and the named programs and
/// scripts; `None` if the directory is not UTF-8 and so ambiguous.
pub(super) fn call_bytes(
    cwd: &Path,
    tool: &str,
    args: &Value,
    runs: Option<&Value>,
    scripts: Option<&Value>,
) -> Option<Vec<u8>> {
    let cwd = cwd.to_str()?;
    match (runs, scripts) {
        (runs, Some(scripts)) => serde_json::to_vec(&(cwd, tool, args, runs, scripts)).ok(),
        (Some(runs), None) => serde_json::to_vec(&(cwd, tool, args, runs)).ok(),
        (None, None) => serde_json::to_vec(&(cwd, tool, args)).ok(),
    }
}
