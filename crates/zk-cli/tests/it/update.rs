use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use crate::zk::Person;

/// Server that answers each request with the next of these responses, and the last one again.
fn publishing(responses: Vec<(u16, String)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut responses = responses.into_iter();
        while let (Ok((mut stream, _)), Some((status, body))) = (listener.accept(), responses.next()) {
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            for line in lines.map_while(Result::ok) {
                assert!(!line.to_lowercase().starts_with("authorization"), "{line}");
                if line.is_empty() {
                    break;
                }
            }
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
    });
    format!("http://{address}/latest")
}

#[test]
fn a_check_compares_versions_says_how_this_program_is_updated_and_changes_nothing() {
    let ours = env!("CARGO_PKG_VERSION");
    let release = |tag: &str| (200, format!(r#"{{"tag_name": "{tag}", "html_url": "https://zk.test/r"}}"#));
    let table = [
        (release(&format!("v{ours}")), 0, format!("zk {ours} is the newest release.")),
        (release("v999.1.0"), 0, format!("zk 999.1.0 is out; this is {ours}, from a checkout.")),
        (release("999.1.0-rc.1"), 0, "To update: git checkout v999.1.0-rc.1".to_owned()),
        (release("v0.0.1"), 0, "newer than the newest release, 0.0.1".to_owned()),
        (release("nightly"), 1, "`nightly` is no version".to_owned()),
        ((200, "<html>".to_owned()), 1, "no release as JSON with a `tag_name`".to_owned()),
        ((404, String::new()), 1, "no release is published there yet".to_owned()),
        ((302, String::new()), 1, "it answered with status 302".to_owned()),
        ((429, String::new()), 1, "try again later".to_owned()),
    ];
    let url = publishing(table.iter().map(|(response, ..)| response.clone()).collect());
    let person = Person::new();
    person.settings(&format!("releases = \"{url}\"\n"));
    for (response, code, told) in table {
        let ended = person.run(&["update", "--check"]);
        let all = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, code, "{response:?}: {all}");
        assert!(all.contains(&told), "{response:?}: {all}");
    }
}

#[test]
fn without_a_network_a_check_says_so_and_a_project_cannot_say_who_is_asked() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let person = Person::new();
    person.settings(&format!("releases = \"http://{closed}/latest\"\n"));
    person.write(".zk/settings.toml", "releases = \"http://127.0.0.1:1/other\"\n");
    let ended = person.run(&["update", "--check"]);
    assert_eq!(ended.code, 1);
    for words in
        [closed.to_string().as_str(), "could not be asked for", "Is there a network", "Nothing was changed"]
    {
        assert!(ended.stderr.contains(words), "`{words}`: {}", ended.stderr);
    }
    let ended = person.run(&["update"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("--check"), "{}", ended.stderr);
}
