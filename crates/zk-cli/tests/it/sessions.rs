use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use zk_core::model::{Role, SessionId};
use zk_core::service::{Audience, CustomEntry, Durability, EntryKind, NewSession, SessionStore};
use zk_session::SqliteStore;
use zk_testkit::{Script, Turn};

use crate::zk::{Person, program, server, until};

fn counting() -> Script {
    Script::answering(|asked| Turn::new().text(format!("message {}", asked.messages.len())))
}

#[test]
fn continue_goes_on_with_the_newest_session_of_the_directory() {
    let server = server(counting());
    let person = Person::asking(&server);
    assert_eq!(person.run(&["-p", "one"]).stdout, "message 1\n");
    assert_eq!(person.run(&["-p", "two", "--continue"]).stdout, "message 3\n");
    assert_eq!(person.run(&["-p", "three", "-c"]).stdout, "message 5\n");
    assert_eq!(person.run(&["-p", "four"]).stdout, "message 1\n");
    assert_eq!(server.violations(), []);
}

#[test]
fn sessions_are_listed_with_the_branch_of_their_last_run() {
    let server = server(counting());
    let person = Person::asking(&server);
    let listed = || person.run(&["sessions", "list"]).stdout;
    person.run(&["-p", "before the repository"]);
    assert!(!listed().contains('['), "{}", listed());
    let on = |branch: &str, args: &[&str]| {
        person.write(".git/HEAD", &format!("ref: refs/heads/{branch}\n"));
        person.run(args);
    };
    on("main", &["-p", "on the trunk"]);
    on("mend/cart", &["-p", "on a branch"]);
    let rows = listed();
    assert!(rows.contains("on the trunk  [main]") && rows.contains("on a branch  [mend/cart]"), "{rows}");
    on("other", &["-p", "more", "--continue"]);
    assert!(listed().contains("on a branch  [other]"), "{}", listed());
    let json: Value = serde_json::from_str(&person.run(&["sessions", "list", "--json"]).stdout).unwrap();
    let branches: Vec<&Value> = json.as_array().unwrap().iter().map(|row| &row["branch"]).collect();
    assert_eq!(branches, [&json!("other"), &json!("main"), &Value::Null]);
}

#[test]
fn continue_says_that_the_newest_session_is_damaged() {
    let server = server(counting());
    let person = Person::asking(&server);
    let id = |args: &[&str]| person.run(args).result()["session_id"].as_str().unwrap().to_owned();
    let older = id(&["-p", "one", "--output-format", "json"]);
    let newer = id(&["-p", "two", "--output-format", "json"]);
    let file = format!("{newer}.db");
    let damaged = walk(&person.home()).into_iter().find(|path| path.ends_with(&file)).unwrap();
    std::fs::write(&damaged, "this was a database").unwrap();
    let ended = person.run(&["-p", "three", "--continue"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "message 3\n"), "{}", ended.stderr);
    for word in [&*newer, "damaged", &*older] {
        assert!(ended.stderr.contains(word), "{}", ended.stderr);
    }
    assert_eq!(std::fs::read(&damaged).unwrap(), b"this was a database", "it is not touched");
}

#[test]
fn cost_says_once_that_an_entry_is_missing_in_its_figures() {
    let server = server(counting());
    let person = Person::asking(&server);
    let ran = person.run(&["-p", "a rare prompt", "--output-format", "json"]).result();
    let id = ran["session_id"].as_str().unwrap();
    let file = walk(&person.home()).into_iter().find(|path| path.ends_with(format!("{id}.db"))).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    // The title of a listing has the same words, in a table of its own.
    let text = br#""text":"a rare prompt""#;
    let at = bytes.windows(text.len()).rposition(|window| window == text).unwrap();
    bytes[at + text.len() - 2] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    for args in [&["cost"][..], &["cost", "--json"], &["cost", "--by", "model"], &["cost", "why", id]] {
        let ended = person.run(args);
        assert_eq!(ended.code, 0, "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.matches("1 entry of session").count(), 1, "{args:?}: {}", ended.stderr);
        assert!(!ended.stdout.contains("cannot be read"), "{args:?}: {}", ended.stdout);
    }
}

pub(crate) fn walk(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .flat_map(|entry| {
            let path = entry.path();
            if path.is_dir() { walk(&path) } else { vec![path] }
        })
        .collect()
}

#[test]
fn resume_takes_the_beginning_of_an_id() {
    let server = server(counting());
    let person = Person::asking(&server);
    let first = person.run(&["-p", "one", "--output-format", "json"]).result();
    let id = first["session_id"].as_str().unwrap();
    person.run(&["-p", "other"]);
    let begin: String = id.chars().take(id.len() - 2).collect();
    let again = person.run(&["-p", "two", "--resume", &begin, "--output-format", "json"]).result();
    assert_eq!((&again["result"], &again["session_id"]), (&"message 3".into(), &first["session_id"]));
}

#[test]
fn a_session_that_does_not_exist_is_wrong_usage() {
    let server = server(counting());
    let person = Person::asking(&server);
    let ended = person.run(&["-p", "x", "--resume", "s_none"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("zk sessions"), "{}", ended.stderr);
    let ended = person.run(&["-p", "x", "--continue"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    for args in [&["-p", "x", "--resume", ""] as &[&str], &["sessions", "show", ""]] {
        let ended = person.run(args);
        assert_eq!(ended.code, 2, "{}", ended.stderr);
        assert!(ended.stderr.contains("needs an ID"), "{}", ended.stderr);
    }
    assert!(server.bodies().is_empty(), "nothing was asked");
}

#[test]
fn sessions_are_listed_shown_and_removed() {
    let server = server(counting());
    let person = Person::asking(&server);
    assert!(person.run(&["sessions"]).stdout.contains("there are no sessions"));
    let result = person.run(&["-p", "the first prompt", "--output-format", "json"]).result();
    let id = result["session_id"].as_str().unwrap();
    let listed = person.run(&["sessions"]).stdout;
    assert!(listed.contains(id) && listed.contains("the first prompt"), "{listed}");
    let shown = person.run(&["sessions", "show", id]).stdout;
    assert_eq!(shown, "› the first prompt\nmessage 1\n");
    assert_eq!(person.run(&["sessions", "rm", id]).code, 0);
    assert!(!person.run(&["sessions", "list", "--all"]).stdout.contains(id));
    assert_eq!(person.run(&["sessions", "rm", id]).code, 2);
}

#[test]
fn what_a_plugin_keeps_for_the_person_is_shown_in_its_place() {
    let server = server(counting());
    let person = Person::asking(&server);
    let result = person.run(&["-p", "the first prompt", "--output-format", "json"]).result();
    let id = SessionId::from(result["session_id"].as_str().unwrap());
    let entry = |audience, data: Value| {
        let (source, kind) = ("goals".to_owned(), "goal".to_owned());
        EntryKind::Custom(CustomEntry { source, kind, version: 1, data: data.into(), audience })
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::new(person.home().join("sessions"));
        let open = store.open(&id).await.unwrap();
        let entries =
            vec![entry(Audience::Person, json!("ship it")), entry(Audience::Hidden, json!("not for you"))];
        open.append(entries, Durability::Process).await.unwrap();
        open.close().await.unwrap();
    });
    let asked = person.run(&["-p", "two", "-c", "--output-format", "stream-json"]);
    let loaded = asked.lines().into_iter().find(|line| line["type"] == "session:loaded").unwrap();
    assert_eq!(loaded["session_id"], result["session_id"]);
    assert!(loaded["entries"].as_u64().unwrap() > 3, "{loaded}");
    let shown = person.run(&["sessions", "show", id.as_str()]).stdout;
    assert_eq!(shown, "› the first prompt\nmessage 1\n◦ goals: ship it\n› two\nmessage 3\n");
}

#[test]
fn a_run_of_more_than_8_mb_is_shown_as_one_with_its_refused_call() {
    let script = Script::new()
        .turn(|t| t.text("I read.").call("read_file", json!({"path": "notes"})))
        .turn(|t| t.text("I make.").call("shell", json!({"command": "touch made"})))
        .forever(|_| Turn::new().text("It was refused."));
    let server = server(script);
    let person = Person::asking(&server);
    person.write("notes", "read me");
    let result = person.run(&["-p", "x", "--output-format", "json"]).result();
    let id = SessionId::from(result["session_id"].as_str().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::new(person.home().join("sessions"));
        let (source, kind) = ("goals".to_owned(), "goal".to_owned());
        let (data, audience) = (json!("g".repeat(9 << 20)).into(), Audience::Hidden);
        let large = EntryKind::Custom(CustomEntry { source, kind, version: 1, data, audience });
        let mut kinds: Vec<EntryKind> =
            store.read(&id).await.unwrap().entries.into_iter().map(|entry| entry.kind).collect();
        let is_from_user = |kind: &EntryKind| matches!(kind, EntryKind::Message { message, .. } if message.role == Role::User);
        let results = kinds.iter().enumerate().filter(|(_, kind)| is_from_user(kind)).nth(1).unwrap().0;
        kinds.insert(results, large);
        let new = NewSession { id: Some("s_large".into()), cwd: person.project(), parent: None };
        let session = store.create(new).await.unwrap();
        session.append(kinds, Durability::Process).await.unwrap();
        session.close().await.unwrap();
    });
    let small = person.run(&["sessions", "show", id.as_str()]).stdout;
    assert!(small.contains("I make.") && small.contains("  ✗ was refused: "), "{small}");
    assert_eq!(person.run(&["sessions", "show", "s_large"]).stdout, small);
}

#[test]
fn a_session_that_is_not_wanted_leaves_nothing_behind() {
    let server = server(counting());
    let person = Person::asking(&server);
    let result = person.run(&["-p", "x", "--no-session", "--output-format", "json"]).result();
    assert_eq!(result["session_id"], Value::Null);
    assert!(!person.home().join("sessions").exists());
}

#[test]
fn a_home_that_cannot_be_written_costs_the_session_and_not_the_answer() {
    let server = server(counting());
    let person = Person::asking(&server);
    let blocked = person.home().join("file");
    std::fs::write(&blocked, "").unwrap();
    let person = person.with("ZK_HOME", blocked.join("zk").to_str().unwrap());
    let ended = person.run(&["-p", "x"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "message 1\n"), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("session not saved") && ended.stderr.contains("--no-session"),
        "{}",
        ended.stderr
    );
}

/// A run in the middle of a command that does not end.
fn in_a_command(person: &Person) -> std::process::Child {
    let child = person.spawn(program(), &["-p", "x", "--allow-all"], Stdio::null());
    let begun = person.project().join("begun");
    until("the command", || begun.exists());
    child
}

fn hanging_once() -> Script {
    Script::new()
        .turn(|t| t.text("I wait.").call("shell", json!({"command": "touch begun; sleep 600"})))
        .forever(|asked| Turn::new().text(format!("message {}", asked.messages.len())))
}

#[test]
fn sessions_are_listed_as_json_with_what_they_come_from_and_what_is_damaged() {
    let server = server(counting());
    let person = Person::asking(&server);
    let listed = |args: &[&str]| {
        let ended = person.run(args);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        serde_json::from_str::<Vec<Value>>(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stdout))
    };
    assert!(listed(&["sessions", "list", "--json"]).is_empty());
    let result = person.run(&["-p", "the first prompt", "--output-format", "json"]).result();
    let id = result["session_id"].as_str().unwrap();
    assert_eq!(person.run(&["sessions", "copy", id]).code, 0);
    let rows = listed(&["sessions", "list", "--all", "--json"]);
    assert_eq!(rows.len(), 2, "{rows:?}");
    let (copies, originals): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(|row| row["id"] != *id);
    let original = originals[0];
    assert_eq!((copies[0]["parent"].as_str(), original.get("parent")), (Some(id), None));
    let fields = |name: &str| original[name].clone();
    assert_eq!((fields("answered"), fields("interrupted")), (true.into(), false.into()));
    let listed_lines = person.run(&["sessions"]).stdout;
    assert!(listed_lines.contains(&format!("{} messages", original["messages"])), "{listed_lines}");
    assert_eq!(original["title"], "the first prompt");
    assert_eq!(original["cwd"], person.project().canonicalize().unwrap().to_str().unwrap());
    let (created, updated) =
        (original["created_ms"].as_u64().unwrap(), original["updated_ms"].as_u64().unwrap());
    assert!(created > 1_600_000_000_000 && updated >= created, "{original}");
    let file = walk(&person.home()).into_iter().find(|path| path.ends_with(format!("{id}.db"))).unwrap();
    std::fs::write(file, "this was a database").unwrap();
    let rows = listed(&["sessions", "list", "--all", "--json"]);
    let broken = rows.iter().find(|row| row["id"] == *id).unwrap();
    assert!(broken["damaged"].is_string() && copies[0].get("damaged").is_none(), "{broken}");
}

#[test]
fn a_session_that_another_process_has_open_is_not_touched() {
    let server = server(hanging_once());
    let person = Person::asking(&server);
    let mut child = in_a_command(&person);
    let ended = person.run(&["-p", "me too", "--continue"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("in use by process {}", child.id())), "{}", ended.stderr);
    let offered = |command: &str| {
        let found =
            ended.stderr.split('`').find_map(|part| part.strip_prefix(&format!("zk sessions {command} ")));
        found.unwrap_or_else(|| panic!("{}", ended.stderr)).to_owned()
    };
    let shown = person.run(&["sessions", "show", &offered("show")]);
    assert!(shown.stdout.contains("I wait."), "{}", shown.stdout);
    let copied = person.run(&["sessions", "copy", &offered("copy")]);
    let copy = copied.stdout.split('`').find_map(|part| part.strip_prefix("zk --resume ")).unwrap();
    assert_ne!(copy, offered("copy"));
    let from = format!("(from {}", offered("copy"));
    assert!(person.run(&["sessions", "show", copy]).stdout.contains(&from), "{from}");
    assert!(person.run(&["sessions", "list"]).stdout.contains(&from), "{from}");
    let went_on = person.run(&["-p", "me too", "--resume", copy]);
    assert!(went_on.stderr.contains("outcome unknown"), "{}", went_on.stderr);
    // The prompt, the answer with its call, and the result with the next prompt.
    assert_eq!((went_on.code, went_on.stdout.trim()), (0, "message 3"), "{}", went_on.stderr);
    assert_eq!(server.violations(), []);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_run_that_was_killed_can_be_continued() {
    let server = server(hanging_once());
    let person = Person::asking(&server);
    let mut child = in_a_command(&person);
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = person.run(&["-p", "go on", "--continue"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.starts_with("message "), "{}", ended.stdout);
    assert!(server.bodies().last().unwrap()["messages"][0].to_string().contains('x'), "the prompt is kept");
    assert_eq!(server.violations(), []);
}

#[test]
fn a_session_is_shown_while_another_process_has_it_open() {
    let server = server(hanging_once());
    let person = Person::asking(&server);
    let mut child = in_a_command(&person);
    let id = walk(&person.home())
        .into_iter()
        .find_map(|path| path.file_name()?.to_str()?.strip_suffix(".db").map(str::to_owned));
    let shown = person.run(&["sessions", "show", &id.unwrap()]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(
        shown.stdout.starts_with("› x\n") && shown.stdout.contains("(open in process"),
        "{}",
        shown.stdout
    );
}

#[test]
fn a_failed_first_request_leaves_no_session_behind() {
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let person =
        Person::new().with("ANTHROPIC_API_KEY", "k").with("ANTHROPIC_BASE_URL", &format!("http://{free}"));
    person.settings("[providers.anthropic]\nretry = { retries = 1 }\n");
    let ended = person.run(&["-p", "x"]);
    assert_eq!(ended.code, 1);
    assert!(!ended.stderr.contains("--resume"), "{}", ended.stderr);
    assert!(person.run(&["sessions"]).stdout.contains("there are no sessions"));
    let left = walk(&person.home().join("sessions"));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_prompt_whose_process_was_killed_is_listed_as_interrupted_and_continued_before_an_older_session() {
    let script = Script::new()
        .turn(|t| t.text("older"))
        .turn(|t| t.hang())
        .forever(|asked| Turn::new().text(format!("message {}", asked.messages.len())));
    let server = server(script);
    let person = Person::asking(&server);
    assert_eq!(person.run(&["-p", "the older prompt"]).stdout, "older\n");
    let mut child = person.spawn(program(), &["-p", "the lost prompt"], Stdio::null());
    until("the request", || server.bodies().len() == 2);
    assert!(!person.run(&["sessions"]).stdout.contains("the lost prompt"), "it is not one yet");
    child.kill().unwrap();
    child.wait().unwrap();
    let listed = person.run(&["sessions"]).stdout;
    assert!(listed.contains("the lost prompt") && listed.contains("(interrupted, no answer)"), "{listed}");
    let ended = person.run(&["-p", "--continue"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "message 1\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("was interrupted"), "{}", ended.stderr);
    let asked = server.bodies().last().unwrap()["messages"].to_string();
    assert!(asked.contains("the lost prompt") && !asked.contains("the older prompt"), "{asked}");
    assert!(!person.run(&["sessions"]).stdout.contains("interrupted"));
}

#[test]
fn a_session_folder_that_is_removed_in_the_middle_is_written_again_and_said() {
    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": "touch begun; until test -e go; do sleep 0.02; done"})))
        .forever(|asked| Turn::new().text(format!("message {}", asked.messages.len())));
    let server = server(script);
    let person = Person::asking(&server);
    let child = in_a_command(&person);
    std::fs::remove_dir_all(person.home().join("sessions")).unwrap();
    person.write("go", "");
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("were removed while it was open"), "{told}");
    assert_eq!(person.run(&["-p", "two", "--continue"]).stdout, "message 5\n");
    assert_eq!(server.violations(), []);
}

/// Runs the program where no file may grow beyond so many KiB: a disk that is full.
fn on_a_full_disk(person: &Person, kib: u32, args: &[&str]) -> (i32, String, String) {
    let output = under(person, &format!("trap '' XFSZ; ulimit -f {kib}"), args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Runs the program under limits that a shell sets.
#[expect(clippy::disallowed_methods, reason = "the program is run from outside")]
fn under(person: &Person, limits: &str, args: &[&str]) -> std::process::Output {
    let shell = format!("{limits}; exec \"$0\" \"$@\"");
    let all: Vec<&str> =
        ["-c", &shell, program().to_str().unwrap()].into_iter().chain(args.iter().copied()).collect();
    let bash = std::process::Command::new("bash").arg("-c").arg("command -v bash").output().unwrap();
    let bash = PathBuf::from(String::from_utf8(bash.stdout).unwrap().trim());
    person.spawn(&bash, &all, Stdio::null()).wait_with_output().unwrap()
}

#[test]
fn a_copy_that_is_killed_midway_is_no_session() {
    let long = "y".repeat(100_000);
    let server = server(Script::new().forever(move |_| Turn::new().text(long.clone())));
    let person = Person::asking(&server);
    let id = person.run(&["-p", "0", "--output-format", "json"]).result()["session_id"].clone();
    for n in 1..6 {
        assert_eq!(person.run(&["-p", &n.to_string(), "--continue"]).code, 0);
    }
    // The signal for a file beyond the limit ends a process at once.
    let ended = under(&person, "ulimit -c 0; ulimit -f 450", &["sessions", "copy", id.as_str().unwrap()]);
    assert_eq!(ended.status.code(), None, "{ended:?}");
    let rows: Value =
        serde_json::from_str(&person.run(&["sessions", "list", "--all", "--json"]).stdout).unwrap();
    let listed: Vec<&Value> = rows.as_array().unwrap().iter().map(|row| &row["id"]).collect();
    assert_eq!(listed, [&id]);
}

#[test]
fn a_full_disk_at_the_start_costs_the_session_and_not_the_answer() {
    let server = server(counting());
    let person = Person::asking(&server);
    let (code, answer, told) = on_a_full_disk(&person, 1, &["-p", "x"]);
    assert_eq!((code, answer.as_str()), (0, "message 1\n"), "{told}");
    assert!(told.contains("session not saved") && !told.contains(".rs:"), "{told}");
    assert_eq!(told.matches("session not saved").count(), 1, "{told}");
    assert!(person.run(&["sessions", "list", "--all"]).stdout.contains("there are no sessions"));
}

#[test]
fn a_disk_that_fills_up_ends_the_run_and_says_truly_what_is_stored() {
    let long = "y".repeat(150_000);
    let script = Script::new().turn(|t| t.text("short")).forever(move |_| Turn::new().text(long.clone()));
    let server = server(script);
    let person = Person::asking(&server);
    assert_eq!(person.run(&["-p", "one"]).code, 0);
    let (code, answer, told) = on_a_full_disk(&person, 100, &["-p", "two", "--continue"]);
    assert_eq!(code, 1, "{told}");
    assert!(answer.starts_with("yyy"), "the answer was paid for");
    assert!(told.contains("session not saved: cannot write") && !told.contains(".rs:"), "{told}");
    assert!(told.contains("later entr") && told.contains("lost"), "{told}");
    let id = told.split("--resume ").nth(1).unwrap().trim();
    let shown = person.run(&["sessions", "show", id]).stdout;
    assert!(shown.contains("› one\nshort\n") && !shown.contains("yyy"), "{shown}");
}
