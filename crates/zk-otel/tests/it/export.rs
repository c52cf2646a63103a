//! A collector that is down, refuses or hangs, and what it is sent of the program itself.

use std::time::Duration;

use zk_agent::Agent;
use zk_auth::Http;
use zk_otel::{OtelConfig, OtelPlugin, OtelSettings, Telemetry};
use zk_testkit::Script;

use crate::collector::Manner;
use crate::rig::Rig;

#[tokio::test]
async fn the_resource_and_the_headers_are_those_that_were_set() {
    let given = [
        ("OTEL_SERVICE_NAME", "a team"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test%20bed"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k%3D1"),
    ];
    let rig = Rig::with(&given, Manner::Takes, Script::new().turn(|t| t.text("x")), |builder| builder);
    rig.run().await;
    rig.spans().await;
    let resource = rig.collector.resource();
    assert_eq!((&*resource["service.name"], &*resource["deployment.environment"]), ("a team", "test bed"));
    let headers = rig.collector.headers();
    assert!(headers.iter().any(|header| header == "x-key: k=1"), "{headers:?}");
    assert!(headers.iter().any(|header| header == "content-type: application/x-protobuf"), "{headers:?}");
    assert!(headers.iter().any(|header| header.starts_with("POST /v1/metrics ")), "{headers:?}");
}

#[tokio::test]
async fn a_collector_that_refuses_is_told_of_once_and_the_run_succeeds() {
    let script = Script::new().turn(|t| t.text("x")).turn(|t| t.text("y"));
    let rig = Rig::with(&[], Manner::Refuses, script, |builder| builder);
    assert_eq!(rig.agent.run("go").unwrap().wait().await.text, "x");
    assert_eq!(rig.agent.run("go").unwrap().wait().await.text, "y");
    rig.spans().await;
    let notices = rig.notices.lock().unwrap();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("takes nothing (status 403)"), "{notices:?}");
}

#[tokio::test]
async fn a_collector_that_is_down_is_told_of_once() {
    let variables =
        |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://127.0.0.1:9".to_owned());
    let config = OtelConfig::read(&OtelSettings::default(), variables).unwrap().unwrap();
    let (told, hears) = std::sync::mpsc::channel();
    let telemetry =
        Telemetry::start(config, Http::new(), move |notice| drop(told.send(notice.to_owned()))).unwrap();
    let provider = zk_testkit::ScriptedProvider::new(Script::new().turn(|t| t.text("x")));
    let agent =
        Agent::builder(std::sync::Arc::new(provider)).plugin(OtelPlugin::new(&telemetry)).build().unwrap();
    assert_eq!(agent.run("go").unwrap().wait().await.text, "x");
    agent.bus().close().await;
    let notice = hears.recv().unwrap();
    assert!(notice.starts_with("OpenTelemetry: 127.0.0.1:9 takes nothing ("), "{notice}");
    assert!(hears.try_recv().is_err(), "one notice is enough");
}

#[tokio::test]
async fn nobody_waits_longer_for_a_collector_that_hangs_than_the_limit() {
    let script = Script::new().turn(|t| t.text("x"));
    let rig = Rig::with(&[], Manner::Hangs, script, |builder| builder);
    assert_eq!(rig.agent.run("go").unwrap().wait().await.text, "x");
    // Paused, the clock goes on by itself where nothing else is to be done: only the limit can end the wait.
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    rig.agent.bus().close().await;
    assert!(began.elapsed() <= Duration::from_secs(2), "{:?}", began.elapsed());
}
