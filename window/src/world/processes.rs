//! Ranks as processes of one machine: the parent's side.
//!
//! A child inherits the descriptor of the windows and a pipe for its result; its standard error is
//! forwarded line by line with the rank's name. Children die with their parent, and the parent leaves
//! none behind: not when one fails, not when it panics.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, PipeReader, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::join::{ENV_DEADLINE_MS, ENV_RANK, ENV_RESULT_FD, ENV_WINDOW_FD, ENV_WORLD_SIZE};
use super::{World, WorldError, settle, setup};
use crate::control::Control;
use crate::segment::Segment;

/// How long the others may take to end by themselves once one has failed.
const GRACE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(5);
/// First byte of a result that is an error's text.
pub(super) const RESULT_ERROR: u8 = 1;
/// First byte of a result that is the rank's value.
pub(super) const RESULT_VALUE: u8 = 0;

/// What a child runs.
#[derive(Clone, Debug)]
pub struct RankCommand {
    /// The executable.
    pub program: PathBuf,
    /// Its arguments, without the name.
    pub arguments: Vec<OsString>,
}

impl RankCommand {
    /// This executable with the arguments it was started with.
    ///
    /// # Errors
    /// [`WorldError::Setup`] when the path of this executable is not known.
    pub fn this() -> Result<Self, WorldError> {
        let program = std::env::current_exe().map_err(setup("path of this executable"))?;
        let arguments = std::env::args_os().skip(1).collect();
        Ok(Self { program, arguments })
    }
}

impl World {
    /// Runs `command` once for each rank and returns the bytes that each child finished with
    /// ([`super::Joined::finish`]).
    ///
    /// # Errors
    /// [`WorldError`] names the first rank that failed, was killed, or ended without a result.
    pub fn run_processes(&self, command: &RankCommand) -> Result<Vec<Vec<u8>>, WorldError> {
        let segment = self.segment()?;
        let control = Control::new(Arc::clone(&segment), &self.layout);
        let mut ranks = Vec::new();
        for rank in 0..self.layout.num_ranks() {
            ranks.push(self.spawn(command, rank, &segment)?);
        }
        supervise(&control, &mut ranks);
        let results = ranks.into_iter().map(Rank::result).collect();
        settle(&control, results)
    }

    fn spawn(
        &self,
        command: &RankCommand,
        rank: u32,
        segment: &Segment,
    ) -> Result<Rank, WorldError> {
        let what = || format!("start rank {rank} as {}", command.program.display());
        let (reader, writer) = std::io::pipe().map_err(setup(what()))?;
        let (window_fd, result_fd) = (segment.fd().as_raw_fd(), writer.as_raw_fd());
        let mut process = Command::new(&command.program);
        process
            .args(&command.arguments)
            .env(ENV_RANK, rank.to_string())
            .env(ENV_WORLD_SIZE, self.layout.num_ranks().to_string())
            .env(ENV_WINDOW_FD, window_fd.to_string())
            .env(ENV_RESULT_FD, result_fd.to_string())
            .env(ENV_DEADLINE_MS, self.deadline.as_millis().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        inherit(&mut process, [window_fd, result_fd]);
        let mut child = process.spawn().map_err(setup(what()))?;
        let log = child.stderr.take().map(|stderr| {
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    eprintln!("[rank {rank}] {line}");
                }
            })
        });
        Ok(Rank {
            child,
            result: Some(std::thread::spawn(move || read_all(reader))),
            log,
            status: None,
        })
    }
}

/// Lets a child keep two descriptors, and ends it with its parent.
fn inherit(process: &mut Command, descriptors: [RawFd; 2]) {
    let prepare = move || {
        for raw in descriptors {
            // SAFETY: the parent holds both descriptors open until the child has been started.
            let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(raw) };
            rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
        }
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        Ok(())
    };
    // SAFETY: `prepare` runs between fork and exec; it makes system calls only, allocates nothing and
    // takes no lock.
    unsafe {
        process.pre_exec(prepare);
    }
}

fn read_all(mut reader: PipeReader) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A child that was killed closes its end: what came so far is no result, and is seen to be none.
    let _ = reader.read_to_end(&mut bytes);
    bytes
}

/// A child. Dropping it kills and reaps it.
struct Rank {
    child: Child,
    result: Option<JoinHandle<Vec<u8>>>,
    log: Option<JoinHandle<()>>,
    status: Option<ExitStatus>,
}

impl Rank {
    /// Whether it has ended; reaps it then.
    fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    fn kill(&mut self) {
        if self.status.is_none() {
            // It may have ended meanwhile; then there is nothing to kill.
            let _ = self.child.kill();
            self.status = self.child.wait().ok();
        }
    }

    /// Why it ended without a result, if it did.
    fn abnormal_end(&self) -> Option<String> {
        let status = self.status?;
        if status.success() {
            return None;
        }
        Some(match status.signal() {
            Some(signal) => format!("its process was killed by signal {signal}"),
            None => format!(
                "its process ended with status {}",
                status.code().unwrap_or(-1)
            ),
        })
    }

    fn result(mut self) -> Result<Vec<u8>, String> {
        let bytes = self.result.take().map(JoinHandle::join);
        if let Some(log) = self.log.take() {
            // A panic in it loses log lines, nothing else.
            let _ = log.join();
        }
        match bytes {
            Some(Ok(bytes)) => match bytes.split_first() {
                Some((&RESULT_VALUE, value)) if self.abnormal_end().is_none() => Ok(value.to_vec()),
                Some((&RESULT_ERROR, text)) => Err(String::from_utf8_lossy(text).into_owned()),
                _ => Err(self
                    .abnormal_end()
                    .unwrap_or_else(|| "its process ended without a result".to_owned())),
            },
            _ => Err("its result can't be read".to_owned()),
        }
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for all children. Once one has failed, the others get [`GRACE`] to say what they saw.
fn supervise(control: &Control, ranks: &mut [Rank]) {
    let mut failed_at: Option<Instant> = None;
    loop {
        let mut all_ended = true;
        for (rank, child) in (0..).zip(ranks.iter_mut()) {
            if !child.has_ended() {
                all_ended = false;
            } else if let Some(reason) = child.abnormal_end() {
                control.fail(rank, &reason);
            } else {
                // A good status without a good end: it left without a result.
                control.fail(rank, "its process ended without a result");
            }
        }
        if all_ended {
            return;
        }
        if control.first_failure().is_some() {
            let since = *failed_at.get_or_insert_with(Instant::now);
            if since.elapsed() > GRACE {
                ranks.iter_mut().for_each(Rank::kill);
                return;
            }
        }
        std::thread::sleep(POLL);
    }
}
