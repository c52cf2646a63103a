//! Traces and metrics of zk by OpenTelemetry: a plugin of handlers that makes spans of what an agent does, and sends them to a
//! collector by OTLP over HTTP.
//!
//! # Example
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use zk_auth::Http;
//! use zk_otel::{OtelConfig, OtelPlugin, OtelSettings, Telemetry};
//!
//! # fn example() -> Result<(), zk_otel::OtelError> {
//! let variables = |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://127.0.0.1:4318".to_owned());
//! if let Some(config) = OtelConfig::read(&OtelSettings::default(), variables)? {
//!     let telemetry = Telemetry::start(config, Http::new(), |notice| eprintln!("{notice}"))?;
//!     let plugin = OtelPlugin::new(&telemetry);
//!     // Agent::builder(provider).plugin(plugin)
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What this crate must never know
//!
//! The steps of a turn, the formats of providers, the tools that there are, the files of settings. The environment, too: whoever
//! starts it gives the variables.

mod config;
mod error;
mod export;
mod lines;
mod log;
mod names;
mod plugin;
mod propagation;
mod record;
mod settings;
mod span_context;

pub use config::{Collector, OtelConfig, Sampling};
pub use error::OtelError;
pub use export::Telemetry;
pub use lines::{LogLevel, LogLevelError};
pub use log::EventLog;
pub use plugin::OtelPlugin;
pub use settings::OtelSettings;
pub use span_context::{parse_trace_parent, trace_parent};
