use std::sync::Arc;

use zk_exec::Environment;
use zk_serve::{SdkArgs, SdkOptions, serve_agent_sdk};

use crate::app::{AppContext, runtime};
use crate::compose;
use crate::exit::{Exit, Failure, Outcome};
use crate::mode::Launcher;

/// Serves an Agent SDK at standard input and output; the SDK started zk in place of its own program.
pub(crate) fn agent_sdk(app: &AppContext, mut words: Vec<String>) -> Outcome<Exit> {
    let machine = &app.work.machine;
    let notices = machine.notices.clone();
    if let Some(tokens) = machine.env.text("MAX_THINKING_TOKENS") {
        // The host's flags come later and override this one.
        words.insert(0, format!("--max-thinking-tokens={tokens}"));
    }
    let args = SdkArgs::read(words);
    let to_stderr = args.has("debug-to-stderr");
    let children = Environment::filtered(machine.env.without_secrets());
    let own = Arc::new(compose::process_exec(&app.settings, children));
    let options = SdkOptions {
        cwd: app.work.cwd.clone(),
        config_dir: machine.env.path("CLAUDE_CONFIG_DIR"),
        home: machine.env.path("HOME"),
        host_files: Arc::new(machine.host_files.clone()),
        own_programs: own.clone(),
        works_elsewhere: app.settings.context().is_on_another_machine(),
        reads_session_state: machine.env.get("CLAUDE_CODE_SDK_READS_SESSION_STATE").is_some(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        redactor: machine.redactor.clone(),
        route_notices: Arc::new(move |sink| {
            if !to_stderr {
                notices.route_to(move |text| sink(text));
            }
        }),
        args,
    };
    let launcher = Arc::new(Launcher::new(app.clone()));
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let served = serve_agent_sdk(launcher, options, tokio::io::stdin(), tokio::io::stdout()).await;
        own.close().await;
        served
    });
    // A thread may still be blocked on standard input.
    runtime.leave();
    match served {
        Ok(true) => Ok(Exit::Done),
        Ok(false) => Ok(Exit::Failed),
        Err(error) => Err(Failure::failed(error)),
    }
}
