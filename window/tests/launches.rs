//! Many launches on one world, nothing cleared between them.

mod common;

use std::time::Duration;

use common::{launch, layout, problem};
use megamoe_window::protocol::Compare;
use megamoe_window::window::Rows;
use megamoe_window::{Signal, Window, WindowError, World};
use moe_core::rng::Rng;

const LAUNCHES: i32 = 10_000;

/// Sometimes gives the processor away, sometimes spins for up to some microseconds.
fn random_pause(seed: u64) -> impl FnMut() {
    let mut rng = Rng::new(seed);
    move || match rng.below(16) {
        0 => std::thread::yield_now(),
        n if n < 4 => (0..rng.below(2000)).for_each(|_| std::hint::spin_loop()),
        _ => (),
    }
}

#[test]
fn ten_thousand_launches_with_random_delays() {
    let problem = problem(3, 4, 2);
    let run = |window: &mut Window| {
        let mut pause = random_pause(window.rank().into());
        for _ in 0..LAUNCHES {
            launch(&problem, window, &mut pause)?;
        }
        Ok(())
    };
    World::new(layout(&problem)).run_threads(run).unwrap();
}

#[test]
fn ten_thousand_launches_with_one_slow_rank() {
    let problem = problem(3, 3, 1);
    let run = |window: &mut Window| {
        let slow = window.rank() == 1;
        let mut rng = Rng::new(5);
        let mut pause = || {
            if slow && rng.below(100) == 0 {
                std::thread::sleep(Duration::from_micros(200));
            }
        };
        for _ in 0..LAUNCHES {
            launch(&problem, window, &mut pause)?;
        }
        Ok(())
    };
    World::new(layout(&problem)).run_threads(run).unwrap();
}

/// Counts of more experts than a line holds arrive whole.
#[test]
fn counts_span_lines() {
    let problem = problem(2, 64, 300);
    let run = |window: &mut Window| {
        for _ in 0..200 {
            launch(&problem, window, &mut || ())?;
        }
        Ok(())
    };
    World::new(layout(&problem)).run_threads(run).unwrap();
}

#[test]
fn signals_add_up_and_compare_equal() {
    let problem = problem(3, 1, 1);
    let run = |window: &mut Window| {
        let (rank, ranks) = (window.rank(), window.num_ranks());
        let launch = window.begin()?;
        for peer in 0..ranks {
            for _ in 0..100 {
                launch.notify_add(peer, Signal::User(9), 1)?;
            }
            launch.notify_set(peer, Signal::User(rank), -5 - rank as i32)?;
        }
        launch.wait(rank, Signal::User(9), Compare::Equal, 300)?;
        for peer in 0..ranks {
            launch.wait(peer, Signal::User(peer), Compare::Equal, -5 - peer as i32)?;
        }
        Ok(())
    };
    World::new(layout(&problem)).run_threads(run).unwrap();
}

#[test]
fn a_barrier_lets_nobody_through_early() {
    let problem = problem(4, 1, 1);
    let arrived = std::sync::atomic::AtomicU32::new(0);
    let run = |window: &mut Window| {
        for round in 1..200 {
            arrived.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            window.barrier()?;
            let seen = arrived.load(std::sync::atomic::Ordering::Relaxed);
            assert!(seen >= 4 * round, "{seen} arrived in round {round}");
            window.barrier()?;
        }
        Ok(())
    };
    World::new(layout(&problem)).run_threads(run).unwrap();
}

#[test]
fn requests_out_of_range_are_refused_by_name() {
    let problem = problem(2, 3, 1);
    let run = |window: &mut Window| {
        let launch = window.begin()?;
        let message = |result: Result<(), WindowError>| result.unwrap_err().to_string();
        let too_long = message(launch.put(1, Rows::Packed, 2, &[0; 65]));
        assert!(
            too_long.contains("65 bytes from row 2 of packed_rows: it has 3 rows of 64"),
            "{too_long}"
        );
        let far = message(launch.get(0, Rows::Returned, u64::MAX, &mut [0; 1]));
        assert!(far.contains("returned_rows"), "{far}");
        assert!(message(launch.put(2, Rows::Packed, 0, &[])).contains("there are 2 ranks"));
        assert!(
            message(launch.publish_counts(&[1]))
                .contains("1 counts are published, but there are 2")
        );
        let signal = message(launch.notify_set(0, Signal::Returned(2), 1));
        assert!(signal.contains("returned[2]: there are 2"), "{signal}");
        Ok(())
    };
    World::new(layout(&problem)).run_threads(run).unwrap();
}

/// Bytes of one rank reach all, also more than a mailbox holds, and one after the other.
#[test]
fn a_broadcast_reaches_every_rank() {
    let problem = problem(3, 1, 1);
    let run = |window: &mut Window| {
        for (round, len) in [0, 1, 4108, 2048, 10_000].into_iter().enumerate() {
            let root = round as u32 % 3;
            let want: Vec<u8> = (0..len).map(|i| (i * 7 + round) as u8).collect();
            let mut bytes = if window.rank() == root {
                want.clone()
            } else {
                vec![0; len]
            };
            window.broadcast(root, &mut bytes)?;
            assert!(bytes == want, "{len} bytes of rank {root}");
        }
        Ok(())
    };
    World::new(layout(&problem)).run_threads(run).unwrap();
}
