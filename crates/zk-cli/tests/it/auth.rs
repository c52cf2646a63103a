use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::sync::mpsc;

use serde_json::json;
use zk_testkit::{FakeServer, Script};

use crate::sessions::walk;
use crate::zk::{Person, program, server};

fn hello() -> FakeServer {
    server(Script::answering(|_| zk_testkit::Turn::new().text("Hello.")))
}

/// Returns the key in the request of `zk -p hi`.
fn shown(person: &Person, server: &FakeServer, args: &[&str]) -> String {
    let before = server.requests().len();
    let ended = person.run(&[&["-p", "hi"], args].concat());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let request = server.requests().remove(before);
    let key = request.header("x-api-key").or(request.header("authorization"));
    key.map(str::to_owned).unwrap_or_default()
}

#[test]
fn a_stored_key_is_private_used_and_never_printed() {
    let server = hello();
    let person = Person::new().with("ANTHROPIC_BASE_URL", &server.url());
    let ended = person.run_with(&["auth", "login", "anthropic"], " sk-canary\n");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let path = person.home().join("auth/credentials.json");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(shown(&person, &server, &[]), "sk-canary");

    let status = person.run(&["auth", "status"]);
    assert!(status.stdout.contains("anthropic      a key (stored)\n"), "{}", status.stdout);
    assert!(!status.stdout.contains("openai"), "{}", status.stdout);
    let status_of = |name| person.run(&["auth", "status", name]).stdout;
    assert!(status_of("openai").contains("openai         nothing\n"));
    let doctor = person.run(&["doctor"]);
    assert!(doctor.stdout.contains("a key is stored"), "{}", doctor.stdout);
    for said in [ended, status, doctor] {
        assert!(!said.stdout.contains("canary") && !said.stderr.contains("canary"));
    }

    assert_eq!(person.run(&["auth", "logout", "anthropic"]).code, 0);
    assert_eq!(person.run(&["auth", "logout", "anthropic"]).code, 2, "nothing is left to remove");
    assert_eq!(person.run(&["auth", "status", "anthropic"]).code, 4);
    assert!(!std::fs::read_to_string(&path).unwrap().contains("canary"));
}

#[test]
fn a_key_in_the_place_of_a_name_is_refused_and_not_repeated() {
    let key = "sk-canary-0123456789";
    let server = hello();
    let person = Person::asking(&server);
    let ended = person.run(&["auth", "login", key]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("looks like a key"), "{}", ended.stderr);
    assert!(!ended.stdout.contains("canary") && !ended.stderr.contains("canary"), "{}", ended.stderr);
    let Some(mut terminal) = crate::terminal::Terminal::open(&person, "--screen plain") else { return };
    terminal.expect("› ");
    terminal.keys(&format!("/login {key}\r"));
    let told = terminal.until("looks like a key and was not used");
    // The terminal itself shows what is typed.
    assert!(told.matches("canary").count() <= 2, "{told:?}");
    terminal.keys("/quit\r");
    let rest = terminal.rest();
    assert!(!rest.contains("canary"), "{rest:?}");
}

#[test]
fn the_command_line_outranks_the_settings_they_the_store_and_it_the_environment() {
    let server = hello();
    let person =
        Person::new().with("ANTHROPIC_BASE_URL", &server.url()).with("ANTHROPIC_API_KEY", "from-environment");
    assert_eq!(shown(&person, &server, &[]), "from-environment");
    assert_eq!(person.run_with(&["auth", "login", "anthropic"], "from-store").code, 0);
    assert_eq!(shown(&person, &server, &[]), "from-store");
    person.settings("[providers.anthropic]\napi_key = \"from-settings\"\n");
    assert_eq!(shown(&person, &server, &[]), "from-settings");
    assert_eq!(shown(&person, &server, &["--api-key", "from-flag"]), "from-flag");
    let status = person.run(&["auth", "status", "anthropic"]).stdout;
    assert!(status.contains("a key (user: ") && status.contains("settings.toml)"), "{status}");
}

#[test]
fn a_key_can_be_in_a_variable_or_come_from_a_command() {
    let server = hello();
    let person = Person::new().with("ANTHROPIC_BASE_URL", &server.url()).with("MY_KEY", "from-variable");
    person.settings("[providers.anthropic]\napi_key = \"env:MY_KEY\"\n");
    assert_eq!(shown(&person, &server, &[]), "from-variable");
    person.settings("[providers.anthropic]\napi_key = \"!echo from-command; pwd > where\"\n");
    assert_eq!(shown(&person, &server, &[]), "from-command");
    assert!(person.home().join("where").exists(), "it ran at home, not in the project");
    person.settings("[providers.anthropic]\napi_key = \"!false sk-canary\"\n");
    let ended = person.run(&["-p", "hi"]);
    assert_eq!(ended.code, 4);
    assert!(ended.stderr.contains("`false …`") && !ended.stderr.contains("canary"), "{}", ended.stderr);
}

#[test]
fn a_key_that_its_provider_refuses_is_not_stored_and_one_that_cannot_be_checked_is_with_a_word() {
    let script = Script::answering(|_| zk_testkit::Turn::new().text("Hello."));
    let server = FakeServer::builder(script).require_key("right").start().unwrap();
    let person = Person::new().with("ANTHROPIC_BASE_URL", &server.url());
    let ended = person.run_with(&["auth", "login", "anthropic"], "canary-wrong");
    assert_eq!(ended.code, 4, "{}", ended.stderr);
    assert!(ended.stderr.contains("anthropic does not take this key"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("canary") && !person.home().join("auth").exists());
    let ended = person.run_with(&["auth", "login", "anthropic"], "right");
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));

    let gone = Person::new().with("ANTHROPIC_BASE_URL", "http://127.0.0.1:1");
    let ended = gone.run_with(&["auth", "login", "anthropic"], "a-key");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("the key is stored, but not checked"), "{}", ended.stderr);
}

#[test]
fn what_is_no_key_is_not_stored() {
    let person = Person::new();
    for (args, input) in [
        (&["auth", "login", "anthropic"][..], "two words"),
        (&["auth", "login", "anthropic"], " \n"),
        (&["auth", "login"], "key"),
        (&["auth", "login", "nobody"], "key"),
        (&["auth", "login", "anthropic"], "!cat key"),
        (&["auth", "login", "openai_codex", "--key"], "key"),
    ] {
        let ended = person.run_with(args, input);
        assert_eq!(ended.code, 2, "{args:?}: {}", ended.stderr);
        assert!(!person.home().join("auth").exists());
    }
    let ended = person.run(&["-p", "hi", "--provider", "openai_codex"]);
    assert_eq!(ended.code, 4);
    assert!(ended.stderr.contains("zk auth login openai_codex"), "{}", ended.stderr);
}

#[test]
fn a_damaged_store_costs_only_what_is_in_it() {
    let server = hello();
    let person = Person::asking(&server);
    std::fs::create_dir(person.home().join("auth")).unwrap();
    std::fs::write(person.home().join("auth/credentials.json"), "{\"canary").unwrap();
    let ended = person.run(&["-p", "hi"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Hello.\n"));
    assert!(ended.stderr.contains("credentials.json is damaged") && !ended.stderr.contains("canary"));
    let ended = person.run_with(&["auth", "login", "anthropic"], "new");
    assert!(ended.stderr.contains("credentials.json.damaged-1"), "{}", ended.stderr);
}

/// Starts an authorisation server that issues one pair of tokens for every request.
fn issuer() -> (String, mpsc::Receiver<String>) {
    issuer_of(3600)
}

/// Starts an authorisation server whose first token is valid for `first` seconds, and whose renewed token for an hour.
fn issuer_of(first: u64) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (asked, seen) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let is_renewal = String::from_utf8_lossy(&body).contains("grant_type=refresh_token");
            let (name, good_for) =
                if is_renewal { ("canary-renewed", 3600) } else { ("canary-access", first) };
            let tokens = format!(
                r#"{{"access_token":"{name}","refresh_token":"canary-refresh","expires_in":{good_for}}}"#
            );
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{tokens}", tokens.len());
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
            let _ = asked.send(String::from_utf8(body).unwrap());
        }
    });
    (url, seen)
}

/// Person whose Anthropic requests need a sign-in at `issuer`.
fn signing_in(server: &FakeServer, issuer: &str) -> Person {
    let person = Person::new().with("ANTHROPIC_BASE_URL", &server.url());
    person.settings(&format!(
        "[providers.anthropic.oauth]\nclient_id = \"zk-tests\"\nscopes = [\"models\"]\n\
         authorize_url = \"{issuer}/authorize\"\ntoken_url = \"{issuer}/token\"\n"
    ));
    person
}

/// Returns the parameter `name` of the sign-in's address, decoded as far as these tests need.
fn parameter(url: &str, name: &str) -> String {
    let (_, query) = url.split_once('?').unwrap();
    let value = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}="))).unwrap();
    value.replace("%3A", ":").replace("%2F", "/")
}

#[test]
fn a_sign_in_by_the_browser_is_stored_and_used() {
    let (server, (issuer, asked)) = (hello(), issuer());
    let person = signing_in(&server, &issuer);
    let mut child = person.spawn(program(), &["auth", "login", "anthropic"], Stdio::null());
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let url = said.find(|line| line.starts_with("http")).unwrap();
    let redirect = parameter(&url, "redirect_uri");
    let place = redirect.strip_prefix("http://").unwrap().strip_suffix("/callback").unwrap();
    let mut browser = TcpStream::connect(place).unwrap();
    let target = format!("/callback?code=c0de&state={}", parameter(&url, "state"));
    write!(browser, "GET {target} HTTP/1.1\r\nHost: {place}\r\n\r\n").unwrap();
    let mut page = String::new();
    browser.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(child.wait().unwrap().success());
    assert!(asked.recv().unwrap().contains("code=c0de"));

    assert_eq!(shown(&person, &server, &[]), "Bearer canary-access");
    let status = person.run(&["auth", "status", "anthropic"]);
    assert_eq!(status.code, 0);
    assert!(status.stdout.contains(&format!("signed in at {issuer}, token good for")), "{}", status.stdout);
    assert!(!status.stdout.contains("canary"));
}

/// Signs in with a pasted redirect address.
fn sign_in(person: &Person) {
    let mut child = person.spawn(program(), &["auth", "login", "anthropic"], Stdio::piped());
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let url = said.find(|line| line.starts_with("http")).unwrap();
    let mut keys = child.stdin.take().unwrap();
    writeln!(keys, "c0de#wrong").unwrap();
    assert!(said.any(|line| line.contains("belongs to another sign-in")));
    writeln!(keys, "c0de#{}", parameter(&url, "state")).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_pasted_answer_signs_in_too() {
    let (server, (issuer, _asked)) = (hello(), issuer());
    let person = signing_in(&server, &issuer);
    sign_in(&person);
    assert_eq!(shown(&person, &server, &[]), "Bearer canary-access");
}

#[test]
fn a_renewed_token_that_the_model_repeats_is_printed_and_stored_nowhere() {
    let script = Script::new()
        .turn(|t| t.thinking("It is canary-renewed.").call("read_file", json!({ "path": "notes.txt" })))
        .turn(|t| t.chunks(["I saw canary-re", "newed."]));
    let (server, (issuer, _asked)) = (server(script), issuer_of(1));
    let person = signing_in(&server, &issuer);
    sign_in(&person);
    person.write("notes.txt", "token: canary-renewed\n");
    let ended = person.run(&["-v", "-p", "x", "--output-format", "stream-json"]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert_eq!(server.requests().last().unwrap().header("authorization"), Some("Bearer canary-renewed"));
    assert!(ended.stdout.contains("I saw [redacted]."), "{}", ended.stdout);
    assert!(
        !format!("{}{}", ended.stdout, ended.stderr).contains("canary"),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
    for path in walk(&person.home().join("sessions")) {
        let bytes = std::fs::read(&path).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("canary"), "{}", path.display());
    }
}

#[test]
fn a_sign_in_that_is_described_wrongly_says_where() {
    let person = Person::new();
    person.settings("[providers.anthropic.oauth]\nclient_id = 1\n");
    let ended = person.run(&["auth", "login", "anthropic"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("providers.anthropic.oauth"), "{}", ended.stderr);
}
