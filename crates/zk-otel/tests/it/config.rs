//! Settings and variables, and which outranks which.

use zk_otel::{OtelConfig, OtelSettings, Sampling};

use crate::rig::variables;

fn read(settings: &OtelSettings, given: &[(&str, &str)]) -> Result<Option<OtelConfig>, String> {
    let given = variables(given);
    OtelConfig::read(settings, |name| given.get(name).cloned()).map_err(|error| error.to_string())
}

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/");

#[test]
fn nothing_is_sent_unless_an_endpoint_or_the_settings_ask_for_it() {
    let (unset, on) =
        (OtelSettings::default(), OtelSettings { enabled: Some(true), ..OtelSettings::default() });
    let off = OtelSettings { enabled: Some(false), ..OtelSettings::default() };
    let placed = OtelSettings { endpoint: Some("http://s:1".into()), ..OtelSettings::default() };
    for (what, settings, given, traces, metrics) in [
        ("nothing set", &unset, &[][..], None, None),
        (
            "a variable",
            &unset,
            &[ENDPOINT],
            Some("http://c:4318/v1/traces"),
            Some("http://c:4318/v1/metrics"),
        ),
        (
            "settings",
            &on,
            &[],
            Some("http://localhost:4318/v1/traces"),
            Some("http://localhost:4318/v1/metrics"),
        ),
        (
            "an endpoint of the settings",
            &placed,
            &[],
            Some("http://s:1/v1/traces"),
            Some("http://s:1/v1/metrics"),
        ),
        ("both", &placed, &[ENDPOINT], Some("http://c:4318/v1/traces"), Some("http://c:4318/v1/metrics")),
        ("turned off", &off, &[ENDPOINT], None, None),
        ("the standard's switch", &on, &[("OTEL_SDK_DISABLED", "TRUE")], None, None),
        (
            "one signal elsewhere",
            &unset,
            &[ENDPOINT, ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/path")],
            Some("https://t/path"),
            Some("http://c:4318/v1/metrics"),
        ),
        (
            "no metrics",
            &unset,
            &[ENDPOINT, ("OTEL_METRICS_EXPORTER", "none")],
            Some("http://c:4318/v1/traces"),
            None,
        ),
        (
            "neither",
            &unset,
            &[ENDPOINT, ("OTEL_METRICS_EXPORTER", "none"), ("OTEL_TRACES_EXPORTER", "none")],
            None,
            None,
        ),
    ] {
        let config = read(settings, given).unwrap();
        let url = |which: fn(&OtelConfig) -> &Option<zk_otel::Collector>| {
            config.as_ref().and_then(|config| which(config).as_ref()).map(|collector| &*collector.url)
        };
        assert_eq!(
            (url(|config| &config.traces), url(|config| &config.metrics)),
            (traces, metrics),
            "{what}"
        );
    }
}

#[test]
fn the_sampler_is_that_of_the_variables_or_the_settings() {
    let share = OtelSettings { enabled: Some(true), sample: Some(0.25), ..OtelSettings::default() };
    for (given, sampling) in [
        (&[][..], Sampling { share: 0.25, follows_parent: true }),
        (&[("OTEL_TRACES_SAMPLER", "always_on")], Sampling { share: 1.0, follows_parent: false }),
        (&[("OTEL_TRACES_SAMPLER", "parentbased_always_off")], Sampling { share: 0.0, follows_parent: true }),
        (
            &[("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.5")],
            Sampling { share: 0.5, follows_parent: false },
        ),
    ] {
        assert_eq!(read(&share, given).unwrap().unwrap().sampling, sampling, "{given:?}");
    }
}

#[test]
fn a_value_that_cannot_be_used_is_named_and_a_header_is_not_quoted() {
    for (name, value, told) in [
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "grpc",
            "OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`: only `http/protobuf`",
        ),
        ("OTEL_TRACES_EXPORTER", "console", "OTEL_TRACES_EXPORTER is `console`: only `otlp` and `none`"),
        ("OTEL_TRACES_SAMPLER", "some", "OTEL_TRACES_SAMPLER is `some`: always_on"),
        (
            "OTEL_EXPORTER_OTLP_TIMEOUT",
            "10s",
            "OTEL_EXPORTER_OTLP_TIMEOUT is `10s`: a number of milliseconds",
        ),
        ("OTEL_EXPORTER_OTLP_HEADERS", "k-secret", "OTEL_EXPORTER_OTLP_HEADERS is `…`: a list"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "c:4318", "is `c:4318/v1/traces`: an address begins with http://"),
    ] {
        let error = read(&OtelSettings::default(), &[ENDPOINT, (name, value)]).unwrap_err();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn debug_output_has_no_headers() {
    let config = read(&OtelSettings::default(), &[ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", "k=v-secret")]);
    assert!(!format!("{config:?}").contains("v-secret"));
}

#[test]
fn headers_and_what_stands_behind_their_scheme_are_secrets() {
    let headers = [("authorization".to_owned(), "Bearer t-1".to_owned())].into();
    let settings = OtelSettings { headers, ..OtelSettings::default() };
    let variables =
        variables(&[("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Basic%20dDoy,x-key=k-3")]);
    let secrets = settings.secrets(|name| variables.get(name).cloned());
    assert_eq!(secrets, ["Bearer t-1", "t-1", "Basic dDoy", "dDoy", "k-3"]);
}
