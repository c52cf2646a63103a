//! The provider keeps to what every provider keeps to.

use std::time::Duration;

use zk_providers::{Clocks, Connection};
use zk_testkit::{WireSamples, check_provider};

#[tokio::test]
async fn it_keeps_to_what_every_provider_keeps_to() {
    let samples = WireSamples {
        content_type: "application/x-ndjson".to_owned(),
        text: "{\"say\":\"Gr\u{fc}\u{df}e\"}\n{\"say\":\", world\"}\n{\"done\":{\"in\":9,\"out\":4}}\n"
            .into(),
        calls: "{\"say\":\"I look.\"}\n\
            {\"call\":{\"id\":\"c1\",\"name\":\"fly\",\"with\":\"{\\\"to\\\":\\\"tree\\\"}\"}}\n\
            {\"call\":{\"id\":\"c2\",\"name\":\"fly\",\"with\":\"{}\"}}\n{\"done\":{\"in\":9,\"out\":4}}\n"
            .into(),
        error: "{\"error\": {\"message\": \"no bird for {key}\"}}".into(),
        key: "sk-parrot-1".to_owned(),
        model: "grey".to_owned(),
    };
    let short = Duration::from_millis(700);
    let clocks = Clocks { first_event: short, liveness: short, progress: short, ending: short };
    let make = |url: &str| {
        let connection = Connection::at(url).named("aviary").key("sk-parrot-1");
        own_provider::AVIARY.provider(Connection { clocks: Some(clocks), ..connection }).expect("a provider")
    };
    let conformance = check_provider(make, &samples).await;
    assert!(conformance.is_met(), "{conformance}");
    assert_eq!(conformance.passed.len(), 9);
}
