use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;

use zk_core::kernel::Plugin;
use zk_core::service::{Provider, SessionStore};
use zk_engine::EngineKind;
use zk_providers::Vendor;

use crate::additions::Additions;
use crate::{hardening, program};

/// The `zk` program.
#[derive(Debug)]
pub struct Zk;

impl Zk {
    /// Creates a builder of the program, to which a team adds its own parts:
    ///
    /// ```no_run
    /// use zk_core::kernel::plugin_fn;
    /// use zk_core::events::TurnAfter;
    /// use zk_providers::{Access, Vendor, VendorDialect};
    ///
    /// fn main() -> std::process::ExitCode {
    ///     let lab = Vendor {
    ///         name: "lab",
    ///         base_url: Some("https://models.lab.example/v1"),
    ///         access: Access::Key(&["LAB_API_KEY"]),
    ///         dialect: VendorDialect::Chat("openai_compat"),
    ///         default_model: Some("lab-1"),
    ///     };
    ///     let count = plugin_fn("count", |scope| {
    ///         scope.on_sync(|turn: &TurnAfter, _| eprintln!("turn {} done", turn.turn));
    ///         Ok(())
    ///     });
    ///     zk_cli::Zk::builder().vendor(lab).plugin(count).run()
    /// }
    /// ```
    #[must_use]
    pub fn builder() -> ZkBuilder {
        ZkBuilder { additions: Additions::default() }
    }
}

/// Builder of a `zk` with additional parts.
pub struct ZkBuilder {
    additions: Additions,
}

impl fmt::Debug for ZkBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZkBuilder").field("additions", &self.additions).finish()
    }
}

impl ZkBuilder {
    /// Adds a vendor that `--provider` can name. Keys, settings, `zk auth`, `zk doctor`, `zk models` and
    /// retries work as for built-in vendors. A vendor of the same name is replaced.
    #[must_use]
    pub fn vendor(mut self, vendor: Vendor) -> Self {
        self.additions.providers.add_vendor(vendor);
        self
    }

    /// Adds a ready provider that `--provider` can name, without an address or a key. Failed requests are
    /// retried as for other providers.
    #[must_use]
    pub fn provider(mut self, provider: impl Provider + 'static) -> Self {
        self.additions.providers.add_provider(Arc::new(provider));
        self
    }

    /// Adds a plugin to every conversation, after zk's own.
    #[must_use]
    pub fn plugin(mut self, plugin: impl Plugin + 'static) -> Self {
        self.additions.plugins.push(Arc::new(plugin));
        self
    }

    /// Keeps sessions in this store in place of SQLite files, unless the settings name one.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// let store = Arc::new(zk_session::MemoryStore::new());
    /// zk_cli::Zk::builder().store(store).run();
    /// ```
    #[must_use]
    pub fn store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.additions.session_store = Some(store);
        self
    }

    /// Adds a kind of engine for runs that outlive their worker, by the schemes of its addresses. Without it, a setting that
    /// names such an address has `zk-worker` executed.
    #[must_use]
    pub fn engine(mut self, kind: impl EngineKind + 'static) -> Self {
        self.additions.engines.push(Arc::new(kind));
        self
    }

    /// Runs the program to its end. Must be the first call in `main`: it reads the arguments of the process,
    /// and starts the process once more to supervise commands.
    #[must_use]
    pub fn run(self) -> ExitCode {
        hardening::forbid_memory_access();
        // The supervisor must start while this process has one thread and has opened nothing.
        if zk_exec::Supervision::is_requested(std::env::args_os()) {
            return ExitCode::from(u8::from(zk_exec::run_supervisor().is_err()));
        }
        program::run(self.additions).into()
    }
}
