use zk_core::service::Redactor;
use zk_serve::print::RunResult;

use crate::exit::{Failure, ending_of};

/// Prints the result of a run that failed before it began, for programs.
pub(super) fn print_result(failure: &Failure) {
    let mut line = Vec::new();
    let result = RunResult::not_begun(ending_of(failure.exit), failure.message.clone());
    result.write(&mut line, &Redactor::new());
    // When standard output is gone, standard error has been told already.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), &line);
}
