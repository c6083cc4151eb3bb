//! A rank that another program started: by [`super::World::run_processes`], or by `mpirun` and the like.
//!
//! Ranks of `mpirun` meet at a socket: rank 0 makes the windows and hands their descriptor to the
//! others. The socket is removed when all have come.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::processes::{RESULT_ERROR, RESULT_VALUE};
use super::watch::Watch;
use super::{World, WorldError, setup};
use crate::segment::Segment;
use crate::wait::DEFAULT_DEADLINE;
use crate::window::Window;

pub(super) const ENV_RANK: &str = "MEGAMOE_RANK";
pub(super) const ENV_WORLD_SIZE: &str = "MEGAMOE_WORLD_SIZE";
pub(super) const ENV_WINDOW_FD: &str = "MEGAMOE_WINDOW_FD";
pub(super) const ENV_RESULT_FD: &str = "MEGAMOE_RESULT_FD";
pub(super) const ENV_DEADLINE_MS: &str = "MEGAMOE_DEADLINE_MS";
/// Path of the socket where ranks of `mpirun` meet, if not the default.
const ENV_RENDEZVOUS: &str = "MEGAMOE_RENDEZVOUS";

/// Variables in which launchers state rank and size of the world, and the job's name.
const LAUNCHERS: [(&str, &str, &str); 3] = [
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "PMIX_NAMESPACE",
    ),
    ("PMI_RANK", "PMI_SIZE", "PMI_JOBID"),
    ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"),
];

const RETRY: Duration = Duration::from_millis(10);

/// Who started this process as a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A parent that collects results.
    Parent,
    /// A launcher such as `mpirun`: every rank reports for itself.
    Launcher,
}

/// This process as a rank of a world that it has not joined yet.
#[derive(Debug)]
pub struct Member {
    rank: u32,
    num_ranks: u32,
    deadline: Duration,
    meeting: Meeting,
}

#[derive(Debug)]
enum Meeting {
    /// Descriptors that the parent handed over.
    Inherited { window: OwnedFd, result: File },
    /// A socket, and what it is called in messages.
    Socket(PathBuf),
}

/// A rank that has joined: its window, and where its result goes.
#[derive(Debug)]
pub struct Joined {
    window: Window,
    result: Option<File>,
    // Kept for its thread, which ends with it.
    _watch: Option<Watch>,
}

impl Member {
    /// This process as a rank, if its environment says that it is one. Call it once: it takes the
    /// descriptors that a parent handed over.
    ///
    /// # Errors
    /// [`WorldError::Environment`] when the environment says so, but wrongly.
    pub fn from_env() -> Result<Option<Self>, WorldError> {
        if let Some(rank) = number(ENV_RANK)? {
            let deadline = number(ENV_DEADLINE_MS)?;
            let window = inherited(ENV_WINDOW_FD)?;
            let result = File::from(inherited(ENV_RESULT_FD)?);
            let member = Self {
                rank,
                num_ranks: required(ENV_WORLD_SIZE)?,
                deadline: deadline.map_or(DEFAULT_DEADLINE, |ms: u64| Duration::from_millis(ms)),
                meeting: Meeting::Inherited { window, result },
            };
            return member.checked(ENV_RANK).map(Some);
        }
        for (rank_variable, size_variable, job_variable) in LAUNCHERS {
            let (Some(rank), Some(num_ranks)) = (number(rank_variable)?, number(size_variable)?)
            else {
                continue;
            };
            let member = Self {
                rank,
                num_ranks,
                deadline: DEFAULT_DEADLINE,
                meeting: Meeting::Socket(rendezvous(job_variable)),
            };
            return member.checked(rank_variable).map(Some);
        }
        Ok(None)
    }

    fn checked(self, variable: &str) -> Result<Self, WorldError> {
        if self.rank < self.num_ranks {
            return Ok(self);
        }
        let rule = format!("the world has {} ranks", self.num_ranks);
        Err(environment(variable, self.rank.to_string(), rule))
    }

    /// This rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks of the world.
    #[must_use]
    pub fn num_ranks(&self) -> u32 {
        self.num_ranks
    }

    /// Who started it.
    #[must_use]
    pub fn origin(&self) -> Origin {
        match self.meeting {
            Meeting::Inherited { .. } => Origin::Parent,
            Meeting::Socket(_) => Origin::Launcher,
        }
    }

    /// Joins a world of this layout. A deadline that a parent handed over goes before the world's.
    ///
    /// # Errors
    /// [`WorldError`] when ranks disagree about the problem, or do not come in time.
    pub fn join(self, world: &World) -> Result<Joined, WorldError> {
        let layout = &world.layout;
        let (got, want) = (self.num_ranks, layout.num_ranks());
        if got != want {
            return Err(WorldError::Size { got, want });
        }
        let open = |fd| Segment::open(fd, want, layout.required_bytes()).map_err(setup("windows"));
        match self.meeting {
            Meeting::Inherited { window, result } => {
                let segment = Arc::new(open(window)?);
                Ok(Joined {
                    window: Window::new(segment, layout, self.rank, self.deadline),
                    result: Some(result),
                    _watch: None,
                })
            }
            Meeting::Socket(path) => {
                let meeting = Rendezvous {
                    path,
                    rank: self.rank,
                    num_ranks: self.num_ranks,
                    deadline: world.deadline,
                };
                let segment = if self.rank == 0 {
                    let segment = world.segment()?;
                    meeting.hand_out(&segment)?;
                    segment
                } else {
                    Arc::new(open(meeting.receive()?)?)
                };
                let mut window = Window::new(segment, layout, self.rank, world.deadline);
                window.barrier().map_err(|error| {
                    setup("barrier after joining")(io::Error::new(io::ErrorKind::TimedOut, error))
                })?;
                let watch = Watch::start(window.control().clone(), self.rank, self.num_ranks)
                    .map_err(setup("watch peers"))?;
                Ok(Joined {
                    window,
                    result: None,
                    _watch: Some(watch),
                })
            }
        }
    }
}

impl Joined {
    /// The windows.
    pub fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    /// Ends this rank: hands its value, or why it failed, to the parent (if there is one), and tells
    /// the other ranks.
    ///
    /// # Errors
    /// [`WorldError::Setup`] when the parent is gone.
    pub fn finish(mut self, result: Result<&[u8], &str>) -> Result<(), WorldError> {
        let left = match result {
            Ok(_) => self.window.leave().map_err(|error| error.to_string()),
            Err(_) => Ok(()),
        };
        let result = match &left {
            Ok(()) => result,
            Err(reason) => Err(reason.as_str()),
        };
        if let Some(mut file) = self.result {
            let (kind, bytes) = match result {
                Ok(value) => (RESULT_VALUE, value),
                Err(reason) => (RESULT_ERROR, reason.as_bytes()),
            };
            file.write_all(&[kind])
                .and_then(|()| file.write_all(bytes))
                .map_err(setup("hand over the result"))?;
        }
        let rank = self.window.rank();
        match result {
            Ok(_) => self.window.control().finish(rank),
            Err(reason) => self.window.control().fail(rank, reason),
        }
        Ok(())
    }
}

fn environment(variable: &str, value: String, rule: impl Into<String>) -> WorldError {
    WorldError::Environment {
        variable: variable.to_owned(),
        value,
        rule: rule.into(),
    }
}

fn number<T: std::str::FromStr>(variable: &str) -> Result<Option<T>, WorldError> {
    let Some(value) = std::env::var_os(variable) else {
        return Ok(None);
    };
    let value = value.to_string_lossy().into_owned();
    match value.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(environment(variable, value, "must be a number")),
    }
}

fn required<T: std::str::FromStr>(variable: &str) -> Result<T, WorldError> {
    number(variable)?.ok_or_else(|| environment(variable, String::new(), "must be a number"))
}

fn inherited(variable: &str) -> Result<OwnedFd, WorldError> {
    let raw: i32 = required(variable)?;
    // SAFETY: only looked at here; `fcntl` answers EBADF for a number that is no open descriptor.
    let open = unsafe { std::os::fd::BorrowedFd::borrow_raw(raw.max(0)) };
    if raw <= 2 || rustix::io::fcntl_getfd(open).is_err() {
        return Err(environment(
            variable,
            raw.to_string(),
            "no descriptor of that number was inherited",
        ));
    }
    rustix::io::fcntl_setfd(open, rustix::io::FdFlags::CLOEXEC)
        .map_err(|error| setup(variable)(error.into()))?;
    // SAFETY: it is open, and the parent handed it to this process, which takes it once.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// The socket of a job: named by its launcher, or else by the launcher's process.
fn rendezvous(job_variable: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(ENV_RENDEZVOUS) {
        return path.into();
    }
    let parent = || rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let job = std::env::var(job_variable).unwrap_or_else(|_| parent().to_string());
    let job: String = job
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let user = rustix::process::getuid().as_raw();
    std::env::temp_dir().join(format!("megamoe-{user}-{job}.sock"))
}

/// A meeting at a socket.
struct Rendezvous {
    path: PathBuf,
    rank: u32,
    num_ranks: u32,
    deadline: Duration,
}

impl Rendezvous {
    fn failed(&self, what: &str) -> impl FnOnce(io::Error) -> WorldError {
        setup(format!("{what} {}", self.path.display()))
    }

    fn not_joined(&self, missing: String) -> WorldError {
        WorldError::NotJoined {
            rank: self.rank,
            waited: self.deadline,
            missing,
            place: self.path.display().to_string(),
        }
    }

    /// Rank 0: gives the windows to every rank that comes, until all have.
    fn hand_out(&self, segment: &Segment) -> Result<(), WorldError> {
        let listener = UnixListener::bind(&self.path).map_err(self.failed("listen at"))?;
        let _remove = RemoveOnDrop(&self.path);
        listener
            .set_nonblocking(true)
            .map_err(self.failed("listen at"))?;
        let start = Instant::now();
        let mut missing: Vec<u32> = (1..self.num_ranks).collect();
        while !missing.is_empty() {
            match listener.accept() {
                Ok((stream, _)) => {
                    let rank = self
                        .serve(&stream, segment)
                        .map_err(self.failed("hand over the windows at"))?;
                    missing.retain(|&other| other != rank);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if start.elapsed() > self.deadline {
                        return Err(self.not_joined(format!("ranks {missing:?}")));
                    }
                    std::thread::sleep(RETRY);
                }
                Err(error) => return Err(self.failed("listen at")(error)),
            }
        }
        Ok(())
    }

    fn serve(&self, mut stream: &UnixStream, segment: &Segment) -> io::Result<u32> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(self.deadline))?;
        let mut rank = [0; 4];
        stream.read_exact(&mut rank)?;
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [segment.fd()];
        control.push(SendAncillaryMessage::ScmRights(&fds));
        rustix::net::sendmsg(
            stream,
            &[IoSlice::new(&rank)],
            &mut control,
            SendFlags::empty(),
        )?;
        Ok(u32::from_le_bytes(rank))
    }

    /// Any other rank: asks rank 0 for the windows.
    fn receive(&self) -> Result<OwnedFd, WorldError> {
        let start = Instant::now();
        let mut stream = loop {
            match UnixStream::connect(&self.path) {
                Ok(stream) => break stream,
                Err(_) if start.elapsed() > self.deadline => {
                    return Err(self.not_joined("rank 0".to_owned()));
                }
                Err(_) => std::thread::sleep(RETRY),
            }
        };
        let failed = || self.failed("receive the windows at");
        stream
            .set_read_timeout(Some(self.deadline))
            .and_then(|()| stream.write_all(&self.rank.to_le_bytes()))
            .map_err(failed())?;
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0; 4];
        let flags = RecvFlags::CMSG_CLOEXEC;
        rustix::net::recvmsg(
            &stream,
            &mut [IoSliceMut::new(&mut byte)],
            &mut control,
            flags,
        )
        .map_err(|error| failed()(error.into()))?;
        let fd = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        fd.ok_or_else(|| {
            failed()(io::Error::new(
                io::ErrorKind::InvalidData,
                "no descriptor came",
            ))
        })
    }
}

struct RemoveOnDrop<'a>(&'a std::path::Path);

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        // Somebody else may have removed it; then nothing is left behind either.
        let _ = std::fs::remove_file(self.0);
    }
}
