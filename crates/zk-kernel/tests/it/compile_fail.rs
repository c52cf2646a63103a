// Mistakes of plugin authors do not compile, with readable messages.
#[test]
fn mistakes_do_not_compile_and_say_why() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
