//! A zk with two providers that are ready to be asked: the program sends failed requests of the first again, and the
//! second has a policy of its own, which is never to.

use std::sync::Arc;

use zk_agent::{RetryPolicy, Retrying};
use zk_core::model::ErrorKind;
use zk_testkit::{Script, ScriptedProvider};

fn busy_once(name: &str) -> ScriptedProvider {
    let busy = Script::new().turn(|turn| turn.error(ErrorKind::Overloaded, "come back later"));
    ScriptedProvider::new(busy.turn(|turn| turn.text("Here."))).named(name)
}

fn main() -> std::process::ExitCode {
    let stubborn = Retrying::new(Arc::new(busy_once("stubborn")), RetryPolicy::never());
    zk_cli::Zk::builder().provider(busy_once("patient")).provider(stubborn).run()
}
