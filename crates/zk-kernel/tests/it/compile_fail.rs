// What must not compile does not, and says why in words a plugin author understands.
#[test]
fn mistakes_do_not_compile_and_say_why() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
