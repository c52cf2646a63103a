//! Clients that are not let in, and messages that are not taken.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use super::client::{Client, Serving};
use super::{SOCKET, attach, obedient};
use crate::zk::{LONG, Person};

/// Most kilobytes that the server may grow by while a message that is too long comes.
const MAX_GROWTH_KB: u64 = 96 * 1024;

/// Megabytes of a message that is too long: few, unless `ZK_LINE_MB` says otherwise.
#[expect(clippy::disallowed_methods, reason = "whoever runs a campaign says how large it is")]
fn long_mb() -> usize {
    std::env::var("ZK_LINE_MB").ok().and_then(|mb| mb.parse().ok()).unwrap_or(160)
}

/// A connection to the WebSocket of a server, before and after it is one.
struct Socket(TcpStream);

impl Socket {
    /// Asks for the WebSocket with these headers; gives the head of the answer.
    fn ask(serving: &Serving, headers: &[(&str, &str)]) -> (Self, String) {
        let url = serving.access["websocket"].as_str().unwrap();
        let address = url.strip_prefix("ws://").and_then(|rest| rest.strip_suffix("/rpc")).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut head = String::from(
            "GET /rpc HTTP/1.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
        );
        if !headers.iter().any(|(name, _)| *name == "host") {
            head += &format!("host: {address}\r\n");
        }
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        stream.write_all((head + "\r\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.extend(byte);
        }
        (Self(stream), String::from_utf8(answer).unwrap())
    }

    /// Sends the head of a frame, whose mask is of zeros, and some bytes of it.
    fn frame(&mut self, opcode: u8, length: u64, bytes: &[u8]) {
        let head = [&[0x80 | opcode, 0xff][..], &length.to_be_bytes(), &[0; 4]].concat();
        self.0.write_all(&[&head, bytes].concat()).unwrap();
    }

    fn text(&mut self, text: &str) {
        self.frame(1, text.len() as u64, text.as_bytes());
    }

    /// The next frame, its opcode first.
    fn next(&mut self) -> (u8, Vec<u8>) {
        let mut take = |count: u64| {
            let mut bytes = vec![0; usize::try_from(count).unwrap()];
            self.0.read_exact(&mut bytes).unwrap();
            bytes
        };
        let head = take(2);
        let length = match head[1] {
            126 => u64::from(u16::from_be_bytes(take(2).try_into().unwrap())),
            127 => u64::from_be_bytes(take(8).try_into().unwrap()),
            short => u64::from(short),
        };
        (head[0] & 0xf, take(length))
    }

    /// The answer to the request with an id.
    fn answer(&mut self, id: &Value) -> Value {
        loop {
            let (opcode, bytes) = self.next();
            assert_eq!(opcode, 1, "{}", String::from_utf8_lossy(&bytes));
            let message: Value = serde_json::from_slice(&bytes).unwrap();
            if message.get("method").is_none() && message["id"] == *id {
                return message;
            }
        }
    }
}

/// Most kilobytes that a process had in memory so far.
fn peak_kb(serving: &Serving) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", serving.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_websocket_is_for_a_token_of_this_server_and_for_no_page_of_elsewhere() {
    let person = Person::new();
    let serving = Serving::start(&person, &["--websocket"]);
    let own = serving.access["websocket"].as_str().unwrap().replace("ws:", "http:").replace("/rpc", "");
    let [driver, approver] = ["driver", "approver"].map(|role| format!("Bearer {}", serving.token(role)));
    let wrong = format!("Bearer {}", "0".repeat(64));
    let protocol = format!("zk.rpc, zk.token.{}", serving.token("approver"));
    for (headers, status) in [
        (vec![], "401"),
        (vec![("authorization", wrong.as_str())], "401"),
        (vec![("authorization", &wrong), ("authorization", &driver)], "401"),
        (vec![("sec-websocket-protocol", "zk.rpc, zk.token.")], "401"),
        (vec![("authorization", &approver), ("origin", "http://evil.example")], "403"),
        (vec![("authorization", &approver), ("origin", "null")], "403"),
        (vec![("authorization", &approver), ("origin", &own), ("origin", "http://evil.example")], "403"),
        (vec![("authorization", &approver), ("host", "evil.example")], "403"),
        (vec![("authorization", &approver), ("host", "127.0.0.1:1")], "403"),
        (vec![("authorization", &approver)], "101"),
        (vec![("sec-websocket-protocol", &protocol), ("origin", &own)], "101"),
    ] {
        let (mut socket, head) = Socket::ask(&serving, &headers);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{headers:?}: {head}");
        if status != "101" {
            let mut why = String::new();
            socket.0.read_to_string(&mut why).unwrap();
            assert!(
                why.contains("token") || why.contains("does not name") || why.contains("another page"),
                "{why}"
            );
        }
    }
    // A token allows its own role, and none above it.
    let (mut socket, _) = Socket::ask(&serving, &[("authorization", &driver)]);
    socket.text(r#"{"id":1,"method":"initialize","params":{"protocol_version":"1.0","role":"approver"}}"#);
    assert_eq!(socket.answer(&json!(1))["error"]["code"], -32001);
}

#[test]
fn a_message_that_is_too_long_is_refused_in_words_and_takes_no_memory() {
    let person = Person::new();
    let serving = Serving::start(&person, &[&SOCKET[..], &["--websocket"]].concat());
    let before = peak_kb(&serving);
    let bearer = format!("Bearer {}", serving.token("driver"));

    // A frame that announces a gigabyte is refused by its head.
    let (mut socket, _) = Socket::ask(&serving, &[("authorization", &bearer)]);
    socket.text(r#"{"id":1,"method":"initialize","params":{"protocol_version":"1.0","role":"driver"}}"#);
    assert!(socket.answer(&json!(1)).get("result").is_some());
    // Bytes are a message as well, and so is a text on several lines.
    let request = b"{\"id\":2,\n\"method\":\"conversations\"}";
    socket.frame(2, request.len() as u64, request);
    assert!(socket.answer(&json!(2)).get("result").is_some());
    socket.frame(1, 1 << 30, b"{\"id\":3,");
    let (opcode, why) = std::iter::repeat_with(|| socket.next()).find(|(opcode, _)| *opcode != 1).unwrap();
    assert_eq!((opcode, &why[..2]), (8, &1009u16.to_be_bytes()[..]));
    assert!(String::from_utf8_lossy(&why).contains("at most 16777216 bytes"), "{why:?}");

    // A line without an end is left out as it comes, and the next one is read.
    let mut client = serving.connect();
    let piece = "x".repeat(1 << 20);
    (0..long_mb()).for_each(|_| client.write_part(&piece));
    client.write("");
    attach(&mut client, "viewer");
    let refused = client.refused.iter().map(|error| error["code"].clone()).collect::<Vec<_>>();
    assert_eq!(refused, [-32006], "{:?}", client.refused);
    assert!(client.refused[0]["message"].as_str().unwrap().contains("16777216"), "{:?}", client.refused);
    let grown = peak_kb(&serving) - before;
    assert!(grown < MAX_GROWTH_KB, "{grown} kB");
}

#[test]
fn what_is_no_request_is_refused_with_its_id_and_the_next_one_is_answered() {
    let person = Person::new();
    let serving = Serving::start(&person, &SOCKET);
    let mut client = serving.connect();
    attach(&mut client, "driver");
    for (line, id, code) in [
        ("{", Value::Null, -32700),
        ("[1]", Value::Null, -32600),
        (r#"{"id":"a","method":"no/such"}"#, json!("a"), -32601),
        (r#"{"id":1.5,"method":"session/new","params":{"unatended":true}}"#, json!(1.5), -32602),
        (r#"{"id":-7,"method":"submit","params":{"conversation":"c","text":"a"}}"#, json!(-7), -32002),
        (r#"{"id":"b","method":"initialize","params":{"protocol_version":"1.0"}}"#, json!("b"), -32000),
        (r#"{"id":"c","method":"answer","params":{}}"#, json!("c"), -32001),
    ] {
        client.write(line);
        let answer = client.next_answer();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{answer}");
        assert!(answer["error"]["message"].as_str().is_some_and(|why| why.len() > 5), "{answer}");
    }
    // Requests with one id are each answered, and a notification is not.
    for line in
        [r#"{"method":"clients"}"#, r#"{"id":9,"method":"clients"}"#, r#"{"id":9,"method":"session/list"}"#]
    {
        client.write(line);
    }
    let mut answers = [client.next_answer(), client.next_answer()];
    answers.sort_by_key(|answer| answer["result"].get("sessions").is_some());
    assert!(answers.iter().all(|answer| answer["id"] == 9), "{answers:?}");
    assert!(answers[0]["result"]["clients"].is_array() && answers[1]["result"]["sessions"].is_array());
    assert!(client.call("conversations", &json!({})).is_ok());
}

#[test]
fn images_of_a_prompt_are_bounded_and_refused_before_anything_is_sent() {
    let model = obedient();
    let person = Person::asking(&model);
    let serving = Serving::start(&person, &SOCKET);
    let mut client = serving.approver();
    let conversation = super::open(&mut client);
    let (image, large) = ("iVBORw0KGgo=", "iVBO".to_owned() + &"A".repeat(7 << 20));
    for (images, why) in [
        (json!(vec![image; 21]), "at most 20"),
        (json!([large]), "6 MiB"),
        (json!(["not base64!"]), "images"),
        (json!([image, "YWJj"]), "no PNG"),
    ] {
        let params = json!({ "conversation": conversation, "text": "see", "images": images });
        let refused = client.call("submit", &params).unwrap_err();
        assert_eq!(
            (&refused["code"], &refused["data"]["field"]),
            (&json!(-32602), &json!("images")),
            "{refused}"
        );
        let said = refused.to_string();
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(model.bodies().len(), 0);
}

#[test]
fn a_program_of_another_user_is_not_served_even_where_the_socket_lets_it_in() {
    let programs = ["/usr/bin/setpriv", "/usr/bin/perl"];
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || !programs.iter().all(|program| Path::new(program).exists()) {
        println!("skipped: this needs root, setpriv and perl");
        return;
    }
    let person = Person::new();
    let serving = Serving::start(&person, &SOCKET);
    let socket = person.home().join("run/zk.sock").canonicalize().unwrap();
    // As somebody left it who opened everything by mistake.
    for path in [person.home().parent().unwrap(), &person.home(), socket.parent().unwrap(), &socket] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let script = "use IO::Socket::UNIX; $SIG{PIPE} = 'IGNORE'; my $s = IO::Socket::UNIX->new($ARGV[0]) or die \"no socket: $!\"; \
                  print $s qq({\"id\":1,\"method\":\"initialize\",\"params\":{\"protocol_version\":\"1.0\"}}\\n); \
                  print \"connected\\n\", <$s>;";
    let answered = |user: &str| {
        let args =
            ["--reuid", user, "--clear-groups", "/usr/bin/timeout", "20", "/usr/bin/perl", "-e", script];
        let args = [&args[..], &[socket.to_str().unwrap()]].concat();
        let child = person.spawn(Path::new(programs[0]), &args, Stdio::null());
        let output = child.wait_with_output().unwrap();
        assert!(output.stdout.starts_with(b"connected"), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().contains("result")
    };
    assert!(!answered("65534"));
    let mut own: Client = serving.connect();
    attach(&mut own, "viewer");
}
