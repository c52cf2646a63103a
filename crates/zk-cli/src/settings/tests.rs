use std::fs;

use secrecy::ExposeSecret;

use zk_core::service::TrustItem;

use super::*;

/// Trusts every project.
struct Everything;

/// Trusts no project.
struct Nothing;

impl Trust for Nothing {
    fn is_trusted(&self, _: &TrustItem<'_>) -> bool {
        false
    }

    fn approve(&self, _: &TrustItem<'_>) -> Result<(), zk_core::service::TrustError> {
        Ok(())
    }

    fn revoke(&self, _: &Path, _: &str, _: &str) -> Result<(), zk_core::service::TrustError> {
        Ok(())
    }
}

impl Trust for Everything {
    fn is_trusted(&self, _: &TrustItem<'_>) -> bool {
        true
    }

    fn approve(&self, _: &TrustItem<'_>) -> Result<(), zk_core::service::TrustError> {
        Ok(())
    }

    fn revoke(&self, _: &Path, _: &str, _: &str) -> Result<(), zk_core::service::TrustError> {
        Ok(())
    }
}

/// The settings of a person whose file has this text.
pub(crate) fn of_text(text: &str) -> Settings {
    Home::new().write("home/settings.toml", text).read(LayerValues::default()).unwrap().0
}

/// Warnings about a person's file with this text.
pub(crate) fn warnings_of(text: &str) -> Outcome<Vec<String>> {
    Ok(Home::new().write("home/settings.toml", text).read(LayerValues::default())?.1)
}

/// Warnings about a project's file with this text.
pub(crate) fn warnings_of_project(text: &str) -> Outcome<Vec<String>> {
    Ok(Home::new().write("project/.zk/settings.toml", text).read(LayerValues::default())?.1)
}

struct Home {
    temp: tempfile::TempDir,
    env: ProgramEnv,
}

impl Home {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("project/.zk")).unwrap();
        let env = ProgramEnv::from_iter([("ZK_HOME", temp.path().join("home").into_os_string())]);
        fs::create_dir_all(temp.path().join("home")).unwrap();
        Self { temp, env }
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.temp.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn read(&self, given: LayerValues) -> Outcome<(Settings, Vec<String>)> {
        self.read_with(given, &Everything)
    }

    fn read_with(&self, given: LayerValues, trust: &dyn Trust) -> Outcome<(Settings, Vec<String>)> {
        self.read_extra(None, given, trust)
    }

    fn read_extra(
        &self,
        extra: Option<&Path>,
        given: LayerValues,
        trust: &dyn Trust,
    ) -> Outcome<(Settings, Vec<String>)> {
        let dirs = crate::host::zk_dirs(&self.env);
        let project = self.temp.path().join("project");
        let files = &zk_exec::LocalHostFiles::new();
        Settings::read(
            &SettingsSources {
                env: &self.env,
                dirs: &dirs,
                files,
                project: &project,
                trust,
                extra,
                scope: StartScope::default(),
                additions: Additions::default(),
            },
            given,
        )
    }
}

#[test]
fn each_layer_outranks_the_one_below_and_each_value_keeps_its_origin() {
    let home = Home::new();
    home.write("home/settings.toml", "model = \"user\"\nprovider = \"anthropic\"\nmax_turns = 1\n")
        .write("project/.zk/settings.toml", "model = \"project\"\nmax_turns = 2\n")
        .write("project/.zk/settings.local.toml", "max_turns = 3\n");
    let mut given = LayerValues::default();
    given.text("system", "--system", Some("s".into()));
    let (settings, warnings) = home.read(given).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    let seen: Vec<_> = ["provider", "model", "max_turns", "system", "thinking"]
        .map(|key| settings.origin(key).unwrap().layer)
        .into();
    assert_eq!(seen, [Layer::User, Layer::Project, Layer::ProjectLocal, Layer::CommandLine, Layer::Default]);
    assert_eq!(settings.run.max_turns, Some(3));
    assert_eq!(settings.program.model.as_deref(), Some("project"));
}

#[test]
fn managed_settings_outrank_the_command_line() {
    let mut settings = Settings::empty(Additions::default());
    let mut warnings = Vec::new();
    let mut given = LayerValues::default();
    given.flag("permissions.allow_all", "--allow-all", Some(true));
    settings.add_layer(Layer::CommandLine, given, &mut warnings).unwrap();
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("managed.toml");
    fs::write(&path, "[permissions]\nallow_all = false\n").unwrap();
    settings.add_file(&zk_exec::LocalHostFiles::new(), Layer::Managed, &path, false, &mut warnings).unwrap();
    settings.read_sections().unwrap();
    assert!(!settings.permissions.allow_all);
    assert!(warnings[0].contains("overrules --allow-all"), "{warnings:?}");
}

/// Settings of an administrator, above those of a person and the flags.
fn managed(text: &str, user: &str, flags: &LayerValues) -> (Settings, Vec<String>) {
    let (mut settings, mut warnings) = (Settings::empty(Additions::default()), Vec::new());
    let temp = tempfile::tempdir().unwrap();
    let files = zk_exec::LocalHostFiles::new();
    for (layer, text) in [(Layer::User, user), (Layer::Managed, text)] {
        let path = temp.path().join("settings.toml");
        fs::write(&path, text).unwrap();
        settings.add_file(&files, layer, &path, false, &mut warnings).unwrap();
        if layer == Layer::User {
            settings.add_layer(Layer::CommandLine, flags.clone(), &mut warnings).unwrap();
        }
    }
    settings.read_sections().unwrap();
    (settings, warnings)
}

#[test]
fn nobody_goes_beyond_the_mode_that_an_administrator_sets() {
    use crate::containment::{named_mode, widest_mode};
    use zk_permission::Mode;
    let flags = |mode: &str, allow_all: Option<bool>| {
        let mut given = LayerValues::default();
        given.text("permissions.mode", "--permission-mode", Some(mode.to_owned()));
        given.flag("permissions.allow_all", "--allow-all", allow_all);
        given
    };
    let user = "[permissions]\nmode = \"all\"\n";
    for (mode, expected) in
        [("read-only", Mode::ReadOnly), ("ask", Mode::Ask), ("accept-edits", Mode::AcceptEdits)]
    {
        let text = format!("[permissions]\nmode = \"{mode}\"\n");
        let (settings, warnings) = managed(&text, user, &flags("all", Some(true)));
        // The wish of `--allow-all` loses to whoever administers the machine.
        assert_eq!(named_mode(&settings, true).unwrap(), Some(expected), "{mode}");
        assert_eq!(widest_mode(&settings), expected, "{mode}");
        assert!(
            warnings.iter().any(|warning| warning.contains("overrules --permission-mode")),
            "{warnings:?}"
        );
    }
    let (settings, _) = managed("[permissions]\nallow_all = false\n", user, &flags("all", Some(true)));
    assert_eq!(named_mode(&settings, settings.permissions.allow_all).unwrap(), Some(Mode::Ask));
    assert_eq!(widest_mode(&settings), Mode::Auto, "only what asks about nothing is forbidden");
    let (settings, _) = managed("", user, &LayerValues::default());
    assert_eq!(widest_mode(&settings), Mode::All, "a person's own settings bound nobody");
}

#[test]
fn a_mode_that_does_not_exist_is_refused_also_in_the_settings_of_an_administrator() {
    let mut settings = Settings::empty(Additions::default());
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("managed.toml");
    fs::write(&path, "[permissions]\nmode = \"yolo\"\n").unwrap();
    let files = zk_exec::LocalHostFiles::new();
    let error = settings.add_file(&files, Layer::Managed, &path, false, &mut Vec::new()).unwrap_err();
    assert!(error.message.contains("permissions.mode") && error.message.contains("yolo"), "{error}");
}

#[test]
fn a_project_cannot_redirect_requests_or_grant_permissions() {
    let home = Home::new();
    home.write(
        "project/.zk/settings.toml",
        "base_url = \"http://evil\"\napi_key = \"k\"\ncontext = \"process\"\n\
         [permissions]\nallow_all = true\nmisspelt = 1\n[providers.anthropic]\nbase_url = \"http://evil\"\n",
    )
    .write("project/.zk/settings.local.toml", "[providers.openai_compat]\napi_key = \"k\"\n");
    let (settings, warnings) = home.read(LayerValues::default()).unwrap();
    assert!(!settings.permissions.allow_all);
    assert!(!settings.lines(true).iter().any(|line| line.contains("evil") || line.contains("api_key")));
    assert_eq!(warnings.len(), 7, "{warnings:#?}");
    assert!(warnings.iter().all(|warning| warning.contains("is ignored")), "{warnings:#?}");
}

#[test]
fn an_unknown_key_is_kept_and_suggests_a_near_one() {
    let home = Home::new();
    home.write("home/settings.toml", "modle = \"x\"\n");
    let (settings, warnings) = home.read(LayerValues::default()).unwrap();
    assert!(warnings[0].contains("unknown setting `modle`; did you mean `model`?"), "{warnings:?}");
    assert_eq!(settings.merged.at(&["modle".to_owned()]).and_then(Entry::text), Some("x"));
}

#[test]
fn an_unknown_key_under_a_guarded_table_is_an_error() {
    for table in ["permissions", "policy", "sandbox"] {
        let home = Home::new();
        home.write("home/settings.toml", &format!("[{table}]\nalow_all = false\n"));
        let error = home.read(LayerValues::default()).unwrap_err();
        assert_eq!(error.exit, crate::exit::Exit::Usage);
        assert!(error.message.contains("settings.toml: unknown setting"), "{error}");
    }
}

#[test]
fn an_empty_table_says_nothing_and_leaves_what_lower_layers_say() {
    for table in ["permissions", "sandbox", "limits", "tools", "tools.budgets", "thinking_decay", "mcp"] {
        let home = Home::new();
        home.write("home/settings.toml", "[permissions]\nmode = \"ask\"\n[tools]\nread_lines = 7\n");
        home.write("more.toml", &format!("[{table}]\n"));
        let extra = home.temp.path().join("more.toml");
        let (settings, warnings) =
            home.read_extra(Some(&extra), LayerValues::default(), &Everything).unwrap();
        assert_eq!(warnings, Vec::<String>::new(), "{table}");
        assert_eq!(settings.permissions.mode, Some(zk_permission::Mode::Ask), "{table}");
        assert_eq!(settings.tools.read_lines, 7, "{table}");
    }
    let home = Home::new();
    home.write("home/settings.toml", "[permissions.mode]\n");
    assert!(home.read(LayerValues::default()).is_err(), "a text is no table");
}

#[test]
fn the_misspelt_name_of_a_guarded_table_is_an_error_and_a_strange_one_is_not() {
    for table in ["permission", "Permissions", "premissions", "sandbx", "limit", "doker"] {
        let home = Home::new();
        home.write("home/settings.toml", &format!("[{table}]\ndeny = [\"rm **\"]\n"));
        let error = home.read(LayerValues::default()).unwrap_err();
        assert!(error.message.contains(&format!("unknown setting `{table}.deny`")), "{error}");
    }
    let home = Home::new();
    home.write("home/settings.toml", "[editor]\ncolour = 1\n");
    assert_eq!(home.read(LayerValues::default()).unwrap().1.len(), 1);
}

#[test]
fn a_rule_that_is_the_name_of_a_tool_says_how_rules_about_tools_are_written() {
    for (rule, hint) in [
        ("shell", "`tool(shell)`; a rule about commands is their words"),
        ("Bash", "`tool(shell)`"),
        ("Bash(git push:*)", "such as `git push **`"),
        ("grep", "`tool(grep)`; a rule about the program is written `grep **`"),
        ("write_file", "`write(src/**)`"),
        ("fetch", "`fetch(docs.rs)`"),
        ("mcp_files_read", "`tool(mcp_files_read)`"),
        ("mcp__files__read", "`tool(mcp__files__read)`"),
        ("tool(shel)", "did you mean `tool(shell)`?"),
        ("tool(run_in_shel)", "did you mean `tool(run_in_shell)`?"),
        ("load_tools", "`tool(load_tools)`"),
    ] {
        let home = Home::new();
        home.write("home/settings.toml", &format!("[permissions]\ndeny = [\"{rule}\"]\n"));
        let error = home.read(LayerValues::default()).unwrap_err();
        assert!(error.message.contains(hint), "{rule}: {error}");
    }
    let home = Home::new();
    let rules =
        "\"tool(shell)\", \"tool(mcp__*)\", \"tool(shel*)\", \"fetch(docs.rs)\", \"grep **\", \"make\"";
    home.write("home/settings.toml", &format!("[permissions]\ndeny = [{rules}]\n"));
    assert_eq!(home.read(LayerValues::default()).unwrap().1, Vec::<String>::new());
}

#[test]
fn values_of_the_wrong_type_are_errors_that_name_the_file() {
    let tables = ["extra_body", "options", "oauth"].map(|table| format!("providers.lab.{table} = \"x\""));
    let lines = ["model = 1", "max_turns = 0", "sessions = \"no\"", "thinking = \"much\"", "preset = \"x\""];
    for line in lines.into_iter().chain(tables.iter().map(String::as_str)) {
        let home = Home::new();
        home.write("home/settings.toml", line);
        let error = home.read(LayerValues::default()).unwrap_err();
        assert!(error.message.contains("settings.toml"), "{error}");
    }
}

#[test]
fn broken_toml_is_an_error_that_says_where() {
    let home = Home::new();
    home.write("home/settings.toml", "model = \n");
    let error = home.read(LayerValues::default()).unwrap_err();
    assert!(error.message.contains("settings.toml") && error.message.contains("line 1"), "{error}");
}

#[test]
fn secrets_are_not_shown() {
    let mut home = Home::new();
    home.env = ProgramEnv::from_iter([
        ("ANTHROPIC_API_KEY", "sk-canary"),
        ("ZK_HOME", "/nonexistent/zk"),
        ("OPENAI_BASE_URL", "http://localhost:1/v1"),
    ]);
    let (settings, _) = home.read(LayerValues::default()).unwrap();
    let lines = settings.lines(true).join("\n");
    assert!(!lines.contains("canary"));
    let all = settings.table(&["providers"]);
    assert!(!format!("{settings:?}{all:?}").contains("canary"), "{settings:?}");
    let key = settings.of_provider("anthropic", "api_key").and_then(|entry| entry.key.as_ref());
    assert_eq!(key.map(ExposeSecret::expose_secret), Some("sk-canary"));
    assert!(
        lines
            .contains("providers.anthropic.api_key = \"(set, not shown)\"  # environment: ANTHROPIC_API_KEY")
    );
    assert!(lines.contains("providers.openai_compat.base_url = \"http://localhost:1/v1\""));
}

#[test]
fn a_model_is_described_by_settings_that_every_layer_can_correct() {
    let home = Home::new();
    home.write(
        "home/settings.toml",
        "[models.\"anthropic/claude-x.9\"]\nwindow = 500000\ninput = 3\noutput = 4.5\nvision = false\n\
         thinking = \"effort\"\nefforts = [\"off\", \"high=on\"]\n[models.\"openai/a/b\"]\nmax_output = 9\n",
    )
    .write("project/.zk/settings.toml", "[models.\"anthropic/claude-x.9\"]\nwindow = 250000\n");
    let (settings, warnings) = home.read(LayerValues::default()).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    let models = settings.models("anthropic");
    assert_eq!(models.ids().collect::<Vec<_>>(), ["claude-x.9"]);
    let said = models.get("claude-x.9").unwrap();
    assert_eq!((said.window, said.max_output, said.vision), (Some(250_000), None, Some(false)));
    assert_eq!((said.input, said.output, said.cache_read), (Some(3.0), Some(4.5), None));
    assert_eq!(said.thinking, Some(zk_core::model::ThinkingSupport::Effort));
    assert_eq!(said.efforts.as_ref().unwrap().value(ThinkingLevel::Low), Some("on"));
    assert_eq!(settings.models("openai").get("a/b").unwrap().max_output, Some(9));
    assert_eq!(settings.models("gemini").ids().count(), 0);
}

#[test]
fn a_model_of_a_provider_that_nobody_knows_is_told_once() {
    let home = Home::new();
    home.write(
        "home/settings.toml",
        "[models.\"antropic/b\"]\nwindow = 5\ninput = 1\n[models.\"lab/a\"]\nwindow = 5\n\
         [providers.lab]\nbase_url = \"http://h\"\n",
    );
    let (_, warnings) = home.read(LayerValues::default()).unwrap();
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(warning.contains("settings.toml") && warning.contains("[models.\"antropic/b\"]"), "{warning}");
    assert!(warning.contains("did you mean `anthropic`?"), "{warning}");
}

#[test]
fn a_provider_without_an_address_is_told_what_it_needs() {
    let home = Home::new();
    home.write("home/settings.toml", "[providers.x]\n[providers.anthropic]\n");
    let (_, warnings) = home.read(LayerValues::default()).unwrap();
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(warning.contains("[providers.x] is empty") && warning.contains("base_url"), "{warning}");
}

#[test]
fn a_server_elsewhere_is_that_of_every_way_to_ask_openai() {
    let mut home = Home::new();
    home.env = ProgramEnv::from_iter([("ZK_HOME", "/nonexistent/zk"), ("OPENAI_BASE_URL", "http://h/v1")]);
    let (settings, _) = home.read(LayerValues::default()).unwrap();
    for name in ["openai", "openai_chat", "openai_compat"] {
        let url = settings.of_provider(name, "base_url").and_then(Entry::text);
        assert_eq!(url, Some("http://h/v1"), "{name}");
    }
}

#[test]
fn a_misspelt_setting_of_a_model_is_told_and_a_wrong_one_stops_the_start() {
    let home = Home::new();
    home.write("home/settings.toml", "[models.\"anthropic/c\"]\nwindows = 5\n[models.c]\nwindow = 5\n");
    let (_, warnings) = home.read(LayerValues::default()).unwrap();
    assert!(warnings[0].contains("did you mean `models.*.window`"), "{warnings:?}");
    assert!(warnings[1].contains("name it with its provider"), "{warnings:?}");
    let wrong = [
        "window = 0",
        "input = -1",
        "input = nan",
        "vision = 1",
        "thinking = \"much\"",
        "efforts = \"high\"",
        "efforts = [\"huge\"]",
    ];
    for line in wrong {
        let home = Home::new();
        home.write("home/settings.toml", &format!("[models.\"anthropic/c\"]\n{line}\n"));
        let error = home.read(LayerValues::default()).unwrap_err();
        assert!(error.message.contains("anthropic/c"), "{line}: {error}");
    }
}

#[test]
fn the_table_of_a_plugin_is_merged_from_all_layers_and_checked_by_nobody_else() {
    let home = Home::new();
    home.write("home/settings.toml", "[plugins.guard]\nlimit = 3\ndeny = [\"rm\"]\n")
        .write("project/.zk/settings.toml", "[plugins.guard]\nlimit = 5\n[plugins.other.deep]\na = 1\n");
    let (settings, warnings) = home.read(LayerValues::default()).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    let tables: &dyn zk_core::service::PluginSettings = &settings;
    assert_eq!(tables.table("guard"), Some(serde_json::json!({"limit": 5, "deny": ["rm"]})));
    assert_eq!(tables.table("other"), Some(serde_json::json!({"deep": {"a": 1}})));
    assert_eq!(tables.table("none"), None);
    home.write("home/settings.toml", "plugins.guard = 3\n");
    let error = home.read(LayerValues::default()).unwrap_err().to_string();
    assert!(error.contains("[plugins.guard]"), "{error}");
}

#[test]
fn a_project_file_that_is_trusted_later_counts_below_what_outranks_it() {
    let home = Home::new();
    home.write("home/settings.toml", "model = \"user\"\nmax_turns = 1\n")
        .write("project/.zk/settings.toml", "model = \"project\"\nmax_turns = 2\nsystem = \"p\"\n");
    let mut given = LayerValues::default();
    given.text("system", "--system", Some("mine".into()));
    let (mut settings, _) = home.read_with(given, &Nothing).unwrap();
    assert_eq!(settings.program.model.as_deref(), Some("user"));
    let file = settings.project_files[0].file.clone();
    settings.count_project_file(&file, &home.temp.path().join("project")).unwrap();
    assert_eq!((settings.program.model.as_deref(), settings.run.max_turns), (Some("project"), Some(2)));
    assert_eq!(settings.program.system.as_deref(), Some("mine"), "the command line outranks it");
    assert!(settings.project_files[0].trusted);
}

#[test]
fn a_trusted_plugin_of_a_project_does_not_make_an_extension_of_its_name_trusted() {
    let home = Home::new();
    home.write("project/kit/.claude-plugin/plugin.json", r#"{"name": "kit"}"#)
        .write("project/kit/commands/hi.md", "Say hi.")
        .write("project/own/.claude-plugin/plugin.json", r#"{"name": "own"}"#)
        .write("project/own/hooks/hooks.json", r#"{"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [
            {"type": "command", "command": "sh ./check.sh"}]}]}}"#)
        .write("project/check.sh", "true")
        .write(
            "project/.zk/settings.toml",
            "plugin_dirs = [\"kit\", \"own\", \"kit\"]\n[[extensions]]\nname = \"kit\"\ncommand = [\"/bin/sh\", \".zk/extensions/kit/evil.sh\"]\n",
        )
        .write("project/.zk/extensions/kit/evil.sh", "true");
    let (mut settings, warnings) = home.read_with(LayerValues::default(), &Nothing).unwrap();
    let refused = warnings_of("plugin_dirs = [\"kit\"]").unwrap_err().message;
    assert!(refused.contains("belongs into the settings of a project"), "{refused}");
    assert!(warnings.iter().any(|text| text.contains("own") && text.contains("./check.sh")), "{warnings:?}");
    let named = settings.project_files.iter().filter(|file| file.name == ".zk/settings.toml: kit");
    assert_eq!(named.count(), 2, "{warnings:?}");
    let plugin = settings.project_files.iter().find(|file| file.bundle.is_some()).unwrap().file.clone();
    settings.count_project_file(&plugin, &home.temp.path().join("project")).unwrap();
    let trusted = settings.project_files.iter().filter(|file| file.trusted);
    assert_eq!(trusted.map(|file| file.kind).collect::<Vec<_>>(), [plugin.kind]);
}

#[test]
fn prompts_in_files_count_as_settings_and_those_of_a_project_once_they_are_trusted() {
    let home = Home::new();
    home.write("home/settings.toml", "system = \"One.\"");
    home.write("home/SYSTEM.md", "\nTwo.\n").write("home/APPEND_SYSTEM.md", "  \n");
    home.write("project/.zk/SYSTEM.md", "Three.").write("project/.zk/APPEND_SYSTEM.md", "Four.");
    let (own, _) = home.read_with(LayerValues::default(), &Nothing).unwrap();
    assert_eq!((own.program.system.as_deref(), own.program.append_system.as_deref()), (Some("Two."), None));
    let ignored = own.untrusted_warnings(Path::new("/p")).join("\n");
    assert!(ignored.contains("/p/.zk/SYSTEM.md is not trusted") && ignored.contains("`system`"), "{ignored}");
    let (trusted, _) = home.read(LayerValues::default()).unwrap();
    assert_eq!(
        (trusted.program.system.as_deref(), trusted.program.append_system.as_deref()),
        (Some("Three."), Some("Four."))
    );
    assert!(trusted.origin("system").unwrap().place.ends_with(".zk/SYSTEM.md"));
    let mut given = LayerValues::default();
    given.text("system", "--system", Some("Five.".to_owned()));
    assert_eq!(home.read(given).unwrap().0.program.system.as_deref(), Some("Five."));
}

#[test]
fn values_below_a_key_or_in_place_of_a_table_are_left_out_with_a_warning_that_names_the_file() {
    for line in
        ["[thinking]\nlevel = \"high\"", "[models.claude]\nwindow = \"big\"", "compaction = \"summary\""]
    {
        let home = Home::new();
        home.write("home/settings.toml", line);
        let (settings, warnings) = home.read(LayerValues::default()).unwrap();
        assert!(warnings.iter().all(|warning| warning.contains("settings.toml")), "{line}: {warnings:?}");
        assert_eq!(
            (warnings.len(), settings.program.thinking),
            (1, ThinkingLevel::Adaptive),
            "{line}: {warnings:?}"
        );
    }
}

#[test]
fn a_wrong_context_is_refused_in_the_words_of_its_owner() {
    let home = Home::new();
    home.write("home/settings.toml", "context = \"remote:unix:zk.sock\"");
    let error = home.read(LayerValues::default()).unwrap_err();
    assert!(
        error.message.contains("cannot be `remote:unix:zk.sock`") && error.message.contains("absolute path"),
        "{error}"
    );
}

#[test]
fn secrets_of_sections_are_in_no_debug_text() {
    let home = Home::new();
    home.write(
        "home/settings.toml",
        "[providers.lab]\nbase_url = \"http://h\"\nheaders = { a = \"canary\" }\nextra_body = { b = \"canary\" }\n\
         [mcp.servers.s]\nurl = \"http://h\"\nheaders = { a = \"canary\" }\nenv = { A = \"canary\" }\n\
         [otel.headers]\nauthorization = \"Bearer canary\"\n",
    );
    let (settings, _) = home.read(LayerValues::default()).unwrap();
    // The body of requests is what the person wrote for everybody to see.
    let shown: Vec<String> =
        settings.lines(true).into_iter().filter(|line| !line.contains("extra_body")).collect();
    let sections = format!("{:?}{:?}{:?}{shown:?}", &*settings, settings.providers, settings.mcp);
    assert!(!sections.contains("canary"), "{sections}");
}
