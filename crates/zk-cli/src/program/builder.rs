use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;

use zk_core::kernel::Plugin;
use zk_core::service::Provider;
use zk_providers::Vendor;

use crate::additions::Additions;
use crate::{hardening, program};

/// The `zk` program.
#[derive(Debug)]
pub struct Zk;

impl Zk {
    /// The program as it is, to which a team adds what is its own:
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

/// A `zk` with what a team adds to it.
pub struct ZkBuilder {
    additions: Additions,
}

impl fmt::Debug for ZkBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZkBuilder").field("additions", &self.additions).finish()
    }
}

impl ZkBuilder {
    /// A vendor that `--provider` can name. Its keys, its settings, `zk auth`, `zk doctor`, `zk models` and its retries
    /// work as those of the vendors zk knows; one of the same name is replaced.
    #[must_use]
    pub fn vendor(mut self, vendor: Vendor) -> Self {
        self.additions.providers.add_vendor(vendor);
        self
    }

    /// A provider that `--provider` can name, ready to be asked: it needs no address and no key. Its requests are sent
    /// again as those of the others are.
    #[must_use]
    pub fn provider(mut self, provider: impl Provider + 'static) -> Self {
        self.additions.providers.add_provider(Arc::new(provider));
        self
    }

    /// A plugin of every conversation, installed after zk's own.
    #[must_use]
    pub fn plugin(mut self, plugin: impl Plugin + 'static) -> Self {
        self.additions.plugins.push(Arc::new(plugin));
        self
    }

    /// Runs the program to its end. It has to be the first thing that `main` does: it reads the arguments of the process,
    /// and starts the process once more to supervise commands.
    #[must_use]
    pub fn run(self) -> ExitCode {
        hardening::forbid_memory_access();
        // First of all, while this process has one thread and has opened nothing.
        if zk_exec::Supervision::is_requested(std::env::args_os()) {
            return ExitCode::from(u8::from(zk_exec::run_supervisor().is_err()));
        }
        program::run(self.additions).into()
    }
}
