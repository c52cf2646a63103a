//! The vendor in a program: named, keyed, listed, checked and asked again like the vendors zk knows.

use assert_cmd::Command;
use zk_testkit::{FakeServer, RawReply};

const ANSWER: &str = "{\"say\":\"Hel\"}\n{\"say\":\"lo\"}\n{\"done\":{\"in\":9,\"out\":4}}\n";

struct Person {
    home: tempfile::TempDir,
}

impl Person {
    fn new(server: &FakeServer) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let settings = format!(
            "[providers.aviary]\nbase_url = \"{}\"\nmodel = \"blue\"\nretry = {{ retries = 1 }}\n",
            server.url()
        );
        std::fs::write(home.path().join("settings.toml"), settings).expect("settings");
        Self { home }
    }

    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = Command::cargo_bin("own-provider").expect("the program");
        let home = self.home.path();
        command.env_clear().env("ZK_HOME", home).env("HOME", home).env("PATH", "/usr/bin:/bin");
        command.env("AVIARY_API_KEY", "sk-parrot-1").current_dir(home).args(args).write_stdin("");
        let output = command.output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }
}

fn lines(body: &str) -> RawReply {
    RawReply::new(body).content_type("application/x-ndjson")
}

#[test]
fn a_vendor_from_outside_is_named_with_provider_and_its_key_is_found() {
    let server = FakeServer::raw(ANSWER, &[5, 20]).expect("a server");
    let (code, stdout, stderr) = Person::new(&server).run(&["--provider", "aviary", "-p", "hi"]);
    assert_eq!((code, &*stdout), (0, "Hello\n"), "{stderr}");
    let requests = server.requests();
    let request = requests.iter().find(|request| request.path == "/generate").expect("a request");
    assert_eq!(request.header("x-parrot-key"), Some("sk-parrot-1"));
    assert_eq!(request.json()["model"], "blue");
}

#[test]
fn its_key_alone_chooses_it() {
    let server = FakeServer::raw(ANSWER, &[]).expect("a server");
    let (code, stdout, stderr) = Person::new(&server).run(&["-p", "hi"]);
    assert_eq!((code, &*stdout), (0, "Hello\n"), "{stderr}");
}

#[test]
fn its_failed_requests_are_sent_again() {
    let list = lines("{\"birds\": []}").content_type("application/json");
    let busy = lines("{\"error\": {\"message\": \"moult\"}}").status(503);
    let server = FakeServer::raw_replies([list, busy, lines(ANSWER)]).expect("a server");
    let (code, stdout, stderr) = Person::new(&server).run(&["--provider", "aviary", "-p", "hi"]);
    assert_eq!((code, &*stdout), (0, "Hello\n"), "{stderr}");
    assert!(stderr.contains("moult"), "{stderr}");
}

#[test]
fn its_models_are_listed_and_the_doctor_knows_it() {
    let birds = r#"{"birds": [{"name": "blue", "window": 4096}]}"#;
    let server =
        FakeServer::raw_replies([RawReply::new(birds).content_type("application/json")]).expect("a server");
    let person = Person::new(&server);
    let (code, stdout, stderr) = person.run(&["models", "--provider", "aviary"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.lines().any(|line| line.starts_with("blue ") && line.contains("4096")), "{stdout}");
    let (_, stdout, _) = person.run(&["doctor", "--provider", "aviary"]);
    assert!(
        stdout.contains("provider: aviary at http://127.0.0.1") && stdout.contains("a key is set"),
        "{stdout}"
    );
    assert!(stdout.contains("answers and has blue"), "{stdout}");
    let (_, stdout, _) = person.run(&["auth", "status", "aviary"]);
    assert!(stdout.contains("AVIARY_API_KEY"), "{stdout}");
    let (code, _, stderr) = person.run(&["--provider", "aviari", "-p", "hi"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("did you mean `aviary`"), "{stderr}");
}
