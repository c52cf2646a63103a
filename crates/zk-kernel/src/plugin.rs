use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::scope::ScopeInner;
use super::{BoxError, Bus, Scope, Source};
use crate::failure::catch::catch;

/// A bundle of handlers, items and services. All parts of an agent are plugins, the harness's own included.
///
/// `register` must only register. A plugin that needs I/O first does it in an async constructor or in a
/// warm-up event.
///
/// ```
/// use zk_kernel::{BoxError, Bus, Event, Notify, Plugin, Scope};
///
/// #[derive(serde::Serialize)]
/// struct TurnAfter {
///     turn: u32,
/// }
///
/// impl Event for TurnAfter {
///     const NAME: &'static str = "turn:after";
///     type Reply = ();
///     type Mode = Notify;
/// }
///
/// struct Count;
///
/// impl Plugin for Count {
///     fn name(&self) -> &str {
///         "count"
///     }
///
///     fn register(&self, scope: &Scope) -> Result<(), BoxError> {
///         scope.on_sync(|ev: &TurnAfter, _| eprintln!("turn {} done", ev.turn));
///         Ok(())
///     }
/// }
///
/// let bus = Bus::new();
/// bus.install(&Count).unwrap();
/// assert!(bus.install(&Count).is_err(), "a name is taken once");
/// ```
pub trait Plugin: Send + Sync {
    /// Returns the name, which becomes the source of all its registrations.
    fn name(&self) -> &str;
    /// Registers handlers, observers, items and clean-ups through `scope`.
    ///
    /// # Errors
    /// Any cause for which the plugin is unusable; its registrations are removed again then.
    fn register(&self, scope: &Scope) -> Result<(), BoxError>;
}

/// Creates a plugin from a function.
pub fn plugin_fn<F>(name: impl Into<String>, register: F) -> impl Plugin
where
    F: Fn(&Scope) -> Result<(), BoxError> + Send + Sync,
{
    PluginFn(name.into(), register)
}

struct PluginFn<F>(String, F);

impl<F: Fn(&Scope) -> Result<(), BoxError> + Send + Sync> Plugin for PluginFn<F> {
    fn name(&self) -> &str {
        &self.0
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        (self.1)(scope)
    }
}

/// Failure to install a plugin.
#[derive(Debug)]
pub enum InstallError {
    /// Another plugin of this name is installed.
    Duplicate {
        /// Name of both plugins.
        name: Source,
        /// Location of the existing installation.
        first: &'static Location<'static>,
    },
    /// The plugin's `register` failed.
    Register {
        /// Name of the plugin.
        name: Source,
        /// Cause of the failure.
        error: BoxError,
    },
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { name, first } => {
                write!(f, "a plugin called `{name}` is installed already (at {first}); close its scope first")
            }
            Self::Register { name, error } => write!(f, "plugin `{name}` did not register: {error}"),
        }
    }
}

impl std::error::Error for InstallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Duplicate { .. } => None,
            Self::Register { error, .. } => error.source(),
        }
    }
}

impl Bus {
    /// Creates a scope for `plugin` and calls its `register`.
    ///
    /// # Errors
    /// [`InstallError`] when the name is taken or `register` fails; nothing stays registered then.
    #[track_caller]
    pub fn install(&self, plugin: &dyn Plugin) -> Result<Scope, InstallError> {
        let location = Location::caller();
        let name = Source::new(plugin.name());
        let scope = {
            let mut scopes = self.scopes();
            let duplicate = |scope: &Arc<ScopeInner>| scope.installed_at().filter(|_| scope.source == name);
            if let Some(first) = scopes.iter().find_map(duplicate) {
                return Err(InstallError::Duplicate { name, first });
            }
            if self.is_closed() {
                let error = "the bus is closed; install it on an open one".into();
                return Err(InstallError::Register { name, error });
            }
            let inner = Arc::new(ScopeInner::of_plugin(self, name.clone(), location));
            scopes.push(inner.clone());
            Scope::from_inner(inner)
        };
        let registered = catch(|| plugin.register(&scope))
            .unwrap_or_else(|message| Err(format!("it panicked: {message}").into()));
        match registered {
            Ok(()) => {
                scope.commit_install();
                Ok(scope)
            }
            Err(error) => {
                scope.close_in_background();
                Err(InstallError::Register { name, error })
            }
        }
    }
}
