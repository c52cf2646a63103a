use super::{jwt, pkce};

#[test]
fn the_challenge_is_the_one_of_the_standard() {
    // RFC 7636, appendix B.
    let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    assert_eq!(pkce::challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
}

#[test]
fn constant_time_comparison_accepts_equal_texts_only() {
    assert!(pkce::equals_constant_time("abc", "abc"));
    assert!(
        !pkce::equals_constant_time("abc", "abd")
            && !pkce::equals_constant_time("abc", "ab")
            && !pkce::equals_constant_time("", "a")
    );
}

#[test]
fn what_is_no_web_token_has_no_claims() {
    for token in ["", "opaque", "a.b", "a.b.c", "e30.e30.e30.e30", "e30.!!.e30"] {
        assert!(jwt::claims(token).is_none(), "{token}");
    }
    let claims = jwt::claims("e30.eyJhIjp7ImIiOiJjIn19.x").unwrap();
    let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(jwt::text_at(&claims, &path(&["a", "b"])).as_deref(), Some("c"));
    for wrong in [&["a"][..], &["a", "x"], &[]] {
        assert_eq!(jwt::text_at(&claims, &path(wrong)), None);
    }
}
