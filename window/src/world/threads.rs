//! Ranks as threads of this process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{BoxError, World, WorldError, settle, setup};
use crate::control::Control;
use crate::window::Window;

impl World {
    /// Runs `body` once for each rank, every one in a thread, and returns what they returned.
    ///
    /// A rank that returns an error or panics ends the waits of all others.
    ///
    /// # Errors
    /// [`WorldError`] names the first rank that failed, and why.
    pub fn run_threads<T: Send>(
        &self,
        body: impl Fn(&mut Window) -> Result<T, BoxError> + Sync,
    ) -> Result<Vec<T>, WorldError> {
        let segment = self.segment()?;
        let control = Control::new(Arc::clone(&segment), &self.layout);
        let run = |rank: u32| {
            let mut window = Window::new(Arc::clone(&segment), &self.layout, rank, self.deadline);
            let result = catch_unwind(AssertUnwindSafe(|| {
                let value = body(&mut window)?;
                window.leave()?;
                Ok::<_, BoxError>(value)
            }));
            let result = match result {
                Ok(result) => result.map_err(|error| error.to_string()),
                Err(panic) => Err(format!("panicked: {}", panic_text(panic.as_ref()))),
            };
            match &result {
                Ok(_) => control.finish(rank),
                Err(reason) => control.fail(rank, reason),
            }
            result
        };
        let results = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for rank in 0..self.layout.num_ranks() {
                let name = format!("rank {rank}");
                let builder = std::thread::Builder::new().name(name.clone());
                let thread = builder.spawn_scoped(scope, move || run(rank));
                threads.push(thread.map_err(|error| {
                    control.fail(rank, "its thread could not be started");
                    setup(format!("thread of {name}"))(error)
                })?);
            }
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<T, String>>| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err("its thread ended abnormally".to_owned()))
            };
            Ok(threads.into_iter().map(join).collect())
        })?;
        settle(&control, results)
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}
