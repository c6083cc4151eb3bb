//! What a run on NPUs needs of its environment.

use std::os::unix::process::CommandExt;
use std::process::Command;

use megamoe_window::WindowLayout;
use moe_core::Problem;

use super::CliError;

/// Megabytes of every window that HCCL makes.
pub(super) const BUFFER_VARIABLE: &str = "HCCL_BUFFSIZE";

/// What it grants when it is not set.
pub(super) const DEFAULT_BUFFER_MB: u64 = 200;

/// Sees to it that HCCL grants windows of this problem's size: where nothing is set and the default is too small, starts
/// this command anew with more. (A size that is set and too small is an error of its own.)
pub(super) fn grant_windows(problem: &Problem) -> Result<(), CliError> {
    let needed = WindowLayout::new(problem)?.hccl_buffsize_mb();
    if std::env::var_os(BUFFER_VARIABLE).is_some() || needed <= DEFAULT_BUFFER_MB {
        return Ok(());
    }
    let failed = |error: std::io::Error| {
        CliError::Failed(format!("{BUFFER_VARIABLE}={needed} can't be set: {error}"))
    };
    tracing::info!("raising {BUFFER_VARIABLE} to {needed}");
    let program = std::env::current_exe().map_err(failed)?;
    let mut again = Command::new(program);
    again.args(std::env::args_os().skip(1));
    // HCCL reads it from the process's environment, which must not change once there are threads.
    Err(failed(
        again.env(BUFFER_VARIABLE, needed.to_string()).exec(),
    ))
}
