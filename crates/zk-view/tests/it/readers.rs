use std::sync::Arc;
use std::time::Duration;

use zk_agent::Agent;
use zk_core::events::StreamText;
use zk_core::kernel::Bus;
use zk_core::service::{Question, Questions, UiAnswer};
use zk_testkit::{Script, ScriptedProvider};
use zk_view::{Content, Intent, Patch, View, ViewDriver};

fn delta(text: &str) -> StreamText {
    StreamText { turn_id: "t".into(), delta: text.into() }
}

#[tokio::test]
async fn a_reader_that_sleeps_gets_the_text_in_one_patch() {
    let (bus, driver) = (Bus::new(), ViewDriver::new());
    bus.install(&driver).unwrap();
    let mut reader = driver.reader();
    let mut view = View::default();
    reader.next().await.unwrap().iter().for_each(|patch| view.apply(patch));
    for _ in 0..10_000 {
        bus.cx().emit(delta("word ")).await.unwrap();
    }
    let patches = reader.next().await.unwrap();
    assert_eq!(patches.len(), 2, "one opens the block, one has all its text");
    patches.iter().for_each(|patch| view.apply(patch));
    assert_eq!(view, driver.view());
}

#[tokio::test]
async fn a_reader_that_falls_behind_gets_the_whole_view_once() {
    let (bus, driver) = (Bus::new(), ViewDriver::new());
    bus.install(&driver).unwrap();
    let mut reader = driver.reader();
    reader.next().await.unwrap();
    for _ in 0..3000 {
        driver.note(zk_view::NoteLevel::Info, "x");
    }
    let patches = reader.next().await.unwrap();
    let [Patch::Reset { view }] = &patches[..] else { panic!("{} patches", patches.len()) };
    assert_eq!(**view, driver.view());
    bus.cx().emit(delta("more")).await.unwrap();
    assert!(matches!(reader.next().await.unwrap()[..], [Patch::Open { .. }, Patch::Grow { .. }]));
}

#[test]
fn a_hundred_thousand_deltas_stay_bounded_while_nobody_reads() {
    let count: usize = 100_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let info = allocation_counter::measure(|| {
        runtime.block_on(async {
            let (bus, driver) = (Bus::new(), ViewDriver::new());
            bus.install(&driver).unwrap();
            let mut sleeping = driver.reader();
            sleeping.next().await.unwrap();
            let cx = bus.cx();
            for _ in 0..count {
                cx.emit(delta("twenty bytes of text")).await.unwrap();
            }
            let mut view = View::default();
            sleeping.next().await.unwrap().iter().for_each(|patch| view.apply(patch));
            let Content::Answer { text, .. } = &view.blocks[0].content else { panic!() };
            assert_eq!(text.as_str().len(), 20 * count);
        });
    });
    assert!(info.bytes_max <= 32 << 20, "{} bytes at once", info.bytes_max);
}

#[tokio::test]
async fn an_agent_ends_long_before_a_reader_that_sleeps_has_read() {
    const DELTAS: usize = 100_000;
    let words = vec!["twenty bytes of text"; DELTAS];
    let agent = |driver: Option<&ViewDriver>| {
        let bus = Bus::new();
        driver.map(|driver| bus.install(driver).unwrap());
        let script = Script::new().turn(|turn| turn.chunks(words.clone()));
        Agent::builder(Arc::new(ScriptedProvider::new(script))).bus(bus).build().unwrap()
    };
    let driver = ViewDriver::new();
    let (with, without) = (agent(Some(&driver)), agent(None));
    let mut reader = driver.reader();
    reader.next().await.unwrap();
    // The reader takes nothing before the run is over, so waiting for it would never end.
    let seen = with.run("go").unwrap().wait().await;
    let alone = without.run("go").unwrap().wait().await;
    assert_eq!((seen.text.len(), &seen.text), (20 * DELTAS, &alone.text));
    let patches = reader.next().await.unwrap();
    assert!(patches.len() < 20, "{} patches", patches.len());
    assert_eq!(driver.view().blocks.len(), 3);
}

#[tokio::test]
async fn readers_end_with_the_bus() {
    let (bus, driver) = (Bus::new(), ViewDriver::new());
    bus.install(&driver).unwrap();
    let mut reader = driver.reader();
    reader.next().await.unwrap();
    bus.cx().emit(delta("last")).await.unwrap();
    bus.close().await;
    assert!(reader.next().await.is_some());
    assert_eq!(reader.next().await, None);
}

#[tokio::test]
async fn a_view_goes_on_on_another_bus_with_what_it_shows_and_answers() {
    let questions = Questions::new();
    let view = ViewDriver::answering(&questions);
    for times in 1..=2_usize {
        let bus = Bus::new();
        bus.install(&view).unwrap();
        let mut reader = view.reader();
        bus.cx().emit(delta("more ")).await.unwrap();
        reader.next().await.unwrap();
        let Content::Answer { text, .. } = &view.view().blocks[0].content else { panic!() };
        assert_eq!(text.as_str(), "more ".repeat(times));
        let (asking, cx) = (questions.clone(), bus.cx());
        let question = Question::Confirm { text: "Go on?".into() };
        let asked = tokio::spawn(async move { asking.ask(question, &cx, Duration::from_secs(60)).await });
        while view.view().cards.is_empty() {
            reader.next().await.unwrap();
        }
        let card = view.view().cards[0].clone();
        view.intent(&Intent::Answer { id: card.id, digest: card.digest, answer: UiAnswer::Once });
        assert_eq!(asked.await.unwrap(), UiAnswer::Once);
        bus.close().await;
        while reader.next().await.is_some() {}
    }
}

#[tokio::test]
async fn somebody_can_wait_until_a_reader_has_dealt_with_everything() {
    let (bus, driver) = (Bus::new(), ViewDriver::new());
    bus.install(&driver).unwrap();
    let mut reader = driver.reader();
    let drained = reader.drained();
    let seen = Arc::new(std::sync::Mutex::new(0));
    let count = seen.clone();
    let reading = tokio::spawn(async move {
        while let Some(patches) = reader.next().await {
            tokio::task::yield_now().await;
            *count.lock().unwrap() += patches.len();
        }
    });
    driver.note(zk_view::NoteLevel::Info, "x");
    drained.wait().await;
    assert_eq!(*seen.lock().unwrap(), 1, "the whole view");
    driver.note(zk_view::NoteLevel::Info, "y");
    drained.wait().await;
    assert_eq!(*seen.lock().unwrap(), 2);
    reading.abort();
    let _ = reading.await;
    drained.wait().await;
}

#[tokio::test]
async fn questions_are_cards_that_only_an_answer_with_their_digest_resolves() {
    let questions = Questions::new();
    let (bus, driver) = (Bus::new(), ViewDriver::answering(&questions));
    bus.install(&driver).unwrap();
    let cx = bus.cx();
    let ask =
        |text: &str| questions.ask(Question::Confirm { text: text.into() }, &cx, Duration::from_secs(60));
    let mut reader = driver.reader();
    let answer = async {
        let mut cards = Vec::new();
        while cards.len() < 2 {
            for patch in reader.next().await.unwrap() {
                match patch {
                    Patch::Ask { card } => cards.push(card),
                    Patch::Reset { view } => cards.extend(view.cards.into_iter().map(Box::new)),
                    _ => {}
                }
            }
        }
        let answer = |id, digest| Intent::Answer { id, digest, answer: UiAnswer::Once };
        driver.intent(&answer(cards[0].id, cards[1].digest));
        assert_eq!(driver.view().cards.len(), 2, "the digest of another question answers nothing");
        driver.intent(&answer(cards[0].id, cards[0].digest));
        driver.intent(&answer(cards[1].id, cards[1].digest));
    };
    let (one, two, ()) = tokio::join!(ask("one"), ask("two"), answer);
    assert_eq!((one, two), (UiAnswer::Once, UiAnswer::Once));
    while !driver.view().cards.is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_bus_that_closes_late_does_not_close_the_view_of_the_next_one() {
    let (first, second, driver) = (Bus::new(), Bus::new(), ViewDriver::new());
    first.install(&driver).unwrap();
    second.install(&driver).unwrap();
    let mut reader = driver.reader();
    reader.next().await.unwrap();
    first.close().await;
    second.cx().emit(delta("Hello.")).await.unwrap();
    assert!(reader.next().await.is_some_and(|patches| !patches.is_empty()));
    let next = tokio::time::timeout(Duration::from_millis(20), reader.next()).await;
    assert!(next.is_err(), "the view is open: {next:?}");
    second.close().await;
    assert_eq!(reader.next().await, None);
}
