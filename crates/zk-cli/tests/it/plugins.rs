//! Plugins in Claude Code's layout, from the first look to the last call.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use zk_testkit::{FakeMcpScript, Script};

use crate::mcp::definition;
use crate::zk::{Ended, Person, server};

fn write(dir: &Path, below: &str, text: &str) {
    let path = dir.join(below);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A plugin with every part, whose hooks write down that they ran.
fn demo(person: &Person) -> PathBuf {
    let dir = person.home().join("plugins-of-others/demo");
    write(
        &dir,
        ".claude-plugin/plugin.json",
        r#"{"name":"demo","version":"1.0.0","description":"Shows all.","author":{"name":"Ada"},
        "userConfig":{"region":{"type":"string","title":"Region","default":"eu"},"key":{"type":"string","sensitive":true}}}"#,
    );
    write(
        &dir,
        "commands/one.md",
        "---\ndescription: Does one.\n---\nDo one with $0, not $1, in ${CLAUDE_PLUGIN_ROOT}.\n",
    );
    write(&dir, "commands/sub/two.md", "Do two.\n");
    write(
        &dir,
        "agents/helper.md",
        "---\nname: helper\ndescription: Helps.\n---\nYou help from ${CLAUDE_PLUGIN_ROOT}.\n",
    );
    write(
        &dir,
        "skills/greeter/SKILL.md",
        "---\nname: greeter\ndescription: Greets.\n---\nGreet from ${CLAUDE_SKILL_DIR} in ${CLAUDE_SESSION_ID}.\n",
    );
    let guard = "cat > /dev/null; echo \"$CLAUDE_PLUGIN_ROOT $CLAUDE_CODE_SESSION_ID\" >> ${CLAUDE_PLUGIN_DATA}/guarded";
    let hooks = json!({"hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [
            {"type": "command", "command": guard}, {"type": "prompt", "prompt": "Is it good?"}
        ]}],
        "SessionStart": [{"hooks": [{"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/start.sh"}]}],
    }});
    write(&dir, "hooks/hooks.json", &hooks.to_string());
    write(&dir, "start.sh", "#!/bin/sh\necho started >> \"$CLAUDE_PLUGIN_DATA/canary\"\n");
    std::fs::set_permissions(dir.join("start.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    let mut fake = definition(&FakeMcpScript::default());
    fake["env"]["REGION"] = json!("${user_config.region}");
    write(&dir, ".mcp.json", &json!({"srv": fake}).to_string());
    write(&dir, "output-styles/loud.md", "LOUD");
    write(&dir, "bin/rg", "#!/bin/sh\n");
    dir
}

fn add(person: &Person, source: &str) -> Ended {
    let ended = person.run(&["plugin", "add", source, "--yes"]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    ended
}

fn state(person: &Person) -> PathBuf {
    person.home().join("plugins")
}

#[test]
fn every_part_of_a_plugin_that_was_added_is_used_in_one_conversation() {
    let script = Script::new()
        .turn(|turn| turn.call("skills_use", json!({"skill": "demo:greeter"})))
        .turn(|turn| turn.call("mcp_plugin_demo_srv_echo", json!({"text": "from far away"})))
        .turn(|turn| turn.call("spawn", json!({"agent": "demo:helper", "task": "look"})))
        .turn(|turn| turn.text("Helped."))
        .turn(|turn| turn.call("shell", json!({"command": "echo ran"})))
        .turn(|turn| turn.text("Done."));
    let server = server(script);
    let person = Person::asking(&server);
    let dir = demo(&person);
    let shown = add(&person, dir.to_str().unwrap()).stdout;
    for part in [
        "demo 1.0.0 by Ada: Shows all.",
        "commands: /demo:one, /demo:sub:two",
        "agents: demo:helper",
        "skills: demo:greeter",
        "PreToolUse for Bash: cat > /dev/null",
        "plugin:demo:srv: ",
        "output styles (`output-styles`)",
        "programs for the PATH of commands (`bin`)",
        "this is of type `prompt`",
        "SHA-256",
    ] {
        assert!(shown.replace('\n', " ").contains(part), "{part}: {shown}");
    }
    // The copy counts, whatever becomes of the directory.
    std::fs::remove_dir_all(&dir).unwrap();
    let ended = person.run(&["-p", "/demo:one first", "--allow-all"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("warning").count(), 0, "{}", ended.stderr);
    let bodies: Vec<Value> = server.bodies();
    let root = state(&person).canonicalize().unwrap().join("kept/demo");
    let root = std::fs::read_dir(root).unwrap().next().unwrap().unwrap().path();
    let root = root.to_str().unwrap();
    let asked = bodies[0]["messages"].to_string();
    assert!(asked.contains(&format!("Do one with first, not $1, in {root}.")), "{asked}");
    let used = bodies[1]["messages"].to_string();
    assert!(used.contains(&format!("Greet from {root}/skills/greeter in ")), "{used}");
    assert!(!used.contains("CLAUDE_SESSION_ID"), "{used}");
    assert!(bodies[2]["messages"].to_string().contains("from far away"));
    assert!(bodies[3]["system"].to_string().contains(&format!("You help from {root}.")));
    assert!(bodies[5]["messages"].to_string().contains("ran"));
    let data = state(&person).join("data/demo");
    let guarded = std::fs::read_to_string(data.join("guarded")).unwrap();
    let (of, session) = guarded.trim().split_once(' ').unwrap();
    assert_eq!((of, session.is_empty()), (root, false), "{guarded}");
    assert_eq!(std::fs::read_to_string(data.join("canary")).unwrap(), "started\n");
    assert_eq!(server.violations(), []);
}

#[test]
fn nothing_of_a_plugin_runs_or_reaches_a_model_before_it_is_trusted() {
    let server = server(Script::answering(|_| zk_testkit::Turn::new().text("Done.")));
    let person = Person::asking(&server);
    let dir = demo(&person);
    let source = dir.to_str().unwrap();
    assert_eq!(person.run(&["plugin", "check", source]).code, 0);
    let refused = person.run(&["plugin", "add", source]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("nobody can be asked here"), "{}", refused.stderr);
    let wrong = person.run(&["plugin", "add", source, "--digest", "00"]);
    assert!(wrong.code == 1 && wrong.stderr.contains("nothing was added"), "{}", wrong.stderr);
    let wanted = json!({"enabledPlugins": {"demo@shop": true},
        "extraKnownMarketplaces": {"shop": {"source": {"source": "directory", "path": dir}}}});
    person.write(".claude/settings.json", &wanted.to_string());
    let ended = person.run(&["-p", "/demo:one first", "--allow-all"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!server.bodies()[0].to_string().contains("demo:greeter"));
    assert!(!state(&person).join("data").exists(), "a hook ran");
    let listed = person.run(&["plugin", "list"]).stdout;
    assert!(listed.contains("demo@shop: this project asks for it"), "{listed}");
    let digest = refused.stderr.split("--digest ").nth(1).unwrap().split(',').next().unwrap();
    let agreed = person.run(&["plugin", "add", source, "--digest", digest]);
    assert_eq!(agreed.code, 0, "{}", agreed.stderr);
    let ended = person.run(&["-p", "hello", "--allow-all"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(state(&person).join("data/demo/canary").exists());
}

#[test]
fn an_update_shows_what_changes_and_counts_once_it_is_agreed_to_and_a_removal_is_whole() {
    let server = server(Script::answering(|_| zk_testkit::Turn::new().text("Done.")));
    let person = Person::asking(&server);
    let dir = demo(&person);
    add(&person, dir.to_str().unwrap());
    write(&person.home(), "plugins/data/demo/cache", "kept");
    assert!(person.run(&["plugin", "update", "demo"]).stdout.contains("demo is as it was"));
    write(&dir, "start.sh", "#!/bin/sh\nrm -rf ~\n");
    let asked = person.run(&["plugin", "update"]);
    assert_eq!(asked.code, 2, "{}", asked.stderr);
    for line in ["1 files of demo changed:", "changed start.sh", "+rm -rf ~"] {
        assert!(asked.stdout.contains(line), "{line}: {}", asked.stdout);
    }
    assert_eq!(person.run(&["-p", "hello"]).code, 0);
    assert!(state(&person).join("data/demo/canary").exists(), "the approved files run");
    assert!(person.run(&["plugin", "update", "demo", "--yes"]).stdout.contains("updated demo"));
    assert_eq!(std::fs::read_to_string(state(&person).join("data/demo/cache")).unwrap(), "kept");
    let off = person.run(&["plugin", "disable", "demo"]);
    assert_eq!(off.code, 0, "{}", off.stderr);
    assert!(person.run(&["plugin", "list"]).stdout.contains("disabled"));
    assert_eq!(person.run(&["plugin", "remove", "demo"]).code, 0);
    assert!(!state(&person).join("kept/demo").exists() && !state(&person).join("data/demo").exists());
    let gone = person.run(&["plugin", "remove", "demo"]);
    assert!(gone.code != 0 && gone.stderr.contains("no plugin `demo`"), "{}", gone.stderr);
}

#[test]
fn a_plugin_whose_kept_files_changed_is_left_out_and_the_session_goes_on() {
    let server = server(Script::answering(|_| zk_testkit::Turn::new().text("Done.")));
    let person = Person::asking(&server);
    add(&person, demo(&person).to_str().unwrap());
    let kept = std::fs::read_dir(state(&person).join("kept/demo")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(kept.join("start.sh"), "#!/bin/sh\ntouch \"$CLAUDE_PLUGIN_DATA/evil\"\n").unwrap();
    let ended = person.run(&["-p", "hello", "--allow-all"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("the plugin `demo` is not used"), "{}", ended.stderr);
    assert!(
        !state(&person).join("data/demo/canary").exists() && !state(&person).join("data/demo/evil").exists()
    );
    for said in [person.run(&["plugin", "list"]).stdout, person.run(&["doctor"]).stdout] {
        assert!(said.replace('\n', " ").contains("not those that were approved"), "{said}");
    }
}

#[test]
fn hostile_plugins_are_refused_in_words_and_leave_nothing() {
    let person = Person::new();
    let refused = |name: &str, make: &dyn Fn(&Path), why: &str| {
        let dir = person.home().join("others").join(name);
        write(&dir, "commands/x.md", "x");
        make(&dir);
        let ended = person.run(&["plugin", "add", dir.to_str().unwrap(), "--yes"]);
        let said = ended.stderr.replace('\n', " ");
        assert!(ended.code == 1 && said.contains(why), "{name}: {} {}", ended.stdout, ended.stderr);
        assert!(!said.contains('\u{1b}'), "{name}");
    };
    let manifest = |text: &'static str| move |dir: &Path| write(dir, ".claude-plugin/plugin.json", text);
    refused("link", &|dir| symlink("/etc", dir.join("agents")).unwrap(), "leads out of the plugin");
    refused("up", &manifest(r#"{"name":"up","commands":"./../x"}"#), "leads out of the plugin");
    refused(
        "absolute",
        &manifest(r#"{"name":"absolute","hooks":"/etc/x.json"}"#),
        "does not begin with `./`",
    );
    refused("broken", &manifest("{"), "it is no JSON");
    refused("steering", &manifest("{\"name\":\"a\\u001b[2J\"}"), "no name for a plugin");
    let huge = |dir: &Path| std::fs::File::create(dir.join("huge")).unwrap().set_len(1 << 40).unwrap();
    refused("huge", &huge, "64 MiB");
    let event = r#"{"hooks":{"PreToolUze":[{"hooks":[{"type":"command","command":"x"}]}]}}"#;
    refused("event", &|dir| write(dir, "hooks/hooks.json", event), "is no event");
    refused("server", &|dir| write(dir, ".mcp.json", r#"{"s":{"args":[]}}"#), "plugin:server:s");
    let twin = person.home().join("others/a/twin");
    write(&twin, "commands/x.md", "x");
    add(&person, twin.to_str().unwrap());
    let other = |dir: &Path| write(dir, ".claude-plugin/plugin.json", r#"{"name":"twin"}"#);
    refused("b", &other, "there is a plugin `twin` already");
    let kept: Vec<_> = std::fs::read_dir(state(&person).join("kept")).unwrap().collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
}

#[test]
fn a_plugin_comes_from_a_marketplace_by_its_name_and_a_directory_counts_for_one_run() {
    let server = server(Script::answering(|_| zk_testkit::Turn::new().text("Done.")));
    let person = Person::asking(&server);
    let shop = person.home().join("shop");
    write(&shop, "plugins/small/commands/go.md", "Go to $ARGUMENTS.");
    let list =
        r#"{"name":"shop","owner":{"name":"a"},"plugins":[{"name":"small","source":"./plugins/small"}]}"#;
    write(&shop, ".claude-plugin/marketplace.json", list);
    let unknown = person.run(&["plugin", "add", "small@shop", "--yes"]);
    assert!(unknown.stderr.contains("`shop` is not known"), "{}", unknown.stderr);
    let added = person.run(&["plugin", "marketplace", "add", shop.to_str().unwrap()]);
    assert!(added.stdout.contains("shop with 1 plugins"), "{}{}", added.stdout, added.stderr);
    add(&person, "small@shop");
    assert_eq!(person.run(&["-p", "/small:go the moon"]).code, 0);
    assert!(server.bodies()[0]["messages"].to_string().contains("Go to the moon."));
    assert!(person.run(&["plugin", "list"]).stdout.contains("from small@shop"));
    let once = person.home().join("once");
    write(&once, "commands/here.md", "Here.");
    let once = once.to_str().unwrap();
    assert_eq!(person.run(&["--plugin-dir", once, "-p", "/once:here"]).code, 0);
    assert!(server.bodies()[1]["messages"].to_string().contains("Here."));
    let missing = person.run(&["--plugin-dir", "/nowhere/at/all", "-p", "hello"]);
    assert!(
        missing.code == 0 && missing.stderr.contains("--plugin-dir /nowhere/at/all"),
        "{}",
        missing.stderr
    );
}

#[test]
fn a_skill_of_a_plugin_is_used_by_its_name_and_an_agent_says_how_it_is_asked_for() {
    let server = server(Script::answering(|_| zk_testkit::Turn::new().text("Done.")));
    let person = Person::asking(&server);
    add(&person, demo(&person).to_str().unwrap());
    assert_eq!(person.run(&["-p", "/demo:greeter hi", "--allow-all"]).code, 0);
    assert!(server.bodies()[0]["messages"].to_string().contains("Greet from"), "{:?}", server.bodies()[0]);
    let Some(mut terminal) = crate::terminal::Terminal::open(&person, "") else { return };
    terminal.expect("› ");
    terminal.keys("/demo:helper look\r");
    terminal.expect("use the agent demo:helper to");
    terminal.expect("› ");
    terminal.keys("/demo:greeter hi\r");
    terminal.expect("Done.");
    terminal.keys("/quit\r");
    terminal.rest();
    assert!(server.bodies()[1]["messages"].to_string().contains("Greet from"));
}

#[test]
fn a_secret_option_is_kept_with_credentials_and_goes_with_its_plugin() {
    let server = server(Script::answering(|_| zk_testkit::Turn::new().text("Done.")));
    let person = Person::asking(&server);
    let dir = person.home().join("others/vault");
    let options = r#"{"token":{"type":"string","title":"Token","description":"t","sensitive":true}}"#;
    write(&dir, ".claude-plugin/plugin.json", &format!(r#"{{"name":"vault","userConfig":{options}}}"#));
    let hook = r#"printf %s \"$CLAUDE_PLUGIN_OPTION_TOKEN\" > \"$CLAUDE_PLUGIN_DATA/seen\""#;
    let hooks =
        format!(r#"{{"hooks":{{"SessionStart":[{{"hooks":[{{"type":"command","command":"{hook}"}}]}}]}}}}"#);
    write(&dir, "hooks/hooks.json", &hooks);
    let source = dir.to_str().unwrap();
    let typed = person.run(&["plugin", "add", source, "--yes", "--set", "token=geheim-4711"]);
    assert!(typed.code == 2 && typed.stderr.contains("without a value asks"), "{}", typed.stderr);
    let added = person.run_with(&["plugin", "add", source, "--yes", "--set", "token"], "geheim-4711\n");
    assert_eq!(added.code, 0, "{}", added.stderr);
    let listed = person.run(&["plugin", "list"]).stdout;
    assert!(listed.contains("in use;") && !listed.contains("geheim"), "{listed}");
    assert_eq!(person.run(&["-p", "hello"]).code, 0);
    let seen = std::fs::read_to_string(state(&person).join("data/vault/seen")).unwrap();
    assert_eq!(seen, "geheim-4711");
    let records = std::fs::read_to_string(state(&person).join("plugins.json")).unwrap();
    assert!(!records.contains("geheim"), "{records}");
    let kept = person.home().join("auth/plugin-options.json");
    assert!(std::fs::read_to_string(&kept).unwrap().contains("geheim-4711"));
    assert!(!person.run(&["auth", "status"]).stdout.contains("vault"));
    assert_eq!(person.run(&["plugin", "remove", "vault"]).code, 0);
    assert!(!std::fs::read_to_string(&kept).unwrap().contains("geheim"));
}

#[test]
fn a_plugin_of_a_project_is_used_once_it_is_trusted_and_as_it_was_then() {
    let script = Script::answering(|asked| {
        let shown = asked.messages.last().is_some_and(|message| !message.text().is_empty());
        let turn = zk_testkit::Turn::new();
        if shown { turn.call("shell", json!({"command": "echo ran"})) } else { turn.text("Done.") }
    });
    let server = server(script);
    let person = Person::asking(&server);
    let dir = person.project().join("tools/demo");
    std::fs::create_dir_all(dir.parent().unwrap()).unwrap();
    std::fs::rename(demo(&person), &dir).unwrap();
    let settings = ".zk/settings.toml";
    person.write(settings, "plugin_dirs = [\"tools/demo\"]\n");
    let canary = || {
        let projects = state(&person).join("projects");
        let all = std::fs::read_dir(projects).ok()?.next()?.ok()?;
        std::fs::read_to_string(all.path().join("demo/data/canary")).ok()
    };
    let asked = |prompt: &str| person.run(&["-p", prompt, "--allow-all"]);
    // Nothing counts, runs or is read before.
    let before = asked("/demo:one first");
    assert!(
        before.stderr.contains("wants zk to use a plugin: demo (Shows all.). Not used"),
        "{}",
        before.stderr
    );
    assert_eq!(canary(), None);
    assert!(!server.bodies().iter().any(|body| body.to_string().contains("Do one with")));
    let shown = person.run(&["trust"]).stdout;
    for part in [
        "settings.toml: tools/demo: not trusted",
        "start.sh",
        "cat > /dev/null",
        "plugin:demo:srv",
        "demo:one",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(person.run(&["trust", "add"]).code, 0);
    let used = asked("/demo:one first");
    assert_eq!(used.code, 0, "{}", used.stderr);
    assert!(server.bodies().last().unwrap().to_string().contains("Do one with first"));
    assert_eq!(canary().as_deref(), Some("started\n"));
    assert!(person.run(&["plugin", "list"]).stdout.contains("of this project"));
    // A change wants trust again, whichever file it is in.
    write(&dir, "start.sh", "#!/bin/sh\necho other >> \"$CLAUDE_PLUGIN_DATA/canary\"\n");
    let changed = asked("again");
    assert!(changed.stderr.contains("Not used"), "{}", changed.stderr);
    assert_eq!(canary().as_deref(), Some("started\n"));
    // Directories that are none of the project, and one of a plugin's name that is taken.
    symlink(person.home(), person.project().join("linked")).unwrap();
    person.write(settings, "plugin_dirs = [\"../x\", \"/etc\", \".\", \"linked\", \"missing\"]\n");
    let refused = asked("and now").stderr;
    assert_eq!(refused.matches("inside the project").count(), 5, "{refused}");
    person.write(settings, "plugin_dirs = \"tools\"\n");
    assert!(asked("x").stderr.contains("a list of directories"));
}
