//! Quota that a request counts against.

use std::sync::Arc;

use async_trait::async_trait;
use zk_agent::{RateLimits, RetryPolicy, Retrying};
use zk_auth::{AuthError, TokenSource};
use zk_core::kernel::Cx;
use zk_core::service::Provider;
use zk_providers::{Anthropic, AnthropicOptions, Auth, Compat, CompatProfile, Connection, Secret};

fn quota(connection: Connection) -> String {
    let provider = Compat::new(connection, CompatProfile::default()).expect("valid");
    let shared = Retrying::sharing(&RateLimits::default(), Arc::new(provider), RetryPolicy::default());
    shared.quota_key().expect("every dialect says it")
}

fn at(key: &str) -> Connection {
    Connection::at("http://127.0.0.1:9/v1").key(key)
}

#[test]
fn one_key_at_one_server_is_one_quota_in_whatever_dialect() {
    let messages = Anthropic::connection().base_url("http://127.0.0.1:9/anthropic").key("k-one");
    let messages = Anthropic::new(messages, AnthropicOptions::default()).expect("valid");
    assert_eq!(quota(at("k-one")), quota(at("k-one").named("other")));
    assert_eq!(messages.quota_key(), Some(quota(at("k-one"))));
}

#[test]
fn another_key_or_server_is_another_quota() {
    let header = |value: &str| Connection {
        extra_headers: vec![("x-key".into(), value.into())],
        ..Connection::at("http://127.0.0.1:9/v1")
    };
    let quotas = [
        quota(at("k-one")),
        quota(at("k-two")),
        quota(at("k-one").base_url("http://127.0.0.1:8/v1")),
        quota(Connection::at("http://127.0.0.1:9/v1")),
        quota(header("a")),
        quota(header("b")),
    ];
    for (at, one) in quotas.iter().enumerate() {
        assert!(!quotas[at + 1..].contains(one), "{at}");
    }
}

struct Tokens;

#[async_trait]
impl TokenSource for Tokens {
    async fn token(&self, _: &Cx) -> Result<Secret, AuthError> {
        Ok("t".into())
    }

    async fn replace(&self, _: &Secret, _: &Cx) -> Result<Option<Secret>, AuthError> {
        Ok(None)
    }
}

#[test]
fn a_sign_in_is_one_quota_however_often_its_token_changes() {
    let of = |source: &Arc<Tokens>| {
        quota(Connection { auth: Auth::Source(source.clone()), ..Connection::at("http://127.0.0.1:9/v1") })
    };
    let (one, two) = (Arc::new(Tokens), Arc::new(Tokens));
    assert_eq!(of(&one), of(&one));
    assert_ne!(of(&one), of(&two));
}

#[test]
fn a_quota_tells_nothing_of_its_key() {
    let quota = quota(at("k-one"));
    assert!(!quota.contains("k-one"));
    assert_eq!(quota.len(), 43, "a digest: {quota}");
}
