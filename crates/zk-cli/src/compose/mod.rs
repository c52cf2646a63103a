pub(crate) mod agents;
pub(crate) mod backends;
pub(crate) mod behavior;
pub(crate) mod bundles;
pub(crate) mod compaction;
pub(crate) mod extensions;
pub(crate) mod hooks;
mod host_options;
pub(crate) mod mcp;
pub(crate) mod prompt;
mod reachable_files;
pub(crate) mod session_switch;
pub(crate) mod sessions;
pub(crate) mod skills;
#[cfg(feature = "otel")]
pub(crate) mod telemetry;

use std::sync::Arc;
use std::time::Duration;

use zk_agent::{Agent, ErrorFormatter, RetryPolicy, Retrying};
use zk_auth::OAuthRefresh;
use zk_core::kernel::{Bus, Cx, HookError, HookOptions, Plugin, Reach};
use zk_core::model::{AgentError, Model, ThinkingRequest};
use zk_core::service::{
    Exec, Lease, OutsideExec, OutsideFiles, PluginSettings, Provider, Questions, Trust, Ui,
};
use zk_exec::{ContextName, Environment, LocalPlugin, ProcessExec, SandboxExec, Supervision};
use zk_permission::{Mode, PermissionGate};
use zk_protocols::ProtocolsPlugin;
use zk_providers::select::{SelectedEndpoint, split_thinking_level};
use zk_providers::settings::RetrySettings;
use zk_providers::{Http, SetupError, VendorDialect};
use zk_session::DumpFiles;
use zk_tools::{PlanModes, Presence, RedactResults, ToolsOptions, ToolsPlugin, VisibleTags};
use zk_tui::TableFences;

pub(crate) use self::host_options::HostOptions;
pub(crate) use self::reachable_files::files;
use self::reachable_files::outside_files;
use crate::app::{AppContext, Layer, Machine, Shared, Workplace};
use crate::containment::{self, ConfiguredSandboxes};
use crate::credentials;
use crate::exit::{Failure, Outcome};
use crate::sessions::Session;
use crate::settings::Settings;
use crate::{commands, parts, place, policy, sandbox, select};
use zk_chat::walls::{self, Containment, Sandboxes as _};
use zk_chat::{JobRows, PersonExec, PlanWays};

/// Longest wait for the provider's description of a model.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Creates a bus with all plugins of zk. The model is not part of it.
pub(crate) async fn bus(app: &AppContext, session: &Session, host: HostOptions) -> Outcome<Bus> {
    let notices = app.work.machine.notices.clone();
    let bus = Bus::builder().on_error(move |error: &HookError| notices.show(&error.to_string())).build();
    match install_all(app, &bus, session, host) {
        Ok(()) => Ok(bus),
        Err(failure) => {
            // Closing the bus ends plugins that were already running.
            bus.close().await;
            Err(failure)
        }
    }
}

fn install_all(app: &AppContext, bus: &Bus, session: &Session, host: HostOptions) -> Outcome<()> {
    // Plugins read their settings while they are installed.
    bus.scope("settings").provide_service::<dyn PluginSettings>(Arc::new(app.settings.clone()));
    let children = Environment::filtered(app.work.machine.env.without_secrets());
    let containment = containment::select(&app.work, &app.settings, host.allow_all)?;
    let context = containment.context();
    if let Some(loss) = containment.describe_loss() {
        app.work.machine.notices.show(&format!("warning: {loss}"));
    }
    let attended = host.questions.is_some();
    let (judge, private) = policy::judge(&app.work, &app.settings, &containment, attended);
    if attended && policy::can_read_outside(&app.settings) {
        let outside = outside_files(&app.work, &app.settings)?;
        bus.scope("outside-files").provide_service(Arc::new(OutsideFiles(Arc::new(outside))));
    }
    let Containment { sandbox, is_contained, for_reads, .. } = containment;
    let modes = judge.modes().clone();
    let gate = PermissionGate::new(modes.clone()).remembering(&app.work.project).advising(refusal_advice);
    let scope = bus.scope("permission-modes");
    scope.provide_service(Arc::new(modes.clone()));
    scope.provide_service::<dyn PlanModes>(Arc::new(PlanWays::new(modes.clone())));
    // Commands that leave a container run like the person's own.
    let is_in_sandbox = sandbox.is_some();
    let outside = is_in_sandbox || matches!(app.settings.context(), ContextName::Docker(_));
    let shell_bounds = sandbox.is_some().then(|| app.settings.sandbox.describe(is_contained));
    let tools = ToolsOptions {
        outside,
        person: match host.lease {
            Some(_) => Presence::Later,
            None if attended => Presence::Here,
            None => Presence::Nobody,
        },
        shell_bounds,
        ..sandbox::with_git(&app.work.machine, app.settings.tools.clone().sorted_limits())
    };
    let tools = match app.settings.limits.time() {
        Some(most) => tools.within(most),
        None => tools,
    };
    let own = person_exec(&app.settings, bus, children.clone());
    let scope = bus.scope("outside");
    let sandbox = sandbox.map(|exec| walls::watch_for_loss(&scope, exec, app.work.machine.notices.clone()));
    let rules = policy::rules(&app.work, &app.settings).0;
    let denied = walls::watch_denied_files(&bus.scope("denied-files"), rules.iter().cloned(), judge.clone());
    if let Some(sandbox) = &sandbox {
        walls::hide_in(&denied, sandbox);
    }
    if outside || sandbox.is_some() {
        // A person approved or typed each of these commands, so they may use the SSH agent.
        let environment = place::with_ssh_agent(&app.work.machine, children.clone());
        let agreed = person_exec(&app.settings, bus, environment);
        if outside {
            scope.provide_service(Arc::new(OutsideExec(agreed.clone())));
        }
        if sandbox.is_some() {
            scope.provide_service(Arc::new(PersonExec(agreed)));
        }
    }
    // Handlers are ordered by their stages, so the order of plugins does not matter for them. Plugins close
    // in reverse order.
    let mut plugins: Vec<Arc<dyn Plugin>> = Vec::new();
    #[cfg(feature = "otel")]
    plugins.extend(telemetry::plugins(app));
    plugins.push(Arc::new(local(&app.work, &app.settings, children, sandbox)?));
    plugins.extend(mcp::plugin(&app.work, &app.settings, own.clone(), host.questions.is_some()));
    plugins.push(Arc::new(backends::plugin(&app.work, &app.settings, own.clone())));
    let extensions = extensions::plugins(&app.work, &app.settings, &own);
    plugins.push(Arc::new(ToolsPlugin::new(tools)));
    plugins.push(Arc::new(ProtocolsPlugin::new(app.settings.protocols.clone())));
    plugins.extend(
        agents::worktrees::plugin(&app.work, &app.settings, own.clone(), &modes, host.allow_all)
            // Sub-agents of a leg are runs of their own, with a workspace of their own.
            .filter(|_| host.lease.is_none())
            .map(|plugin| Arc::new(plugin) as Arc<dyn Plugin>),
    );
    // Hooks come after the tools, so that a hook at the end of the conversation still finds background jobs.
    plugins.extend(hooks::plugin(&app.work, &app.settings, own, modes));
    plugins.extend::<[Arc<dyn Plugin>; 7]>([
        Arc::new(gate),
        Arc::new(judge.clone()),
        Arc::new(RedactResults::new(app.work.machine.redactor.clone())),
        Arc::new(VisibleTags),
        Arc::new(TableFences),
        Arc::new(JobRows(host.view.clone())),
        Arc::new(host.view),
    ]);
    plugins.extend(
        policy::audit(&app.work.machine, &app.settings, context)
            .map(|audit| Arc::new(audit) as Arc<dyn Plugin>),
    );
    plugins.push(Arc::new(zk_goals::Goals::new(app.settings.goals.clone())));
    if host.is_listed {
        plugins.extend(sessions::goals::listing_plugin(&app.work, &app.settings));
    }
    plugins.extend(skills::plugin(&app.work, &app.settings, attended));
    plugins.extend(
        sessions::memory::plugin(&app.work, &app.settings).map(|plugin| Arc::new(plugin) as Arc<dyn Plugin>),
    );
    #[cfg(feature = "fetch")]
    plugins.push(Arc::new(zk_tools::FetchPlugin::new(app.settings.fetch.clone())));
    plugins.extend(app.settings.compaction.plugins(app.settings.program.shorten)?);
    plugins.extend(compaction::shared_lines(&app.work, &app.settings).filter(|_| attended));
    let dump = app.settings.program.debug_dump.as_ref().map(|dir| app.work.cwd.join(dir));
    plugins.extend(dump.map(|dir| {
        let notices = app.work.machine.notices.clone();
        Arc::new(DumpFiles::new(dir, app.work.machine.redactor.clone(), move |dir, error| {
            notices.show(&format!("warning: --debug-dump: cannot write to {}: {error}", dir.display()));
        })) as Arc<dyn Plugin>
    }));
    // The commands and files of another place replace this machine's.
    plugins.push(Arc::new(place::target(app)?));
    // Without stored sessions nothing of a conversation is kept.
    let learned = compaction::learned_rules(&app.work).filter(|_| app.settings.program.sessions);
    plugins.extend(app.settings.results.policies(learned));
    plugins.extend(sessions::parts::session_parts(app, session)?);
    if attended && app.settings.skills.enabled {
        skills::watch_own(&app.work, &app.settings, bus);
    }
    let added = app.settings.additions.plugins.iter().map(|plugin| &**plugin);
    // Extensions come last, since they must not take a name of zk.
    let extensions = extensions.iter().map(|plugin| &**plugin);
    for plugin in plugins.iter().map(|plugin| &**plugin).chain(added).chain(extensions) {
        bus.install(plugin).map_err(Failure::failed)?;
    }
    // Replaces the executor for reads of the local plugin.
    let (work, settings) = (app.work.clone(), app.settings.clone());
    let start =
        move || ConfiguredSandboxes(&work, &settings).start_for_reads().map_err(|failure| failure.message);
    let (notices, unseen) = (app.work.machine.notices.clone(), walls::Unseen { denied, private });
    walls::provide_reads(bus, start, notices, judge, unseen, for_reads, is_in_sandbox);
    mcp::record(&app.work, &app.settings, bus);
    mcp::offer_skills(bus).map_err(Failure::failed)?;
    // OAuth tokens may be refreshed by sub-agents, too.
    let everywhere = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
    let notices = app.work.machine.notices.clone();
    bus.scope("credentials").on_sync_at(everywhere, move |event: &OAuthRefresh, _: &Cx| {
        if let Some(why) = &event.unsaved {
            let name = &event.provider;
            let what = "is not stored and ends with this program";
            notices.show(&format!("warning: the renewed sign-in to {name} {what}: {why}"));
        }
    });
    zk_chat::tell_unused_skills(&app.work.machine.notices, bus);
    bus.scope("trust").provide_service::<dyn Trust>(app.work.machine.trust.clone());
    if let Some(lease) = host.lease {
        bus.scope("leg").provide_service(Arc::new(lease));
    }
    if let Some(ui) = host.ui {
        bus.scope("terminal").provide_service::<dyn Ui>(ui);
    }
    if let Some(questions) = host.questions {
        bus.scope("terminal").provide_service(questions);
    }
    Ok(())
}

/// Creates the plugin for local commands and files.
fn local(
    work: &Workplace,
    settings: &Settings,
    children: Environment,
    sandbox: Option<Arc<SandboxExec>>,
) -> Outcome<LocalPlugin> {
    let local = LocalPlugin::new(children.clone(), files(work, settings)?)
        .host_files(work.machine.host_files.clone());
    Ok(match sandbox {
        Some(sandbox) => local.sandboxed(sandbox),
        None => local.running(process_exec(settings, children)),
    })
}

/// Creates an executor that runs commands as processes of the person.
pub(crate) fn process_exec(settings: &Settings, children: Environment) -> ProcessExec {
    let exec = ProcessExec::supervised(children, Supervision::of_this_program());
    exec.limited(settings.limits.limits())
}

/// Whether sub-agents may work in the background: with a person, who goes on after an answer, and in a leg, where they
/// are runs of their own. Any other run ends with its answer.
fn has_background(bus: &Bus) -> bool {
    bus.service::<Questions>().is_some() || bus.service::<Lease>().is_some()
}

/// Creates the executor of the person's own programs, such as hooks, on this host. It does not depend on the
/// context of the model's commands: those must not be able to change a hook that judges them.
fn person_exec(settings: &Settings, bus: &Bus, children: Environment) -> Arc<dyn Exec> {
    let exec = Arc::new(process_exec(settings, children));
    let closing = exec.clone();
    bus.scope("own-programs").on_close(async move || closing.close().await);
    exec
}

/// Returns advice on how to allow a call that was refused since no person could be asked.
fn refusal_advice(mode: &str) -> String {
    let short = if mode == Mode::All.name() { " (or --allow-all)" } else { "" };
    format!("to allow it, run zk with --permission-mode {mode}{short}, or start it on a terminal to be asked")
}

/// Creates the provider at an endpoint, with retries.
pub(crate) async fn provider(
    machine: &Machine,
    settings: &Settings,
    shared: &Shared,
    endpoint: &SelectedEndpoint,
) -> Outcome<Arc<dyn Provider>> {
    let provider = &endpoint.provider;
    let http = Http::new();
    let auth =
        credentials::auth(machine, settings, &provider.name, endpoint.credential.as_ref(), &http).await?;
    let said = settings.providers.get(&provider.name).cloned().unwrap_or_default();
    let connection = said.connection(endpoint, auth, settings.models(&provider.name), http);
    let mut options = said.options;
    compaction::request_server_compaction(settings, provider, &mut options)?;
    let made = match &provider.prebuilt {
        Some(ready) => Ok(ready.clone()),
        None => provider.vendor.provider_with(connection, &options),
    };
    let inner = made.map_err(|error| match error {
        SetupError::Account { .. } => {
            Failure::auth(format!("{error} with `zk auth login {}`", provider.vendor.name))
        }
        SetupError::Options { .. } => {
            let origin = settings.origin_below(&["providers", &provider.name, "options"]);
            let place = origin.map_or(String::new(), |origin| format!("{}: ", origin.place));
            Failure::usage(format!("{place}{error}"))
        }
        error => Failure::usage(error.to_string()),
    })?;
    let inner = if inner.is_retrying() {
        inner
    } else {
        Arc::new(Retrying::sharing(&shared.limits, inner, retry_policy(&said.retry)))
    };
    Ok(match &shared.provider_layer {
        Some(Layer(layer)) => layer(inner),
        None => inner,
    })
}

/// Returns the retry policy: the defaults, overridden by the settings.
fn retry_policy(said: &RetrySettings) -> RetryPolicy {
    let usual = RetryPolicy::default();
    RetryPolicy {
        retries: said.retries.unwrap_or(usual.retries),
        longest_wait: said.longest_wait.map_or(usual.longest_wait, |wait| Duration::from_secs(wait.into())),
        ..usual
    }
}

/// Selects the model: the requested one, the session's, the provider's default, or the first one of a server.
pub(crate) async fn model(
    machine: &Machine,
    settings: &Settings,
    provider: &dyn Provider,
    session: &Session,
    is_attended: bool,
) -> Outcome<Model> {
    if let Some(name) = &settings.program.model {
        let id = settings.known_providers().model_id(provider.name(), name);
        let model = describe_model(provider, &id).await;
        if let Some(unknown) = settings.known_providers().misspelt_model(provider, &model).await {
            // In an unattended run, an unlisted model is an error before it causes cost.
            if unknown.is_unlisted && !is_attended {
                return Err(Failure::usage(select::unknown_model_message(&model, &unknown)));
            }
            machine.notices.show(&format!(
                "warning: {}: {}",
                model.reference(),
                select::unlisted_model_note(&unknown)
            ));
        }
        return Ok(model);
    }
    let before = session.loaded.model.as_ref().filter(|model| model.provider == provider.name());
    if let Some(model) = before {
        return Ok(describe_model(provider, &model.model).await);
    }
    default_model_of(settings, provider).await
}

/// Describes a model. The provider's answer is only used if it comes within two seconds.
pub(crate) async fn describe_model(provider: &dyn Provider, id: &str) -> Model {
    let cx = Bus::new().cx();
    let asked = tokio::time::timeout(DESCRIBE_TIMEOUT, provider.describe_model(id, &cx));
    asked.await.unwrap_or_else(|_| provider.model(id))
}

/// Returns the provider's default model, or the first one of a server.
pub(crate) async fn default_model_of(settings: &Settings, provider: &dyn Provider) -> Outcome<Model> {
    if let Some(name) = provider.default_model() {
        let id = settings.known_providers().model_id(provider.name(), &name);
        return Ok(describe_model(provider, &id).await);
    }
    let listed = provider.list_models(&Bus::new().cx()).await.map_err(|error| {
        Failure::new(
            crate::exit::Exit::of(&error.clone().into()),
            format!("no model is named (--model), and asking for the list of models failed: {error}"),
        )
    })?;
    let name = provider.name();
    let Some(models) = listed else {
        return Err(Failure::usage(format!(
            "no model is named, and {name} does not say which it has; name one with --model"
        )));
    };
    models.into_iter().next().ok_or_else(|| {
        let next = match settings.additions.providers.vendors().named(name).map(|vendor| vendor.dialect) {
            Some(VendorDialect::Ollama) => "get one with `ollama pull NAME`",
            _ => "let it load one, or name one with --model",
        };
        Failure::usage(format!("{name} has no model yet: {next}"))
    })
}

/// Installs the sections of the system prompt.
pub(crate) fn install_sections(work: &Workplace, settings: &Settings, bus: &Bus) -> Outcome<()> {
    prompt::install_own(settings, bus)?;
    bus.install(&prompt::Appended::new(settings)).map_err(Failure::failed)?;
    bus.install(&prompt::instructions(work)).map_err(Failure::failed)?;
    prompt::install_context(work, settings, bus)?;
    zk_chat::tell_skipped_files(&work.machine.notices, bus);
    Ok(())
}

/// Builds the agent on a bus. `describe_error` says what a failed run came to, and the next step.
pub(crate) fn agent(
    app: &AppContext,
    bus: &Bus,
    provider: Arc<dyn Provider>,
    model: Model,
    session: &Session,
    describe_error: fn(&AgentError) -> String,
) -> Outcome<Agent> {
    let settings = &app.settings;
    settings.check_preset(&app.work.project)?;
    let lists = [
        ("tools.allowed", "--allowed-tools", &settings.calls.allowed),
        ("tools.disallowed", "--disallowed-tools", &settings.calls.disallowed),
    ];
    for (key, flag, names) in lists {
        let Some(why) = behavior::unknown_tool(names, bus) else { continue };
        let origin = settings.origin(key).map(|origin| origin.layer);
        if matches!(origin, Some(crate::settings::Layer::CommandLine)) {
            return Err(Failure::usage(format!("{flag}: {why}")));
        }
        app.work.machine.notices.show(&format!("warning: {key}: {why}"));
    }
    install_sections(&app.work, &app.settings, bus)?;
    // Every display of a failed run includes the next step.
    bus.scope("error-formatter").provide_service(Arc::new(ErrorFormatter::new(describe_error)));
    commands::record_prefix_breaks(bus);
    commands::record_savings(bus);
    let of_model = settings.program.model.as_deref().and_then(|name| split_thinking_level(name).1);
    let level = match (of_model, session.loaded.thinking) {
        (Some(level), _) if !thinking_is_overridden(&app.settings) => level,
        (None, Some(level)) if !thinking_is_overridden(&app.settings) => level,
        (Some(_) | None, _) => settings.program.thinking,
    };
    let (spawn, of_agents) = agents::options(app, provider.name(), has_background(bus));
    let names: Vec<&str> = spawn.agents.iter().map(|agent| &*agent.name).collect();
    parts::install(app, bus, provider.clone(), parts::named_parts(app, of_agents, &names));
    let mut builder = Agent::builder(provider)
        .bus(bus.clone())
        .model(model)
        .system(prompt::own_prompt(settings))
        .tools(behavior::tool_set(&settings.calls))
        .thinking(ThinkingRequest { level, budget: settings.run.thinking_budget })
        .behavior(behavior::behavior(settings, bus))
        .history(session.loaded.messages.clone())
        .spawn(spawn)
        .cwd(place::cwd(&app.work, &app.settings, bus));
    if let Some(entries) = session.take_restored() {
        builder = builder.restored(entries);
    }
    if let Some(open) = &session.open {
        builder = builder.session(open.id().clone());
    }
    if let Some(unfinished) = session.unfinished.clone() {
        builder = builder.continue_run(unfinished);
    }
    builder.build().map_err(|error| Failure::usage(error.to_string()))
}

/// Whether the command line or the settings request a thinking level, which overrides the session's.
pub(crate) fn thinking_is_overridden(settings: &Settings) -> bool {
    use crate::settings::Layer;
    settings.origin("thinking").is_some_and(|origin| match origin.layer {
        Layer::CommandLine | Layer::Managed | Layer::Preset | Layer::ProjectPreset => true,
        Layer::Default
        | Layer::User
        | Layer::Project
        | Layer::ProjectLocal
        | Layer::Environment
        | Layer::Kept => false,
    })
}
