use zk_auth::{OAuthClient, Redirect};

/// Returns the OAuth client for signing in with a ChatGPT subscription, for the subscription back end of
/// [`Responses`](crate::Responses).
///
/// The client id is the public one of that back end, which accepts no other; `originator` identifies zk.
/// Whether a person may use a subscription with zk depends on the terms they agreed to: offer this only as an
/// explicit choice.
///
/// ```
/// assert_eq!(zk_providers::subscription_sign_in().name, "openai_codex");
/// ```
#[must_use]
pub fn subscription_sign_in() -> OAuthClient {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let pairs = [
        ("id_token_add_organizations", "true"),
        // Otherwise the server ends the sign-in on its own page, and no answer arrives.
        ("codex_cli_simplified_flow", "true"),
        ("originator", "zk"),
    ];
    OAuthClient {
        scopes: words(&["openid", "profile", "email", "offline_access"]),
        redirect: Redirect::Loopback {
            host: "localhost".to_owned(),
            port: Some(1455),
            path: "/auth/callback".to_owned(),
        },
        authorize_params: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        hosts: words(&["chatgpt.com"]),
        account_claim: words(&["https://api.openai.com/auth", "chatgpt_account_id"]),
        ..OAuthClient::new(
            "openai_codex",
            "app_EMoamEEZ73f0CkXaXp7hrann",
            "https://auth.openai.com/oauth/authorize",
            "https://auth.openai.com/oauth/token",
        )
    }
}
