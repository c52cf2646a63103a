//! Several edits of one file in one answer.

use serde_json::json;
use zk_testkit::{Script, Turn};

use crate::zk::{Person, server};

#[test]
fn edits_that_build_on_each_other_run_in_order_by_whatever_name_the_file_is_reached() {
    const EDITS: usize = 8;
    let names = ["a.txt", "link.txt", "./sub/../a.txt", "sub/other.txt"];
    let script = Script::answering(move |asked| match asked.number {
        1 => (0..EDITS).fold(Turn::new(), |turn, n| {
            let (old, new) = (format!("step {n}."), format!("step {}.", n + 1));
            let path = names[n % names.len()];
            turn.call("edit", json!({ "path": path, "old_string": old, "new_string": new }))
        }),
        _ => Turn::new().text("done"),
    });
    for _ in 0..4 {
        let server = server(script.clone());
        let person = Person::asking(&server);
        person.write("a.txt", "step 0.\n").write("sub/x", "");
        for (target, link) in [("a.txt", "link.txt"), ("../link.txt", "sub/other.txt")] {
            std::os::unix::fs::symlink(target, person.project().join(link)).unwrap();
        }
        let ended = person.run(&["-p", "x", "--allow-all"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let text = std::fs::read_to_string(person.project().join("a.txt")).unwrap();
        let told = serde_json::Value::from(server.bodies()).to_string();
        assert_eq!(text, format!("step {EDITS}.\n"), "{told}");
    }
}
