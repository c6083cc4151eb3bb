//! What stands still, in words.

use std::fmt::Write;

use super::executor::WaitingTask;
use crate::abi::types::Compare;

/// Cores listed one by one; more are counted.
const MAX_LINES: usize = 64;

/// One line for each waiting core: who, in which kernel, for what, value seen and wanted.
pub(crate) fn stall_report(waiting: &[WaitingTask]) -> String {
    let mut lines: Vec<(u32, String)> = waiting
        .iter()
        .map(|task| {
            let (core, wait) = (task.core(), &task.wait);
            let operator = match wait.compare {
                Compare::Eq => "==",
                Compare::Ne => "!=",
                Compare::Gt => ">",
                Compare::Ge => ">=",
                Compare::Lt => "<",
                Compare::Le => "<=",
            };
            let place = core.launch.name_of(wait.word as u64);
            let line = format!(
                "rank {} {} in {}: {} at {}: saw {}, wants {operator} {}",
                core.launch.rank,
                core.name(),
                core.launch.kernel,
                wait.what,
                place.unwrap_or_else(|| format!("{:p}", wait.word)),
                wait.seen(),
                wait.want
            );
            (core.launch.rank, line)
        })
        .collect();
    lines.sort();
    let mut text = String::new();
    for (_, line) in lines.iter().take(MAX_LINES) {
        // Writing to a string never fails.
        let _ = write!(text, "\n  {line}");
    }
    if lines.len() > MAX_LINES {
        let _ = write!(text, "\n  and {} more", lines.len() - MAX_LINES);
    }
    text
}
