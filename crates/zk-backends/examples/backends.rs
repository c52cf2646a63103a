//! The backends of a program: zk's own agent, and one that another program brings.
#![expect(clippy::print_stdout, reason = "an example shows what there is")]

use std::sync::Arc;

use zk_backends::settings::BackendSettings;
use zk_backends::{AcpBackend, AgentExecs, BackendDefinition, BackendsPlugin};
use zk_core::kernel::{BoxError, Bus};
use zk_core::service::Backend;
use zk_exec::{Environment, ProcessExec};

fn main() -> Result<(), BoxError> {
    let acp = ["npx", "-y", "some-agent@1.2.3"].map(ToOwned::to_owned).into();
    let settings = BackendSettings { acp, ..BackendSettings::default() };
    let definition = BackendDefinition::read("some", &settings, &|_| None)?;
    let plain = Arc::new(ProcessExec::new(Environment::filtered([("PATH", "/usr/bin:/bin")])));
    let backend = AcpBackend::new(definition, AgentExecs { plain, sandbox: None });
    let bus = Bus::new();
    bus.install(&BackendsPlugin::new(vec![Arc::new(backend)]))?;
    for backend in bus.items::<dyn Backend>() {
        println!("{}: {}", backend.name, backend.value.describe());
    }
    Ok(())
}
