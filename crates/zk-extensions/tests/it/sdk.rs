use crate::support::has;

#[test]
fn placeholder_until_the_examples_are_there() {
    let _ = has("python3", "the examples");
}
