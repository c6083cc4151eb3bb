//! Ranks that fail, as threads and as processes: everyone else ends soon, with an error that names them.

mod common;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::{launch, layout, problem};
use megamoe_window::protocol::Compare;
use megamoe_window::world::{BoxError, Member, RankCommand};
use megamoe_window::{Signal, Window, World, WorldError};

const RANKS: u32 = 4;
const GUILTY: u32 = 2;
/// Launches before the guilty rank fails.
const GOOD_LAUNCHES: u32 = 20;
const SOON: Duration = Duration::from_secs(2);
const SHORT_DEADLINE: Duration = Duration::from_millis(300);

fn world() -> World {
    World::new(layout(&problem(RANKS, 4, 2)))
}

/// Launches for ever; the guilty rank fails in the middle of one.
fn body(window: &mut Window, fail: impl Fn() -> Result<(), BoxError>) -> Result<(), BoxError> {
    let problem = problem(RANKS, 4, 2);
    for number in 0.. {
        if window.rank() == GUILTY && number == GOOD_LAUNCHES {
            let launch = window.begin()?;
            launch.notify_set(0, Signal::RowsReady(GUILTY), launch.epoch())?;
            return fail();
        }
        launch(&problem, window, &mut || ())?;
    }
    Ok(())
}

#[track_caller]
fn assert_blames(error: WorldError, rank: u32, cause: &str) -> Vec<(u32, String)> {
    let WorldError::RankFailed {
        rank: failed,
        reason,
        others,
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(failed, rank, "{reason}");
    assert!(reason.contains(cause), "{reason}");
    others
}

#[track_caller]
fn assert_soon<T>(work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    assert!(
        start.elapsed() < SOON + Duration::from_secs(1),
        "took {:?}",
        start.elapsed()
    );
    result
}

#[test]
fn a_thread_that_returns_an_error() {
    let fail = || Err("out of luck".into());
    let error = assert_soon(|| world().run_threads(|window| body(window, fail))).unwrap_err();
    let others = assert_blames(error, GUILTY, "out of luck");
    assert_eq!(others.len(), 3);
    for (rank, reason) in others {
        assert!(
            reason.contains("rank 2 failed: out of luck"),
            "rank {rank}: {reason}"
        );
        assert!(
            reason.contains(&format!("rank {rank} waits for rank")),
            "{reason}"
        );
    }
}

#[test]
fn a_thread_that_panics() {
    let fail = || panic!("index 7 of 3");
    let error = assert_soon(|| world().run_threads(|window| body(window, fail))).unwrap_err();
    assert_blames(error, GUILTY, "panicked: index 7 of 3");
}

#[test]
fn a_thread_that_ends_early() {
    let error = assert_soon(|| world().run_threads(|window| body(window, || Ok(())))).unwrap_err();
    let WorldError::RankFailed { reason, .. } = error else {
        panic!("{error}");
    };
    assert!(
        reason.contains("rank 2") && reason.contains("has ended after launch 21"),
        "{reason}"
    );
}

#[test]
fn a_thread_that_never_publishes() {
    let stuck = |window: &mut Window| {
        if window.rank() == GUILTY {
            std::thread::sleep(2 * SHORT_DEADLINE);
            return Ok(());
        }
        let launch = window.begin()?;
        launch.publish_counts(&[0; 8])?;
        launch
            .take_counts(GUILTY)
            .map(|_| ())
            .map_err(BoxError::from)
    };
    let world = world().with_deadline(SHORT_DEADLINE);
    let error = assert_soon(|| world.run_threads(stuck))
        .unwrap_err()
        .to_string();
    for part in ["waits for rank 2 at counts[2] == 1", "saw 0"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_deadline_names_rank_peer_region_index_and_values() {
    let wait = |window: &mut Window| {
        let rank = window.rank();
        let launch = window.begin()?;
        launch.notify_set(rank, Signal::User(3), 4)?;
        if rank == 0 {
            launch.wait(1, Signal::User(3), Compare::AtLeast, 5)?;
        } else {
            std::thread::sleep(2 * SHORT_DEADLINE);
        }
        Ok(())
    };
    let error = world()
        .with_deadline(SHORT_DEADLINE)
        .run_threads(wait)
        .unwrap_err();
    assert_blames(
        error,
        0,
        "rank 0 waits for rank 1 at user[3] >= 5: saw 4 for 30",
    );
}

// ---- processes ----

/// Not a test of its own: what a child process runs, told by its last argument.
#[test]
fn rank_entry() {
    let Some(member) = Member::from_env().unwrap() else {
        return;
    };
    let mode = std::env::args().next_back().unwrap();
    if mode == "absent" && member.rank() == GUILTY {
        std::thread::sleep(Duration::from_secs(60));
    }
    let world = match mode.as_str() {
        "absent" => world().with_deadline(SHORT_DEADLINE),
        _ => world(),
    };
    let mut joined = member.join(&world).unwrap();
    let result = match mode.as_str() {
        "good" | "absent" => {
            let problem = problem(RANKS, 4, 2);
            let run = |_| launch(&problem, joined.window(), &mut || ());
            (0..500).try_for_each(run).map_err(BoxError::from)
        }
        _ => body(joined.window(), || match mode.as_str() {
            "exit" => std::process::exit(0),
            "status" => std::process::exit(3),
            "killed" => {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
                Ok(())
            }
            _ => Err("out of luck".into()),
        }),
    };
    let rank = joined.window().rank();
    match result {
        Ok(()) => joined.finish(Ok(&[rank as u8, 42])).unwrap(),
        Err(error) => joined.finish(Err(&error.to_string())).unwrap(),
    }
}

fn command(mode: &str) -> RankCommand {
    RankCommand {
        program: std::env::current_exe().unwrap(),
        arguments: ["rank_entry", "--exact", "--nocapture", mode]
            .map(Into::into)
            .to_vec(),
    }
}

/// Tests that look at this process's children run one at a time, also when all tests share a process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No child is left, alive or as a zombie, and no shared memory has a name.
fn assert_nothing_left() {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let children =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    assert_eq!(children.collect::<String>().trim(), "");
    let named = |dir: &str| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries
            .filter(|e| e.file_name().to_string_lossy().starts_with("megamoe"))
            .count()
    };
    assert_eq!(named("/dev/shm"), 0);
}

#[test]
fn processes_return_their_results() {
    let _alone = alone();
    let results = world().run_processes(&command("good")).unwrap();
    assert_eq!(results, [[0, 42], [1, 42], [2, 42], [3, 42]]);
    assert_nothing_left();
}

#[test]
fn processes_that_fail_are_named_and_leave_nothing() {
    let _alone = alone();
    let causes = [
        ("error", "out of luck"),
        ("exit", "ended without a result"),
        ("status", "ended with status 3"),
        ("killed", "killed by signal 9"),
    ];
    for (mode, cause) in causes {
        let error = assert_soon(|| world().run_processes(&command(mode))).unwrap_err();
        let others = assert_blames(error, GUILTY, cause);
        assert_eq!(others.len(), 3, "{mode}");
        for (rank, reason) in others {
            assert!(
                reason.contains("rank 2 failed"),
                "{mode}, rank {rank}: {reason}"
            );
        }
        assert_nothing_left();
    }
}

#[test]
fn a_process_that_never_arrives_is_named_and_killed() {
    let _alone = alone();
    let error = assert_soon(|| {
        world()
            .with_deadline(SHORT_DEADLINE)
            .run_processes(&command("absent"))
    });
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("waits for rank 2") && error.contains("never arrived"),
        "{error}"
    );
    assert_nothing_left();
}

#[test]
fn a_program_that_can_not_be_started() {
    let _alone = alone();
    let mut command = command("good");
    command.program = "/no/such/program".into();
    let error = world().run_processes(&command).unwrap_err().to_string();
    assert!(
        error.contains("start rank 0 as /no/such/program"),
        "{error}"
    );
}

// ---- a launcher like mpirun ----

fn launched(dir: &Path, ranks: &[u32], mode: &str) -> Vec<Child> {
    let command = command(mode);
    let start = |&rank: &u32| {
        Command::new(&command.program)
            .args(&command.arguments)
            .env("OMPI_COMM_WORLD_RANK", rank.to_string())
            .env("OMPI_COMM_WORLD_SIZE", RANKS.to_string())
            .env("MEGAMOE_RENDEZVOUS", dir.join("meet"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap()
    };
    ranks.iter().map(start).collect()
}

#[test]
fn ranks_of_a_launcher_meet() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    for child in launched(dir.path(), &[2, 0, 3, 1], "good") {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        0,
        "the socket is gone"
    );
}

#[test]
fn a_killed_rank_of_a_launcher_is_noticed_by_the_others() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    assert_soon(|| {
        for mut child in launched(dir.path(), &[0, 1, 2, 3], "killed") {
            child.wait().unwrap();
        }
    });
    assert_nothing_left();
}

#[test]
fn a_rank_of_a_launcher_that_never_comes_is_named() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let mut stderr = String::new();
    for child in launched(dir.path(), &[0, 1, 3], "absent") {
        let output = child.wait_with_output().unwrap();
        assert!(!output.status.success());
        stderr += &String::from_utf8_lossy(&output.stderr);
    }
    assert!(stderr.contains("missing: \"ranks [2]\""), "{stderr}");
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        0,
        "the socket is gone"
    );
}
