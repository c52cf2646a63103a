use std::time::Duration;

use serde_json::json;

use super::TEST;
use crate::{Asked, Script, Turn};

const LIBRARY: &str = "lib/basket.sh";
const WRONG: &str = "total=$((total + price))";
const RIGHT: &str = "total=$((total + price * quantity))";

/// Script of a model that repairs the [`Project`](super::Project), with `pace` between two pieces of text. It
/// uses the tools' real results: if one is unexpected, the model says so and ends.
#[must_use]
pub fn repair(pace: Option<Duration>) -> Script {
    let script = Script::new()
        .turn(|t| {
            t.text("I look at what is here, and run the tests to see them fail.")
                .call("list_files", json!({"path": "."}))
                .call("shell", json!({"command": TEST}))
        })
        .respond(|asked| {
            let output = result_text(asked, "shell");
            match output.lines().find(|line| line.starts_with("FAIL")) {
                Some(line) => Turn::new()
                    .text(format!("A test fails: \"{line}\". I read the tests, and look for the function."))
                    .call("read_file", json!({"path": "test.sh"}))
                    .call("grep", json!({"pattern": "basket_total", "output_mode": "content"})),
                None => give_up("No test fails here"),
            }
        })
        .respond(|asked| {
            if result_text(asked, "grep").contains(LIBRARY) {
                Turn::new().text("It is in the library.").call("read_file", json!({"path": LIBRARY}))
            } else {
                give_up("The function is not where I expected it")
            }
        })
        .respond(|asked| {
            if result_text(asked, "read_file").contains(WRONG) {
                Turn::new()
                    .text("The loop reads the quantity of each item and never uses it. I multiply by it.")
                    .call("edit", json!({"path": LIBRARY, "old_string": WRONG, "new_string": RIGHT}))
            } else {
                give_up("The library does not hold the line I expected")
            }
        })
        .turn(|t| t.text("Now the tests again.").call("shell", json!({"command": TEST})))
        .respond(|asked| {
            if result_text(asked, "shell").contains("all tests passed") {
                Turn::new().text(
                    "All tests pass. `basket_total` in `lib/basket.sh` added up the prices and ignored the \
                     quantities; it multiplies them now. Nothing else changed.",
                )
            } else {
                give_up("The tests still fail")
            }
        });
    match pace {
        Some(pace) => script.pace(pace),
        None => script,
    }
}

fn result_text(asked: &Asked, tool: &str) -> String {
    asked.result_of(tool).map(|result| result.text).unwrap_or_default()
}

fn give_up(what: &str) -> Turn {
    Turn::new().text(format!("{what}, so this script ends here."))
}
