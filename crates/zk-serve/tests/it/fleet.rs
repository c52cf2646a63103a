//! `zk fleet serve` over real connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use zk_core::kernel::Source;
use zk_core::model::{EntryId, Message, SessionId};
use zk_core::service::{
    Approval, Durability, EngineName, Entry, EntryKind, Job, Lease, LegEnd, Legs, MailKind, NewEntry,
    NewSession, OpenSession, QUESTION_ENTRY, Question, Redactor, RelayPiece, RelaySignal, RunPhase,
    RunStatus, ScheduleTimes, Selection, SessionFilter, SessionInfo, SessionSnapshot, SessionStore,
    StoreError, StoredQuestion, Take, UiAnswer, Wait,
};
use zk_engine::{LocalEngine, Placement, Runs};
use zk_exec::LocalStateFiles;
use zk_serve::LoopbackListener;
use zk_serve::fleet::{FleetServer, FleetTokens};
use zk_session::MemoryStore;

const ALL: &str = "token-for-all-of-them";
const ACME: &str = "token-of-the-tenant-acme";
const HOOK: &str = "token-of-one-webhook";

/// Server in the background, with its engine and store.
struct Desk {
    address: SocketAddr,
    runs: Runs,
    server: Arc<FleetServer>,
    task: JoinHandle<()>,
    _dir: tempfile::TempDir,
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Desk {
    async fn start() -> Self {
        Self::over(Arc::new(MemoryStore::new())).await
    }

    async fn over(store: Arc<dyn SessionStore>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = LocalEngine::new(dir.path().join("engine"), Arc::new(LocalStateFiles::default()));
        let runs = Runs::new(Arc::new(engine), store, Arc::new(Redactor::new()));
        let tokens = format!("* {ALL}\nacme {ACME}\nhook:nightly {HOOK}\n");
        let server = FleetServer::new(runs.clone(), FleetTokens::parse(&tokens).unwrap(), "/project".into());
        let listener = LoopbackListener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.url().strip_prefix("http://").unwrap().parse().unwrap();
        let serving = server.clone();
        let task = tokio::spawn(async move { serving.serve(&listener).await.unwrap() });
        Self { address, runs, server, task, _dir: dir }
    }

    async fn open(&self, token: &str, head: &str, body: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let length = body.len();
        let request = format!(
            "{head} HTTP/1.1\r\nhost: zk\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        BufReader::new(stream)
    }

    /// Returns the status and the JSON of an answer.
    async fn ask(&self, token: &str, head: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = self.open(token, head, &body).await;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        (status, serde_json::from_str(body).unwrap())
    }

    async fn serve_once(&self, end: LegEnd) {
        let take = Take { once: true, ..Take::new(EngineName::new("w").unwrap()) };
        self.runs.engine().serve(take, Arc::new(Ending(end)), CancellationToken::new()).await.unwrap();
    }
}

/// Legs that all end in one way.
struct Ending(LegEnd);

#[async_trait]
impl Legs for Ending {
    async fn leg(&self, _: &Job, _: Lease) -> LegEnd {
        self.0.clone()
    }
}

fn run_of(job: &Value) -> String {
    job["run"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_token_sees_the_runs_of_its_tenant_alone() {
    let desk = Desk::start().await;
    let (status, job) = desk.ask(ACME, "POST /v1/runs", json!({"prompt": "Do it.", "queue": "q"})).await;
    assert_eq!((status, &job["tenant"], &job["queue"]), (201, &json!("acme"), &json!("q")), "{job}");
    let (_, other) = desk.ask(ALL, "POST /v1/runs", json!({"prompt": "Do more."})).await;
    let ids = |listed: &Value| -> Vec<String> {
        listed.as_array().unwrap().iter().map(|run| run_of(&run["job"])).collect()
    };
    let (_, own) = desk.ask(ACME, "GET /v1/runs", Value::Null).await;
    assert_eq!(ids(&own), [run_of(&job)]);
    let (_, all) = desk.ask(ALL, "GET /v1/runs?phase=queued&limit=10", Value::Null).await;
    assert_eq!(ids(&all), [run_of(&job), run_of(&other)]);
    for (head, body) in [
        (format!("GET /v1/runs/{}", run_of(&other)), Value::Null),
        (format!("GET /v1/runs/{}/events", run_of(&other)), Value::Null),
        (format!("POST /v1/runs/{}/steer", run_of(&other)), json!({"text": "hi"})),
        (format!("POST /v1/runs/{}/abort", run_of(&other)), Value::Null),
        (format!("POST /v1/runs/{}/approve", run_of(&other)), json!({"no": true})),
    ] {
        let (status, answer) = desk.ask(ACME, &head, body).await;
        assert_eq!(status, 404, "{head}: {answer}");
    }
    // The id of another tenant's run submits nothing, and tells nothing of that run.
    let again = json!({"prompt": "Mine.", "run": run_of(&other)});
    assert_eq!(desk.ask(ACME, "POST /v1/runs", again).await.0, 409);
    for (token, head) in [("guess", "GET /v1/runs"), ("", "GET /v1/runs"), (HOOK, "GET /v1/runs")] {
        let (status, answer) = desk.ask(token, head, Value::Null).await;
        assert!(matches!(status, 401 | 403), "{token}: {status} {answer}");
    }
}

#[tokio::test]
async fn bad_requests_are_told_and_change_nothing() {
    let desk = Desk::start().await;
    for (head, body, expected) in [
        ("POST /v1/runs", json!({"prompt": "  "}), 400),
        ("POST /v1/runs", json!({"prompt": "x", "cwd": "/etc"}), 400),
        ("POST /v1/runs", json!({"prompt": "x", "preset": "../../x"}), 400),
        ("POST /v1/runs", json!([]), 400),
        ("POST /v1/runs", json!({"prompt": "x", "budget": {}}), 400),
        ("POST /v1/runs", json!({"prompt": "x", "budget": {"usd": null}}), 400),
        ("POST /v1/runs", json!({"prompt": "x", "budget": {"dollars": 5}}), 400),
        ("POST /v1/runs", json!({"prompt": "x", "budget": {"usd": -1}}), 400),
        ("POST /v1/runs", json!({"prompt": "x", "budget": {"usd": 5, "tokens": 0}}), 400),
        ("GET /v1/runs?phase=odd", Value::Null, 400),
        ("GET /v1/runs/r_none", Value::Null, 404),
        ("DELETE /v1/runs", Value::Null, 404),
        ("GET /elsewhere", Value::Null, 404),
        ("POST /v1/hooks/none", Value::Null, 404),
    ] {
        let (status, answer) = desk.ask(ALL, head, body).await;
        assert_eq!(status, expected, "{head}: {answer}");
        assert!(answer["error"].as_str().is_some_and(|why| !why.is_empty()), "{head}: {answer}");
    }
    assert_eq!(desk.ask(ALL, "GET /v1/runs", Value::Null).await.1, json!([]));
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_with_the_limit() {
    let desk = Desk::start().await;
    let most = 1 << 20;
    let (status, answer) = desk.ask(ALL, "POST /v1/runs", json!({"prompt": "x".repeat(most)})).await;
    assert_eq!(status, 413, "{answer}");
    assert!(answer["error"].as_str().unwrap().contains(&format!("over {most} bytes")), "{answer}");
    assert_eq!(desk.ask(ALL, "GET /v1/runs", Value::Null).await.1, json!([]));
}

#[tokio::test]
async fn a_token_that_is_removed_ends_at_once_and_a_new_one_holds() {
    let desk = Desk::start().await;
    let (_, job) = desk.ask(ACME, "POST /v1/runs", json!({"prompt": "Do it."})).await;
    let mut events = desk.open(ACME, &format!("GET /v1/runs/{}/events", run_of(&job)), "").await;
    let mut line = String::new();
    while !line.contains("event: run") {
        line.clear();
        assert!(events.read_line(&mut line).await.unwrap() > 0);
    }
    desk.server.replace_tokens(FleetTokens::parse("acme another-token-of-acme").unwrap());
    let mut rest = String::new();
    events.read_to_string(&mut rest).await.unwrap();
    assert!(rest.contains("event: error") && rest.contains("the token is missing or invalid"), "{rest}");
    assert_eq!(desk.ask(ACME, "GET /v1/runs", Value::Null).await.0, 401);
    assert_eq!(desk.ask("another-token-of-acme", "GET /v1/runs", Value::Null).await.0, 200);
    desk.server.replace_tokens(FleetTokens::none());
    assert_eq!(desk.ask("another-token-of-acme", "GET /v1/runs", Value::Null).await.0, 401);
}

#[tokio::test]
async fn a_run_is_steered_and_aborted() {
    let desk = Desk::start().await;
    let (_, job) =
        desk.ask(ALL, "POST /v1/runs", json!({"prompt": "Do it.", "budget": {"tokens": 5000}})).await;
    let id = run_of(&job);
    let (status, _) = desk.ask(ALL, &format!("POST /v1/runs/{id}/steer"), json!({"text": "Faster."})).await;
    assert_eq!(status, 202);
    let session = job["session"].as_str().unwrap().into();
    let open = desk.runs.store().open_leased(&session, &Lease::new(1)).await.unwrap();
    let mail: Vec<MailKind> = open.mail().await.unwrap().into_iter().map(|mail| mail.kind).collect();
    assert!(
        matches!(&mail[..], [MailKind::Budget { .. }, MailKind::Steer { text }] if text == "Faster."),
        "{mail:?}"
    );
    let (status, run) = desk.ask(ALL, &format!("POST /v1/runs/{id}/abort"), Value::Null).await;
    assert_eq!((status, &run["phase"]), (202, &json!("cancelled")));
    let (status, late) = desk.ask(ALL, &format!("POST /v1/runs/{id}/steer"), json!({"text": "Late."})).await;
    assert_eq!(status, 409, "{late}");
}

/// Returns a run that is parked at a question.
async fn parked_run(desk: &Desk, question: Question) -> Job {
    let job = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    let question = StoredQuestion {
        run_id: job.run().clone(),
        turn_id: "t_1".into(),
        call_id: "call_1".into(),
        tool: "shell".to_owned(),
        reason: "nobody is here".to_owned(),
        digest: "9f86d081".to_owned(),
        question,
    };
    let entry = NewEntry::hidden(QUESTION_ENTRY, 1, serde_json::to_value(&question).unwrap())
        .by(&Source::new("zk-agent"));
    let open = desk.runs.store().open(job.session()).await.unwrap();
    let ids = open.append(vec![EntryKind::Custom(entry)], Durability::Disk).await.unwrap();
    open.close().await.unwrap();
    drop(open);
    desk.serve_once(LegEnd::Parked(Wait::Answer(ids[0].clone()))).await;
    job
}

/// Returns the answers that a run has as mail.
async fn posted_answers(desk: &Desk, job: &Job) -> Vec<UiAnswer> {
    let open = desk.runs.store().open_leased(job.session(), &Lease::new(1)).await.unwrap();
    let mail = open.mail().await.unwrap();
    let answers = mail.into_iter().filter_map(|mail| match mail.kind {
        MailKind::Answer { answer, .. } => Some(answer),
        _ => None,
    });
    answers.collect()
}

#[tokio::test]
async fn an_approval_for_the_session_is_told_and_posted() {
    let desk = Desk::start().await;
    let approval = Approval { session: Some("exactly this call".to_owned()), ..Approval::default() };
    let job = parked_run(&desk, Question::Approve(Box::new(approval))).await;
    let approve = format!("POST /v1/runs/{}/approve", job.run());
    for (body, expected, words) in [
        (json!({"digest": "9f86d081", "for": "ever"}), 400, "ever"),
        (json!({"no": true, "for": "session"}), 400, "alone"),
        (json!({"digest": "9f86d081", "for": "always"}), 409, "yes, yes for the session, or no"),
        (json!({"digest": "00000000", "for": "session"}), 409, "another call"),
    ] {
        let (status, answer) = desk.ask(ALL, &approve, body.clone()).await;
        assert_eq!(status, expected, "{body}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(words), "{body}: {answer}");
    }
    let (status, _) =
        desk.ask(ALL, &format!("POST /v1/runs/{}/answer", job.run()), json!({"text": "yes"})).await;
    assert_eq!(status, 400, "a permission is no text");
    let (status, answer) = desk.ask(ALL, &approve, json!({"digest": "9f86d081", "for": "session"})).await;
    assert_eq!((status, &answer["granted"]), (202, &json!("exactly this call")), "{answer}");
    assert_eq!(posted_answers(&desk, &job).await, [UiAnswer::Session]);
}

#[tokio::test]
async fn a_question_that_is_no_permission_is_answered_by_number_or_in_words() {
    let desk = Desk::start().await;
    let ports = || vec!["8080".to_owned(), "9090".to_owned()];
    let closed: Question = Selection::new("Which port?", ports()).into();
    let open: Question = Selection::new("Which port?", ports()).accepting_words().into();
    let words = Question::Input { text: "Which name?".to_owned() };
    for (question, refused, (body, posted)) in [
        (
            closed,
            vec![(json!({"text": "7"}), 409), (json!({"choice": 3}), 409), (json!({"choice": 0}), 400)],
            (json!({"choice": 2}), UiAnswer::Choice { index: 1 }),
        ),
        (
            open,
            vec![(json!({"text": " "}), 409), (json!({"text": "7", "choice": 1}), 400), (json!({}), 400)],
            (json!({"text": "7070"}), UiAnswer::Text { text: "7070".to_owned() }),
        ),
        (words, vec![(json!({"choice": 1}), 409)], (json!({"no": true}), UiAnswer::No { message: None })),
    ] {
        let job = parked_run(&desk, question).await;
        let head = format!("POST /v1/runs/{}/answer", job.run());
        for (body, expected) in refused {
            let (status, answer) = desk.ask(ALL, &head, body.clone()).await;
            assert_eq!(status, expected, "{body}: {answer}");
        }
        assert_eq!(posted_answers(&desk, &job).await, []);
        assert_eq!(desk.ask(ACME, &head, body.clone()).await.0, 404);
        let (status, answer) = desk.ask(ALL, &head, body.clone()).await;
        assert_eq!(status, 202, "{body}: {answer}");
        assert_eq!(desk.ask(ALL, &head, body).await.0, 409, "a question has one answer");
        assert_eq!(posted_answers(&desk, &job).await, [posted]);
    }
}

#[tokio::test]
async fn an_approval_names_the_call_that_was_read() {
    let desk = Desk::start().await;
    let job = parked_run(&desk, Question::Approve(Box::default())).await;
    let id = job.run();
    let (_, shown) = desk.ask(ALL, &format!("GET /v1/runs/{id}"), Value::Null).await;
    assert_eq!(
        (&shown["phase"], &shown["question"]["digest"]),
        (&json!("parked"), &json!("9f86d081")),
        "{shown}"
    );
    let approve = format!("POST /v1/runs/{id}/approve");
    for (body, expected) in [
        (json!({}), 400),
        (json!({"digest": "00000000"}), 409),
        (json!({"digest": "9F86D081"}), 202),
        (json!({"digest": "9f86d081"}), 409),
    ] {
        let (status, answer) = desk.ask(ALL, &approve, body.clone()).await;
        assert_eq!(status, expected, "{body}: {answer}");
    }
    assert_eq!(desk.runs.find(id.as_str()).await.unwrap().phase, RunPhase::Queued);
}

async fn next_event(stream: &mut BufReader<TcpStream>) -> (String, String, String) {
    let (mut id, mut event) = (String::new(), String::new());
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).await.unwrap() > 0, "the stream ended");
        let line = line.trim_end();
        if let Some(value) = line.strip_prefix("id: ") {
            id = value.to_owned();
        } else if let Some(value) = line.strip_prefix("event: ") {
            event = value.to_owned();
        } else if let Some(data) = line.strip_prefix("data: ") {
            return (id, event, data.to_owned());
        }
    }
}

#[tokio::test]
async fn events_go_on_behind_the_last_one_and_end_with_the_run() {
    let desk = Desk::start().await;
    let job = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    let head = format!("GET /v1/runs/{}/events", job.run());
    let mut stream = desk.open(ALL, &head, "").await;
    let (first, event, data) = next_event(&mut stream).await;
    assert!(event == "entry" && data.contains("Do it."), "{event} {data}");
    assert_eq!(next_event(&mut stream).await.1, "run");
    let (relay, session) = (desk.runs.store().relay().unwrap(), job.session().clone());
    let sending = tokio::spawn(async move {
        loop {
            // A piece is lost before the client listens.
            let piece =
                RelayPiece { turn: "t_1".into(), number: 0, is_thinking: false, text: "It is".into() };
            relay.send(&session, &RelaySignal::Piece(piece)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let (id, event, data) = next_event(&mut stream).await;
    assert!(event == "piece" && id.is_empty() && data.contains("It is"), "{event} {data}");
    sending.abort();
    let open = desk.runs.store().open(job.session()).await.unwrap();
    let message = Message::injected("and more", "test").shared();
    let added: Vec<EntryId> =
        open.append(vec![EntryKind::Message { message, usage: None }], Durability::Disk).await.unwrap();
    let (id, event, data) = loop {
        let next = next_event(&mut stream).await;
        if next.1 != "piece" {
            break next;
        }
    };
    assert!(event == "entry" && data.contains("and more") && id == added[0].as_str(), "{event} {data}");
    open.close().await.unwrap();
    drop(open);
    desk.serve_once(LegEnd::Done(RunStatus::Completed)).await;
    let (_, event, data) = next_event(&mut stream).await;
    assert!(event == "run" && data.contains("\"done\""), "{event} {data}");
    assert_eq!(next_event(&mut stream).await.1, "end");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(!rest.contains("event:"), "{rest}");
    // A client that comes back gets the entries that it has not seen.
    let again = format!("{head} HTTP/1.1\r\nlast-event-id: {first}\r\nx-unused:");
    let mut stream = desk.open(ALL, &again, "").await;
    let (id, ..) = next_event(&mut stream).await;
    assert_eq!(id, added[0].as_str());
}

/// Store whose sessions cannot be read, but for their last entries.
struct BreakingStore(MemoryStore);

#[async_trait]
impl SessionStore for BreakingStore {
    async fn create(&self, new: NewSession) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.0.create(new).await
    }

    async fn open(&self, id: &SessionId) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.0.open(id).await
    }

    async fn read(&self, _: &SessionId) -> Result<SessionSnapshot, StoreError> {
        Err(StoreError::Failed("the disk is gone".to_owned()))
    }

    async fn last_entries(&self, id: &SessionId, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.0.last_entries(id, most).await
    }

    async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError> {
        self.0.list(filter).await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        self.0.delete(id).await
    }
}

#[tokio::test]
async fn events_end_with_the_error_of_the_store() {
    let desk = Desk::over(Arc::new(BreakingStore(MemoryStore::new()))).await;
    let job = desk.runs.submit("/project", "Do it.", Placement::default()).await.unwrap();
    desk.serve_once(LegEnd::Done(RunStatus::Completed)).await;
    let mut stream = desk.open(ALL, &format!("GET /v1/runs/{}/events", job.run()), "").await;
    let (_, event, data) = next_event(&mut stream).await;
    assert!(event == "error" && data.contains("the disk is gone"), "{event} {data}");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(!rest.contains("event:"), "{rest}");
}

#[tokio::test]
async fn a_webhook_submits_a_run_of_its_schedule_once_for_a_key() {
    let desk = Desk::start().await;
    for name in ["nightly", "weekly"] {
        let times = ScheduleTimes::DailyAt(0);
        let place = ("/project".into(), "Look at it.");
        desk.runs.schedule(EngineName::new(name).unwrap(), times, place, Placement::default()).await.unwrap();
    }
    let keyed = "POST /v1/hooks/nightly HTTP/1.1\r\nidempotency-key: build-7\r\nx-unused:";
    let (status, first) = desk.ask(HOOK, keyed, Value::Null).await;
    let (_, again) = desk.ask(HOOK, keyed, Value::Null).await;
    assert_eq!((status, &first), (201, &again), "{first}");
    assert!(first["template"].as_str().is_some());
    let (_, another) = desk.ask(HOOK, "POST /v1/hooks/nightly", Value::Null).await;
    assert_ne!(first["run"], another["run"]);
    assert_eq!(desk.ask(HOOK, "POST /v1/hooks/weekly", Value::Null).await.0, 403);
    assert_eq!(desk.ask(ACME, "POST /v1/hooks/nightly", Value::Null).await.0, 403);
}
