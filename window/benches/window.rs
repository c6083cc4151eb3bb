//! Signals and rows between ranks, against a plain copy in the same run.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use megamoe_window::protocol::Compare;
use megamoe_window::window::Rows;
use megamoe_window::world::{BoxError, Member, RankCommand};
use megamoe_window::{Signal, Window, WindowLayout, World};
use moe_core::{FloatType, ProblemSpec};

const MIB: usize = 1 << 20;

/// Two ranks with room for a row of 1 MiB.
fn world() -> World {
    let problem = ProblemSpec {
        tokens_per_rank: vec![32; 2],
        hidden: 32768,
        intermediate: 32,
        experts_per_rank: 1,
        top_k: 1,
        max_output_size: 32,
        input_type: FloatType::Bf16,
        output_type: FloatType::F16,
    };
    let problem = problem.build().expect("a legal problem");
    World::new(WindowLayout::new(&problem).expect("a small window"))
}

/// Both ranks, `rounds` times: 0 sets a signal at 1, which sets one at 0.
fn ping_pong(window: &mut Window, rounds: i32) -> Result<Duration, BoxError> {
    window.barrier()?;
    let (rank, peer) = (window.rank(), 1 - window.rank());
    let launch = window.begin()?;
    let start = Instant::now();
    for round in 1..=rounds {
        if rank == 0 {
            launch.notify_set(peer, Signal::User(0), round)?;
            launch.wait(peer, Signal::User(0), Compare::AtLeast, round)?;
        } else {
            launch.wait(peer, Signal::User(0), Compare::AtLeast, round)?;
            launch.notify_set(peer, Signal::User(0), round)?;
        }
    }
    Ok(start.elapsed())
}

fn round_trips(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("signal round trip");
    group.bench_function("threads", |bencher| {
        bencher.iter_custom(|rounds| {
            let times = world().run_threads(|window| ping_pong(window, rounds as i32));
            times.expect("both ranks live")[0]
        });
    });
    group.bench_function("processes", |bencher| {
        bencher.iter_custom(|rounds| {
            let mut command = RankCommand::this().expect("this executable has a path");
            command.arguments = vec![rounds.to_string().into()];
            let results = world().run_processes(&command).expect("both ranks live");
            let nanos: [u8; 8] = results[0].as_slice().try_into().expect("a time");
            Duration::from_nanos(u64::from_le_bytes(nanos))
        });
    });
    group.finish();
}

/// Rows of a rank moved by another, and the same bytes copied within a rank.
fn rows(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rows");
    for bytes in [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, MIB] {
        group.throughput(Throughput::Bytes(bytes as u64));
        for kind in ["put", "get", "memcpy"] {
            group.bench_function(BenchmarkId::new(kind, bytes), |bencher| {
                bencher.iter_custom(|count| {
                    let run = |window: &mut Window| move_rows(window, kind, bytes, count);
                    world().run_threads(run).expect("both ranks live")[0]
                });
            });
        }
    }
    group.finish();
}

fn move_rows(
    window: &mut Window,
    kind: &str,
    bytes: usize,
    count: u64,
) -> Result<Duration, BoxError> {
    let rank = window.rank();
    let launch = window.begin()?;
    if rank == 1 {
        return Ok(Duration::ZERO);
    }
    let (mut here, mut there) = (vec![1; bytes], vec![2; bytes]);
    launch.put(1, Rows::Returned, 0, &here)?;
    let start = Instant::now();
    for _ in 0..count {
        match kind {
            "put" => launch.put(1, Rows::Returned, 0, std::hint::black_box(&here))?,
            "get" => launch.get(1, Rows::Returned, 0, std::hint::black_box(&mut here))?,
            _ => std::hint::black_box(&mut there).copy_from_slice(std::hint::black_box(&here)),
        }
    }
    Ok(start.elapsed())
}

fn child(member: Member) {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let mut joined = member.join(&world()).expect("the parent's world");
    let time = ping_pong(joined.window(), rounds.expect("a number of rounds"));
    let time = time.expect("the peer lives").as_nanos() as u64;
    joined
        .finish(Ok(&time.to_le_bytes()))
        .expect("the parent lives");
}

fn main() {
    if let Some(member) = Member::from_env().expect("a legal environment") {
        return child(member);
    }
    let mut criterion = Criterion::default()
        .configure_from_args()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1));
    round_trips(&mut criterion);
    rows(&mut criterion);
    criterion.final_summary();
}
