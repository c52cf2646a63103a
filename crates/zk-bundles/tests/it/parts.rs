//! Manifests and standard places.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::json;
use zk_bundles::{Bundle, Manifest, PlacedBundle};

use crate::support::{read, refusal};

const SKILL: &str = "---\nname: s\ndescription: d\n---\nText.\n";

fn names(bundle: &Bundle) -> Vec<&str> {
    bundle.commands.iter().map(|command| command.name.as_str()).collect()
}

#[test]
fn standard_places_are_read_without_a_manifest_under_the_name_of_the_folder() {
    let bundle = read(&[
        ("commands/one.md", ""),
        ("commands/sub/two.md", ""),
        ("commands/notes.txt", ""),
        ("agents/helper.md", ""),
        ("agents/deep/other.md", ""),
        ("skills/greeter/SKILL.md", SKILL),
        ("skills/greeter/nested/SKILL.md", SKILL),
        ("hooks/hooks.json", r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"x"}]}]}}"#),
        (".mcp.json", r#"{"mcpServers":{"srv":{"command":"x"}}}"#),
        ("CLAUDE.md", ""),
        ("output-styles/loud.md", ""),
        ("bin/tool", ""),
    ])
    .unwrap();
    assert_eq!(bundle.name(), "folder");
    assert_eq!(names(&bundle), ["folder:one", "folder:sub:two"]);
    assert_eq!(bundle.agents[0].path, "agents/helper.md");
    assert_eq!((bundle.agents.len(), &bundle.skills[..]), (1, &["skills/greeter".to_owned()][..]));
    assert_eq!(bundle.hooks[0].place, "hooks/hooks.json");
    assert_eq!(bundle.servers[0].name, "plugin:folder:srv");
    assert_eq!(bundle.unserved.len(), 2, "{:?}", bundle.unserved);
}

#[test]
fn commands_and_agents_of_a_manifest_replace_the_folders_and_the_rest_adds_to_them() {
    let bundle = read(&[
        (
            ".claude-plugin/plugin.json",
            r#"{"name":"p","commands":["./extra","./other/last.md"],"agents":"./other/ag.md","skills":["./more"],
                "hooks":{"Stop":[]},"mcpServers":[{"mcpServers":{"inl":{"command":"y"}}},"./servers.json"]}"#,
        ),
        ("commands/one.md", ""),
        ("extra/a/b.md", ""),
        ("other/last.md", ""),
        ("agents/helper.md", ""),
        ("other/ag.md", ""),
        ("skills/first/SKILL.md", SKILL),
        ("more/SKILL.md", SKILL),
        ("hooks/hooks.json", r#"{"description":"d","hooks":{"Stop":[]}}"#),
        (".mcp.json", r#"{"bare":{"command":"x"}}"#),
        ("servers.json", r#"{"mcpServers":{"same":{"command":"x"},"file":{"url":"https://a"}}}"#),
    ])
    .unwrap();
    assert_eq!(names(&bundle), ["p:a:b", "p:last"]);
    assert_eq!(bundle.agents[0].path, "other/ag.md");
    assert_eq!(bundle.skills, ["more", "skills/first"]);
    assert_eq!(bundle.hooks.len(), 2);
    let servers: Vec<&str> = bundle.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(
        servers,
        ["plugin:p:bare", "plugin:p:inl", "plugin:p:file"],
        "equal definitions are one server"
    );
}

#[test]
fn named_commands_have_the_description_of_the_manifest_and_what_is_not_there_is_noted() {
    let manifest = r#"{"name":"p","commands":{"go":{"source":"./x.md","description":"Goes."},"no":{"source":"./y.md"}},
        "skills":"./nowhere","unknownKey":1}"#;
    let bundle = read(&[(".claude-plugin/plugin.json", manifest), ("x.md", "")]).unwrap();
    assert_eq!(names(&bundle), ["p:go"]);
    assert_eq!(bundle.commands[0].description.as_deref(), Some("Goes."));
    assert_eq!(bundle.notes.len(), 3, "{:?}", bundle.notes);
}

#[test]
fn a_skill_at_the_root_is_the_bundles_skill() {
    let bundle = read(&[(".claude-plugin/plugin.json", r#"{"name":"rs"}"#), ("SKILL.md", SKILL)]).unwrap();
    assert_eq!(bundle.skills, [""]);
}

#[test]
fn what_a_manifest_may_not_have_is_refused_in_words() {
    let manifest = |text: &str| refusal(&[(".claude-plugin/plugin.json", text)]);
    for (text, why) in [
        ("{", "it is no JSON"),
        ("[]", "no JSON object"),
        ("{}", "no `name`"),
        (r#"{"name":7}"#, "`name` must be a text"),
        (r#"{"name":"Bad Name!"}"#, "`Bad Name!` is no name"),
        (r#"{"name":"a","author":"Somebody"}"#, "`author` must be an object"),
        (r#"{"name":"a","repository":{"url":"x"}}"#, "`repository` must be a text"),
        (r#"{"name":"a","keywords":"x"}"#, "`keywords` must be a list"),
        (r#"{"name":"a","skills":["skills/x"]}"#, "does not begin with `./`"),
        (r#"{"name":"a","commands":"./../../etc"}"#, "leads out of the plugin"),
        (r#"{"name":"a","hooks":"/etc/passwd"}"#, "does not begin with `./`"),
        (r#"{"name":"a","agents":"./agents"}"#, "no .md file"),
        (r#"{"name":"a","mcpServers":7}"#, "`mcpServers` must be a path"),
        (r#"{"name":"a","userConfig":[]}"#, "`userConfig` must be an object"),
    ] {
        let said = manifest(text);
        assert!(said.contains(why), "{text}: {said}");
    }
    let with = |path: &str, text: &str| {
        refusal(&[(".claude-plugin/plugin.json", r#"{"name":"a","skills":["./f"]}"#), (path, text)])
    };
    for (path, text, why) in [
        ("f", "", "which is a file"),
        ("hooks/hooks.json", r#"{"Stop":[]}"#, "no object `hooks`"),
        ("hooks/hooks.json", r#"{"hooks":{},"Stop":[]}"#, "`Stop` stands outside"),
        ("hooks/hooks.json", "{", "hooks/hooks.json: it is no JSON"),
        (".mcp.json", "[]", "no object of servers"),
        (".mcp.json", r#"{"a b":{}}"#, "cannot be called `a b`"),
        (".mcp.json", r#"{"a":1}"#, "is no object"),
    ] {
        let said = with(path, text);
        assert!(said.contains(why), "{path} {text}: {said}");
    }
    assert!(refusal(&[("README.md", "")]).contains("it is no plugin"));
}

#[test]
fn fields_of_hooks_without_effect_are_noted_and_left_out() {
    let hooks = r#"{"hooks":{"Stop":[{"matcher":"*","about":1,"hooks":[
        {"type":"command","command":"x","once":true,"timeout":60000},{"type":"prompt","prompt":"p"}]}]}}"#;
    let bundle = read(&[("hooks/hooks.json", hooks)]).unwrap();
    let kept = &bundle.hooks[0].events["Stop"][0];
    assert_eq!(kept["hooks"][0], json!({"type": "command", "command": "x", "timeout": 3600.0}));
    assert_eq!(kept["hooks"][1], json!({"type": "prompt", "prompt": "p"}));
    assert!(kept.get("about").is_none());
    assert_eq!(bundle.notes.len(), 2, "{:?}", bundle.notes);
}

#[test]
fn variables_are_replaced_in_servers_and_secrets_in_no_text_but_theirs() {
    let manifest = r#"{"name":"p","userConfig":{"region":{"type":"string","title":"Region","default":"eu"},
        "api-key":{"type":"string","title":"Key","sensitive":true}}}"#;
    let servers = r#"{"s":{"command":"${CLAUDE_PLUGIN_ROOT}/run","args":["${user_config.region}","${HOME}"],
        "env":{"KEY":"${user_config.api-key}"}},"far":{"url":"https://a/${user_config.region}"}}"#;
    let bundle = read(&[(".claude-plugin/plugin.json", manifest), (".mcp.json", servers)]).unwrap();
    let (root, data) = (PathBuf::from("/r"), PathBuf::from("/d"));
    let mut placed = PlacedBundle { bundle, root, data, options: Default::default() };
    placed.read_options(&|name| (name == "CLAUDE_PLUGIN_OPTION_API_KEY").then(|| "secret".to_owned()));
    assert_eq!(placed.secrets().collect::<Vec<_>>(), ["secret"]);
    let project = Path::new("/p");
    let definition = |name: &str| {
        let server = placed.bundle.servers.iter().find(|server| server.name == name).unwrap();
        placed.server_definition(server, project)
    };
    let near = definition("plugin:p:s");
    assert_eq!(near["command"], "/r/run");
    assert_eq!(near["args"], json!(["eu", "${HOME}"]), "other variables are the servers' own");
    assert_eq!(near["env"]["KEY"], "secret");
    assert_eq!(
        (&near["env"]["CLAUDE_PLUGIN_DATA"], &near["env"]["CLAUDE_PROJECT_DIR"]),
        (&json!("/d"), &json!("/p"))
    );
    assert_eq!(definition("plugin:p:far"), json!({"url": "https://a/eu"}));
    let texts = placed.variables(project);
    assert_eq!(texts.expand("${CLAUDE_PLUGIN_ROOT} ${user_config.api-key}"), "/r ${user_config.api-key}");
    assert!(texts.directories().iter().all(|(_, value)| value != "secret"));
}

proptest! {
    #[test]
    fn any_bytes_are_a_manifest_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Manifest::read(&bytes);
    }

    #[test]
    fn any_values_of_known_keys_are_read_or_refused(
        key in prop::sample::select(vec!["commands", "agents", "skills", "hooks", "mcpServers", "userConfig", "author"]),
        value in prop::sample::select(vec![
            json!(null), json!(1), json!("./x"), json!("../x"), json!([]), json!([1]), json!({}), json!({"a": 1}),
            json!({"a": {"source": 1}}), json!([{"a": []}]), json!("\u{0}"), json!({"hooks": 1}), json!({"mcpServers": 1}),
        ]),
    ) {
        let manifest = json!({"name": "a", key: value}).to_string();
        let _ = read(&[(".claude-plugin/plugin.json", &manifest), ("x", "")]);
    }
}
