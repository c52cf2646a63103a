//! Generated dialogues of several clients with one server.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};

use super::client::{Client, Serving};
use super::{SOCKET, obedient};
use crate::zk::Person;

/// Number of dialogues: a few, unless `ZK_RPC_DIALOGUES` says otherwise.
#[expect(clippy::disallowed_methods, reason = "whoever runs a campaign says how large it is")]
fn dialogues() -> u64 {
    std::env::var("ZK_RPC_DIALOGUES").ok().and_then(|count| count.parse().ok()).unwrap_or(30)
}

/// Dialogues that one server holds, and that one conversation does.
const OF_A_SERVER: u64 = 200;
const OF_A_CONVERSATION: u64 = 25;

/// Servers that hold dialogues at once.
const SERVERS: usize = 4;

const METHODS: [&str; 29] = [
    "answer",
    "body",
    "clients",
    "close",
    "command",
    "commands",
    "complete",
    "conversations",
    "initialize",
    "models",
    "queue",
    "session/delete",
    "session/export",
    "session/fork",
    "session/list",
    "session/new",
    "session/open",
    "session/rename",
    "session/search",
    "session/tree",
    "settings/get",
    "settings/set",
    "steer",
    "stop",
    "submit",
    "subscribe",
    "switch",
    "unqueue",
    "unsubscribe",
];

/// Counts of events over all dialogues.
#[derive(Debug, Default)]
struct Figures {
    dialogues: u64,
    requests: u64,
    answered: u64,
    cuts: u64,
    questions: u64,
    /// Answers to questions by their outcome, with those that had the right digest apart.
    right: BTreeMap<String, u64>,
    wrong: BTreeMap<String, u64>,
    /// Longest time until an answer, by method.
    slowest: BTreeMap<String, Duration>,
}

impl Figures {
    fn add(&mut self, other: Self) {
        self.dialogues += other.dialogues;
        self.requests += other.requests;
        self.answered += other.answered;
        self.cuts += other.cuts;
        self.questions += other.questions;
        for (all, more) in [(&mut self.right, other.right), (&mut self.wrong, other.wrong)] {
            more.into_iter().for_each(|(outcome, count)| *all.entry(outcome).or_default() += count);
        }
        for (method, time) in other.slowest {
            let longest = self.slowest.entry(method).or_default();
            *longest = time.max(*longest);
        }
    }
}

/// Answer to a question that was sent.
#[derive(Clone, Debug)]
struct Sent {
    /// Files that the call makes which was asked about: several where texts were joined.
    files: Vec<String>,
    has_digest: bool,
    agrees: bool,
}

/// A client that sends anything, and knows what it waits for.
struct Talker {
    client: Client,
    role: &'static str,
    last_id: u64,
    waits: HashMap<String, u64>,
    /// Methods of requests, with the time at which they were sent.
    asked: HashMap<String, (String, Instant)>,
    sent: HashMap<String, Sent>,
    lines: Vec<String>,
    card: Option<Value>,
}

/// A server with a conversation that one client watches, and one in which anything may happen.
struct Stage {
    _model: zk_testkit::FakeServer,
    person: Person,
    serving: Serving,
    wild: String,
    sessions: Vec<String>,
    files: u64,
    /// Files whose calls were agreed to.
    agreed: Vec<String>,
}

impl Talker {
    fn attach(stage: &Stage, role: &'static str) -> Self {
        let mut client = stage.serving.connect();
        let token = stage.serving.token("approver");
        let params = json!({ "protocol_version": "1.0", "role": role, "token": token });
        client.call("initialize", &params).unwrap();
        let (waits, asked, sent) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { client, role, last_id: 1000, waits, asked, sent, lines: Vec::new(), card: None }
    }

    fn line(&mut self, id: &Value, line: String) {
        *self.waits.entry(id.to_string()).or_default() += 1;
        self.client.write(&line);
        self.lines.push(line);
    }

    fn request(&mut self, method: &str, params: &Value) -> String {
        self.last_id += 1;
        let id = json!(self.last_id);
        self.asked.insert(id.to_string(), (method.to_owned(), Instant::now()));
        self.line(&id, json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        id.to_string()
    }

    /// Sends an answer to a question, with the digest that was shown or another one.
    fn answer(&mut self, conversation: &str, card: &Value, has_digest: bool, answer: &Value) {
        let digest = card["digest"].as_str().unwrap();
        let other: String = digest.chars().rev().collect();
        let is_other = !has_digest && other != digest;
        let digest = if is_other { other.as_str() } else { digest };
        let params =
            json!({ "conversation": conversation, "id": card["id"], "digest": digest, "answer": answer });
        let command = card["question"]["args"]["command"].as_str().unwrap_or_default();
        let files = command.split_whitespace().skip(1).map(str::to_owned).collect();
        let id = self.request("answer", &params);
        self.sent.insert(id, Sent { files, has_digest: !is_other, agrees: answer["answer"] == "once" });
    }

    /// Checks a received line: a response belongs to a request, and an answer with a wrong digest never wins.
    fn take(&mut self, line: &Value, figures: &mut Figures, agreed: &mut Vec<String>) {
        if line.get("method").is_some() {
            let patch = &line["params"]["patch"];
            match patch["patch"].as_str() {
                Some("ask") => self.card = Some(patch["card"].clone()),
                Some("reset") => self.card = patch["view"]["cards"].get(0).cloned().or(self.card.take()),
                _ => {}
            }
            return;
        }
        let id = line["id"].to_string();
        assert!(line.get("result").is_some() != line.get("error").is_some(), "{line}");
        let count = self.waits.get_mut(&id).unwrap_or_else(|| panic!("nobody asked for {line}"));
        *count -= 1;
        if *count == 0 {
            self.waits.remove(&id);
        }
        figures.answered += 1;
        if let Some((method, since)) = self.asked.remove(&id) {
            let longest = figures.slowest.entry(method).or_default();
            *longest = since.elapsed().max(*longest);
        }
        let Some(sent) = self.sent.get(&id) else { return };
        let outcome = match line.get("error") {
            None => "accepted".to_owned(),
            Some(error) => error["data"]["reason"].as_str().map_or(error["code"].to_string(), str::to_owned),
        };
        if outcome == "accepted" {
            assert!(sent.has_digest && self.role == "approver", "{sent:?} of a {}", self.role);
            if sent.agrees {
                agreed.extend(sent.files.iter().cloned());
            }
        }
        let of = if sent.has_digest { &mut figures.right } else { &mut figures.wrong };
        *of.entry(outcome).or_default() += 1;
    }

    /// Checks the lines that have arrived.
    fn look(&mut self, figures: &mut Figures, agreed: &mut Vec<String>) {
        while let Some(line) = self.client.here() {
            self.take(&line, figures, agreed);
        }
    }

    /// Reads until every request is answered.
    fn all_answered(&mut self, figures: &mut Figures, agreed: &mut Vec<String>) {
        while !self.waits.is_empty() {
            let line = self.client.next().unwrap_or_else(|| panic!("no answer to {:?}", self.waits));
            self.take(&line, figures, agreed);
        }
    }
}

fn some<T: Copy>(random: &mut Rng, all: &[T]) -> T {
    all[random.usize(..all.len())]
}

fn any_value(random: &mut Rng) -> Value {
    match random.u8(..8) {
        0 => Value::Null,
        1 => json!(random.i64(..)),
        2 => json!([]),
        3 => json!({ "a": 1 }),
        4 => json!(true),
        5 => json!("\u{0}\u{202e}\"\\\n"),
        6 => json!("x".repeat(random.usize(..5000))),
        _ => json!(0.5),
    }
}

/// Params that a method may take, in a conversation in which anything may happen.
fn params(random: &mut Rng, method: &str, role: &str, stage: &mut Stage) -> Value {
    let session = stage.sessions.get(random.usize(..=stage.sessions.len())).cloned().unwrap_or_default();
    let mut text = || match random.u8(..4) {
        0 => "hello".to_owned(),
        1 => "run nothing-like-this".to_owned(),
        _ => {
            stage.files += 1;
            format!("run touch f{}", stage.files)
        }
    };
    let of = match method {
        "submit" | "steer" => json!({ "text": text() }),
        "command" => {
            let all =
                ["/help", "/status", "cost", "/nonsense", "/clear", "/new", "/tree", "", "/effort high"];
            // An approver, who may widen what runs, does not here.
            let widening = ["/permissions all", "//permissions all", "/add-dir /", "/export /tmp/x"];
            let line = if role != "approver" && random.bool() {
                some(random, &widening)
            } else {
                some(random, &all)
            };
            json!({ "line": line })
        }
        "complete" => {
            json!({ "kind": some(random, &["command", "argument", "file", "other"]), "text": "/e" })
        }
        "settings/set" if role != "approver" => json!({ "mode": "all" }),
        "settings/set" => json!({ "thinking": some(random, &["high", "off", "much"]) }),
        "switch" => json!({ "to": some(random, &["new", "old"]) }),
        "subscribe" => json!({ "after": random.u64(..60) }),
        "unqueue" => json!({ "id": random.u64(..20) }),
        "body" => json!({ "block": format!("b{}", random.u8(..)) }),
        "answer" => {
            json!({ "id": random.u64(..9), "digest": "0123456789abcdef", "answer": { "answer": "once" } })
        }
        "session/rename" => json!({ "session": session, "title": "another" }),
        "session/search" => json!({ "text": "touch" }),
        "session/fork" | "session/tree" | "session/export" | "session/delete" | "session/open" => {
            json!({ "session": session })
        }
        "initialize" => json!({ "protocol_version": "1.0", "role": "approver" }),
        "session/new" => json!({ "unattended": random.bool() }),
        _ => json!({}),
    };
    let mut of = of;
    let is_about_all =
        ["clients", "conversations", "initialize"].contains(&method) || method.contains("session/");
    if !is_about_all {
        of["conversation"] = stage.wild.as_str().into();
    }
    of
}

/// Sends a random message, which may be invalid.
fn say(random: &mut Rng, talker: &mut Talker, stage: &mut Stage) {
    let wild = stage.wild.clone();
    match random.u8(..20) {
        0 => {
            talker.client.write(some(
                random,
                &["{", "[]", "5", "\u{fffd}", "{\"method\":7}", "{\"jsonrpc\":\"2.0\"}"],
            ));
            *talker.waits.entry("null".to_owned()).or_default() += 1;
        }
        1 => {
            talker.request(
                some(random, &["", "no/such", "Submit", "session/new ", "rpc.discover"]),
                &json!({}),
            );
        }
        2 if !talker.lines.is_empty() => {
            let at = random.usize(..talker.lines.len());
            let line = talker.lines[at].clone();
            let id = serde_json::from_str::<Value>(&line).unwrap()["id"].clone();
            talker.line(&id, line);
        }
        3 => {
            // A notification is not answered, also where it is wrong.
            talker
                .client
                .write(&json!({ "method": some(random, &METHODS), "params": any_value(random) }).to_string());
        }
        4 | 5 => {
            let method = some(random, &METHODS);
            let mut of = params(random, method, talker.role, stage);
            let fields = ["conversation", "text", "id", "session", "digest", "to", "other"];
            of[some(random, &fields)] = any_value(random);
            talker.request(method, &of);
        }
        6..=9 if talker.card.is_some() => {
            let card = talker.card.clone().unwrap();
            let answers =
                [json!({ "answer": "once" }), json!({ "answer": "no" }), json!({ "answer": "yes" })];
            let answer = answers[random.usize(..answers.len())].clone();
            let has_digest = random.bool();
            talker.answer(&wild, &card, has_digest, &answer);
        }
        _ => {
            // Methods that take long, or of which there should be few, are rare.
            let method = match some(random, &METHODS) {
                "session/new" | "session/open" | "session/fork" | "close" | "models"
                    if random.u8(..6) > 0 =>
                {
                    "submit"
                }
                method => method,
            };
            let of = params(random, method, talker.role, stage);
            talker.request(method, &of);
        }
    }
}

impl Stage {
    fn new() -> Self {
        let model = obedient();
        let person = Person::asking(&model);
        let serving = Serving::start(&person, &[&SOCKET[..], &["--permission-mode", "ask"]].concat());
        Self {
            _model: model,
            person,
            serving,
            wild: String::new(),
            sessions: Vec::new(),
            files: 0,
            agreed: Vec::new(),
        }
    }

    /// Fails if a file is there whose call nobody agreed to.
    fn check_files(&self) {
        for file in std::fs::read_dir(self.person.project()).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            assert!(self.agreed.contains(&name), "{name} was made without an answer, of {:?}", self.agreed);
        }
    }
}

/// Asks a question in the conversation that is watched, and has several clients answer it at once.
fn fight(
    random: &mut Rng,
    stage: &mut Stage,
    steady: &mut Talker,
    conversation: &str,
    figures: &mut Figures,
) {
    stage.files += 1;
    let file = format!("s{}", stage.files);
    let submit = json!({ "conversation": conversation, "text": format!("run touch {file}") });
    let sent = steady.client.call("submit", &submit).unwrap()["seq"].as_u64().unwrap();
    let card = serde_json::to_value(steady.client.card()).unwrap();
    figures.questions += 1;
    if random.u8(..3) == 0 {
        // The question waits for a client that comes back.
        let (seq, view) = (steady.client.seq, steady.client.view.clone());
        *steady = Talker::attach(stage, "approver");
        figures.cuts += 1;
        (steady.client.seq, steady.client.view) = (seq, view);
        let after = if random.bool() { json!(seq) } else { Value::Null };
        let subscribe = json!({ "conversation": conversation, "after": after });
        steady.client.call("subscribe", &subscribe).unwrap();
        assert_eq!(serde_json::to_value(steady.client.card()).unwrap(), card);
    }
    let mut others = [Talker::attach(stage, "approver"), Talker::attach(stage, "driver")];
    let (yes, no) = (json!({ "answer": "once" }), json!({ "answer": "no" }));
    let mut has_right = false;
    for _ in 0..random.usize(1..6) {
        let at = random.usize(..3);
        let has_digest = random.u8(..3) == 0;
        let answer = if random.u8(..4) == 0 { &no } else { &yes };
        has_right |= has_digest && at < 2;
        match at {
            0 => steady.answer(conversation, &card, has_digest, answer),
            other => others[other - 1].answer(conversation, &card, has_digest, answer),
        }
    }
    let before = figures.right.get("accepted").copied().unwrap_or_default();
    for talker in std::iter::once(&mut *steady).chain(&mut others) {
        talker.all_answered(figures, &mut stage.agreed);
    }
    let accepted = figures.right.get("accepted").copied().unwrap_or_default() - before;
    assert_eq!(accepted, u64::from(has_right), "{card}");
    if !has_right {
        assert!(!stage.person.project().join(&file).exists());
        steady.answer(conversation, &card, true, &no);
        steady.all_answered(figures, &mut stage.agreed);
    }
    let is_settled = |line: &Value| {
        line["method"] == "conversation/settled" && line["params"]["seq"].as_u64() > Some(sent)
    };
    let was_settled = steady.client.notes.iter().any(is_settled);
    if !was_settled {
        steady.client.until("the end", |_, line| is_settled(line));
    }
    let is_made = stage.person.project().join(&file).exists();
    assert_eq!(is_made, stage.agreed.contains(&file), "{file}");
}

/// One dialogue: clients that send anything and break off, and questions between them.
fn talk(random: &mut Rng, stage: &mut Stage, conversation: &str, figures: &mut Figures) {
    let mut steady = Talker::attach(stage, "approver");
    steady.client.call("subscribe", &json!({ "conversation": conversation })).unwrap();
    let roles = ["viewer", "driver", "approver", "approver"];
    let listed = steady.client.call("session/list", &json!({ "limit": 20 })).unwrap();
    let ids =
        listed["sessions"].as_array().unwrap().iter().map(|row| row["session"].as_str().unwrap().to_owned());
    stage.sessions = ids.collect();
    let wild = |stage: &Stage, random: &mut Rng| {
        let mut talker = Talker::attach(stage, some(random, &roles));
        talker.client.is_wild = true;
        // The conversation may be closed already.
        let _ = talker.client.call("subscribe", &json!({ "conversation": stage.wild }));
        talker
    };
    let mut talkers: Vec<Talker> = (0..2).map(|_| wild(stage, random)).collect();
    for _ in 0..random.usize(4..16) {
        let at = random.usize(..talkers.len());
        match random.u8(..32) {
            0 => fight(random, stage, &mut steady, conversation, figures),
            1 => {
                talkers[at].client.write_part("{\"jsonrpc\":\"2.0\",\"id\":1,\"meth");
                // Answers of this one may have been accepted.
                let unheard = talkers[at].sent.values().filter(|sent| sent.has_digest && sent.agrees);
                stage.agreed.extend(unheard.flat_map(|sent| sent.files.iter().cloned()));
                talkers[at] = wild(stage, random);
                figures.cuts += 1;
            }
            2 if random.u8(..20) == 0 => {
                let piece = "x".repeat(1 << 20);
                (0..17).for_each(|_| talkers[at].client.write_part(&piece));
                talkers[at].client.write("");
                *talkers[at].waits.entry("null".to_owned()).or_default() += 1;
            }
            _ => {
                talkers[at].look(figures, &mut stage.agreed);
                say(random, &mut talkers[at], stage);
            }
        }
        figures.requests += 1;
    }
    if random.u8(..3) == 0 {
        fight(random, stage, &mut steady, conversation, figures);
    }
    for talker in &mut talkers {
        talker.all_answered(figures, &mut stage.agreed);
    }
}

/// Holds these dialogues with a server of their own.
fn hold(dialogues: Range<u64>) -> Figures {
    let (mut figures, mut stage, mut conversation) = (Figures::default(), Stage::new(), String::new());
    let mut keeper = stage.serving.approver();
    for seed in dialogues {
        let open_now = |keeper: &mut Client| -> Vec<String> {
            let open = keeper.call("conversations", &json!({})).unwrap()["conversations"].take();
            let ids = open.as_array().unwrap().iter().map(|row| row["conversation"].as_str().unwrap());
            ids.map(str::to_owned).collect()
        };
        if seed % OF_A_CONVERSATION == 0 || conversation.is_empty() {
            for id in open_now(&mut keeper) {
                let _ = keeper.call("close", &json!({ "conversation": id }));
            }
            conversation = new_conversation(&mut keeper);
            stage.wild.clear();
        }
        if !open_now(&mut keeper).contains(&stage.wild) {
            stage.wild = new_conversation(&mut keeper);
        }
        talk(&mut Rng::with_seed(seed), &mut stage, &conversation, &mut figures);
        stage.check_files();
        assert!(stage.serving.child.try_wait().unwrap().is_none(), "the server ended in dialogue {seed}");
        figures.dialogues += 1;
    }
    figures
}

fn new_conversation(client: &mut Client) -> String {
    client.call("session/new", &json!({})).unwrap()["conversation"].as_str().unwrap().to_owned()
}

#[test]
fn of_generated_dialogues_every_request_is_answered_and_nothing_runs_without_its_digest() {
    let (all, next, begun) = (Mutex::new(Figures::default()), AtomicU64::new(0), Instant::now());
    let count = dialogues();
    std::thread::scope(|scope| {
        for _ in 0..SERVERS {
            scope.spawn(|| {
                loop {
                    let first = next.fetch_add(OF_A_SERVER, Ordering::Relaxed);
                    if first >= count {
                        return;
                    }
                    let figures = hold(first..count.min(first + OF_A_SERVER));
                    let mut all = all.lock().unwrap();
                    all.add(figures);
                    println!("{} dialogues in {:?}: {all:?}", all.dialogues, begun.elapsed());
                }
            });
        }
    });
    assert_eq!(all.into_inner().unwrap().dialogues, count);
}
