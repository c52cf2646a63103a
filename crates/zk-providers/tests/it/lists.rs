//! What is asked beside answers, of a server of every dialect: its models, and how long a request is.

use zk_core::kernel::Bus;
use zk_core::model::ErrorKind;
use zk_testkit::Script;

use crate::collect::{collect, question};
use crate::switching::station::STATIONS;

#[tokio::test]
async fn every_provider_lists_the_models_of_its_server() {
    for station in STATIONS {
        let server = station.builder(Script::new()).models(station.models).start().expect("a socket is free");
        let provider = station.provider(&server);
        let listed = provider.list_models(&Bus::new().cx()).await.expect("an answer");
        let ids = listed.map(|models| models.into_iter().map(|model| model.id).collect::<Vec<_>>());
        // The back end of subscriptions has no list.
        let expected = (station.name != "codex").then(|| station.models.map(str::to_owned).to_vec());
        assert_eq!(ids, expected, "{}", station.name);
    }
}

#[tokio::test]
async fn every_provider_that_counts_tokens_counts_them() {
    let mut counting = Vec::new();
    for station in STATIONS {
        let server = station.server(Script::new());
        let provider = station.provider(&server);
        let request = question(&*provider, station.models[0]);
        let count = provider.count_tokens(request, &Bus::new().cx()).await.expect("an answer");
        counting.extend(count.filter(|count| *count > 0).map(|_| station.name));
        assert_eq!(server.violations(), Vec::new(), "{}", station.name);
    }
    assert_eq!(counting, ["anthropic", "responses", "gemini", "gemini-2.5"]);
}

#[tokio::test]
async fn an_unknown_model_and_a_wrong_key_are_told_apart_everywhere() {
    for station in STATIONS {
        let builder = station.builder(Script::new().forever(|_| zk_testkit::Turn::new().text("hello")));
        let server =
            builder.require_key("key").models([station.models[0]]).start().expect("a socket is free");
        let ask = async |connection, model| {
            let provider = (station.make)(connection);
            let answer = collect(provider.stream(question(&*provider, model), &Bus::new().cx())).await;
            answer.map(|answer| answer.text).map_err(|(error, _)| error.kind)
        };
        let [known, unknown] = station.models;
        let good = || station.connection(&server);
        assert_eq!(ask(good(), known).await.as_deref(), Ok("hello"), "{}", station.name);
        assert_eq!(ask(good(), unknown).await, Err(ErrorKind::Rejected), "{}", station.name);
        assert_eq!(ask(good().key("wrong"), known).await, Err(ErrorKind::Auth), "{}", station.name);
    }
}
