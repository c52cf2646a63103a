use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use zk_core::kernel::BoxError;
use zk_tui::{Entry, Menu, Style};

use super::flow::{Choice, Dialog, Purpose, choose};
use crate::opening::error::ChatError;
use crate::opening::provider_access::{AccessWay, LocalOffer, PendingSignIn, ProviderAccess, ProviderOffer};

/// Fake dialog with scripted answers: the label of a row, or a line; `None` cancels.
#[derive(Default)]
struct Person {
    answers: VecDeque<Option<&'static str>>,
    shown: Vec<String>,
}

impl Person {
    fn answering(answers: &[&'static str]) -> Self {
        let answers = answers.iter().map(|answer| Some(*answer).filter(|answer| *answer != "Esc")).collect();
        Self { answers, shown: Vec::new() }
    }

    fn answer(&mut self) -> Option<&'static str> {
        self.answers.pop_front().expect("nothing more is asked")
    }

    fn has_seen(&self, text: &str) -> bool {
        self.shown.iter().any(|shown| shown.contains(text))
    }
}

impl Dialog for Person {
    async fn choose(&mut self, menu: Menu) -> Result<Option<usize>, ChatError> {
        self.shown.extend(menu.lines());
        let answer = self.answer();
        Ok(answer.map(|label| menu.named(label).unwrap_or_else(|| panic!("{label}: {:?}", menu.lines()))))
    }

    async fn enter(&mut self, entry: Entry) -> Result<Option<String>, ChatError> {
        self.shown.push(entry.title().to_owned());
        Ok(self.answer().map(str::to_owned))
    }

    async fn wait<T>(&mut self, text: &str, work: impl Future<Output = T>) -> Result<Option<T>, ChatError> {
        self.shown.push(text.to_owned());
        Ok(Some(work.await))
    }

    async fn enter_while<T>(
        &mut self,
        _: &str,
        lines: UnboundedSender<String>,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, ChatError> {
        let Some(line) = self.answer() else { return Ok(None) };
        lines.send(line.to_owned()).unwrap();
        Ok(Some(work.await))
    }

    fn takes_lines_while_waiting(&self) -> bool {
        true
    }

    fn say(&mut self, _: Style, text: &str) -> Result<(), ChatError> {
        self.shown.push(text.to_owned());
        Ok(())
    }
}

/// Fake access that accepts the key `right` and has these local models.
#[derive(Default)]
struct Machine {
    models: Vec<&'static str>,
    named: Option<&'static str>,
    stored: Mutex<Vec<String>>,
    kept: Mutex<Vec<(String, Option<String>)>>,
}

#[async_trait]
impl ProviderAccess for Machine {
    async fn is_missing(&self) -> bool {
        true
    }

    fn named_provider(&self) -> Option<String> {
        self.named.map(str::to_owned)
    }

    fn offers(&self) -> Vec<ProviderOffer> {
        let offer = |name: &str, title: &str, is_major| ProviderOffer {
            name: name.to_owned(),
            title: title.to_owned(),
            ways: vec![AccessWay::Key(None)],
            is_major,
        };
        let sign_in =
            AccessWay::SignIn { provider: "codex".to_owned(), label: "sign in with ChatGPT".to_owned() };
        let mut openai = offer("openai", "OpenAI", true);
        openai.ways.push(sign_in);
        let others = [("openrouter", "OpenRouter"), ("gemini", "Gemini"), ("groq", "Groq"), ("xai", "xAI")];
        let others = others.map(|(name, title)| offer(name, title, false));
        [offer("anthropic", "Anthropic", true), openai].into_iter().chain(others).collect()
    }

    async fn local_servers(&self) -> Vec<LocalOffer> {
        let models = self.models.iter().map(|model| (*model).to_owned()).collect();
        let server =
            |provider: &str, port, models| LocalOffer { provider: provider.to_owned(), port, models };
        vec![server("ollama", 11434, models), server("vllm", 8000, Vec::new())]
    }

    async fn store_key(&self, provider: &str, key: &str) -> Result<Option<String>, BoxError> {
        match key {
            "wrong" => Err(format!("{provider} does not take this key").into()),
            key => {
                self.stored.lock().unwrap().push(format!("{provider} {key}"));
                Ok((key == "offline").then(|| "no network".to_owned()))
            }
        }
    }

    async fn begin_sign_in(&self, provider: &str) -> Result<Box<dyn PendingSignIn>, BoxError> {
        Ok(Box::new(Page(provider.to_owned())))
    }

    fn keep_choice(&self, provider: &str, model: Option<&str>) -> Result<(), BoxError> {
        self.kept.lock().unwrap().push((provider.to_owned(), model.map(str::to_owned)));
        Ok(())
    }
}

/// Fake sign-in that accepts the code `right`.
struct Page(String);

#[async_trait]
impl PendingSignIn for Page {
    fn url(&self) -> &str {
        "https://sign-in.example/authorize"
    }

    async fn finish(self: Box<Self>, mut pasted: UnboundedReceiver<String>) -> Result<(), BoxError> {
        match pasted.recv().await.as_deref() {
            Some("right") => Ok(()),
            _ => Err(format!("{} does not know this code", self.0).into()),
        }
    }
}

async fn chosen(machine: &Machine, purpose: Purpose, answers: &[&'static str]) -> (Choice, Person) {
    let mut person = Person::answering(answers);
    let choice = choose(&mut person, machine, purpose).await.unwrap();
    assert!(person.answers.is_empty(), "not asked: {:?}; {:#?}", person.answers, person.shown);
    (choice, person)
}

fn provider(name: &str, model: Option<&str>) -> Choice {
    Choice::Provider { name: name.to_owned(), model: model.map(str::to_owned) }
}

#[tokio::test]
async fn a_first_start_offers_keys_a_sign_in_this_computer_and_the_demo() {
    let machine = Machine::default();
    let (choice, person) = chosen(&machine, Purpose::FirstStart, &["Just look"]).await;
    assert_eq!(choice, Choice::Demo);
    for line in [
        "zk needs a model.",
        "1. Anthropic: paste an API key",
        "2. OpenAI: paste an API key · sign in with ChatGPT",
        "3. OpenRouter, Gemini, 2 more …",
        "4. This computer: nothing found on 11434, 8000",
        "5. Just look: zk demo, a scripted model with real tools",
    ] {
        assert!(person.shown.iter().any(|shown| shown == line), "{line}: {:#?}", person.shown);
    }
    assert!(machine.kept.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_refused_key_is_told_and_asked_for_again_and_the_right_one_is_kept_with_the_choice() {
    let machine = Machine::default();
    let answers = ["Anthropic", "", "two words", "wrong", "right"];
    let (choice, person) = chosen(&machine, Purpose::FirstStart, &answers).await;
    assert_eq!(choice, provider("anthropic", None));
    assert!(person.has_seen("anthropic does not take this key") && person.has_seen("the key works"));
    assert_eq!(*machine.stored.lock().unwrap(), ["anthropic right"]);
    assert_eq!(*machine.kept.lock().unwrap(), [("anthropic".to_owned(), None)]);
    assert!(!person.has_seen("right"), "a key is never shown");
}

#[tokio::test]
async fn an_unverified_key_is_stored_with_a_warning() {
    let machine = Machine::default();
    let (choice, person) = chosen(&machine, Purpose::LogIn(Some("groq".to_owned())), &["offline"]).await;
    assert_eq!(choice, provider("groq", None));
    assert!(person.has_seen("the key is stored, but not checked: no network"));
    assert!(machine.kept.lock().unwrap().is_empty(), "only a first start keeps the choice");
}

#[tokio::test]
async fn every_list_goes_back_to_the_one_before() {
    let machine = Machine::default();
    let answers = ["OpenRouter, Gemini, 2 more …", "xAI", "Esc", "Esc", "OpenAI", "Esc", "Esc"];
    let (choice, _) = chosen(&machine, Purpose::LogIn(None), &answers).await;
    assert_eq!(choice, Choice::Left);
}

#[tokio::test]
async fn a_sign_in_shows_its_address_and_takes_what_is_pasted() {
    let machine = Machine::default();
    let answers = ["OpenAI", "sign in with ChatGPT", "bad", "OpenAI", "sign in with ChatGPT", "right"];
    let (choice, person) = chosen(&machine, Purpose::FirstStart, &answers).await;
    assert_eq!(choice, provider("codex", None));
    assert!(person.has_seen("https://sign-in.example/authorize") && person.has_seen("codex does not know"));
    let (choice, _) = chosen(&machine, Purpose::LogIn(Some("codex".to_owned())), &["right"]).await;
    assert_eq!(choice, provider("codex", None));
}

#[tokio::test]
async fn a_model_of_this_computer_is_used_without_a_key() {
    let one = Machine { models: vec!["qwen3:8b"], ..Machine::default() };
    let (choice, person) = chosen(&one, Purpose::FirstStart, &["This computer"]).await;
    assert_eq!(choice, provider("ollama", Some("qwen3:8b")));
    assert!(person.has_seen("This computer: ollama: qwen3:8b"));
    assert_eq!(*one.kept.lock().unwrap(), [("ollama".to_owned(), Some("qwen3:8b".to_owned()))]);
    let two = Machine { models: vec!["a", "b"], ..Machine::default() };
    let (choice, _) = chosen(&two, Purpose::FirstStart, &["This computer", "b"]).await;
    assert_eq!(choice, provider("ollama", Some("b")));
    let none = Machine::default();
    let (choice, person) = chosen(&none, Purpose::LogIn(None), &["This computer", "Esc"]).await;
    assert_eq!(choice, Choice::Left);
    assert!(person.has_seen("ollama (port 11434), vllm (port 8000)"));
}

#[tokio::test]
async fn an_unknown_provider_name_suggests_the_nearest() {
    let machine = Machine::default();
    let (choice, person) = chosen(&machine, Purpose::LogIn(Some("antropic".to_owned())), &[]).await;
    assert_eq!(choice, Choice::Left);
    assert!(person.has_seen("did you mean `anthropic`?"), "{:#?}", person.shown);
}
