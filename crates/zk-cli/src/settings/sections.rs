use std::collections::BTreeMap;
use std::fmt;

use zk_agent::settings::{CallSettings, PartSettings, RunSettings, SpawnSettings};
use zk_backends::settings::{BackendChoice, BackendSettings};
use zk_compaction::settings::CompactionSettings;
use zk_engine::FleetSettings;
use zk_exec::settings::{DockerSettings, LimitSettings, SandboxSettings};
use zk_goals::GoalSettings;
use zk_mcp::settings::McpSettings;
use zk_memory::MemorySettings;
use zk_permission::settings::PermissionSettings;
use zk_protocols::ProtocolSettings;
use zk_providers::settings::{ModelSettings, ProviderSettings};
use zk_settings::{MergedSettings, Schema, SettingsError};
use zk_shell::ShellSettings;
use zk_skills::settings::SkillSettings;
use zk_tools::ToolsOptions;
use zk_tools::settings::ResultSettings;
use zk_undo::UndoSettings;

use super::program::ProgramSettings;

/// Declares all sections of settings: as fields, in the schema, and for reading.
macro_rules! sections {
    ($($(#[$attribute:meta])* $field:ident: $section:ty = $table:literal,)*) => {
        /// The sections of all crates, read from the merged layers.
        #[derive(Clone, Default)]
        pub(crate) struct Sections {
            $($(#[$attribute])* pub(crate) $field: $section,)*
        }

        impl Sections {
            /// Keys of all sections.
            pub(super) fn schema() -> Schema {
                let schema = Schema::default();
                $($(#[$attribute])* let schema = schema.section::<$section>($table);)*
                schema
            }

            /// Values of all sections.
            pub(super) fn read(merged: &MergedSettings) -> Result<Self, SettingsError> {
                Ok(Self { $($(#[$attribute])* $field: merged.section($table)?,)* })
            }
        }
    };
}

impl fmt::Debug for Sections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values are not printed: headers and variables of servers may be secrets.
        f.debug_struct("Sections").finish_non_exhaustive()
    }
}

sections! {
    program: ProgramSettings = "",
    run: RunSettings = "",
    tools: ToolsOptions = "tools",
    calls: CallSettings = "tools",
    results: ResultSettings = "tools",
    protocols: ProtocolSettings = "tools",
    agents: SpawnSettings = "agents",
    parts: PartSettings = "parts",
    skills: SkillSettings = "skills",
    compaction: CompactionSettings = "compaction",
    permissions: PermissionSettings = "permissions",
    sandbox: SandboxSettings = "sandbox",
    limits: LimitSettings = "limits",
    docker: DockerSettings = "docker",
    mcp: McpSettings = "mcp",
    models: BTreeMap<String, ModelSettings> = "models",
    providers: BTreeMap<String, ProviderSettings> = "providers",
    backend: BackendChoice = "backend",
    undo: UndoSettings = "undo",
    memory: MemorySettings = "memory",
    goals: GoalSettings = "goals",
    fleet: FleetSettings = "fleet",
    shell: ShellSettings = "shell",
    backends: BTreeMap<String, BackendSettings> = "backends",
    #[cfg(feature = "otel")]
    otel: zk_otel::OtelSettings = "otel",
    #[cfg(feature = "fetch")]
    fetch: zk_tools::FetchOptions = "fetch",
}
