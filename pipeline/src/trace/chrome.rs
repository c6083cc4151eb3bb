//! The trace-event format: JSON that Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open.
//!
//! A process for each rank, a thread for each logical core, a slice for each piece of work and each wait before
//! one, arrows from the last core that handed an expert on to those that waited for it.

use std::collections::HashMap;
use std::io::{self, Write};

use moe_core::StageKind;
use serde::{Deserialize, Serialize};

use super::{Timeline, producer};
use crate::layer::{CoreKind, CoreTimeline, Work};

/// A file that is no trace of a fused launch.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// No JSON of this format.
    #[error("no trace of a fused launch: {0}")]
    Json(#[from] serde_json::Error),
    /// A trace without work.
    #[error("the trace holds no work of a fused launch")]
    Empty,
}

#[derive(Serialize, Deserialize)]
struct Trace {
    #[serde(rename = "displayTimeUnit", default)]
    unit: String,
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
}

/// One event. Times are microseconds.
#[derive(Serialize, Deserialize)]
struct Event {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    cat: String,
    ph: String,
    #[serde(default)]
    ts: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    pid: u32,
    tid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bp: Option<String>,
    #[serde(default, skip_serializing_if = "Args::is_empty")]
    args: Args,
}

/// What an event says besides.
#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Args {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<StageKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expert: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for_ranks_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_at_barriers_us: Option<f64>,
}

impl Args {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Writes a timeline.
///
/// # Errors
/// As `writer`.
pub fn write(timeline: &Timeline, writer: impl Write) -> io::Result<()> {
    let mut tracer = Tracer {
        start: timeline.start(),
        events: Vec::new(),
        num_arrows: 0,
    };
    for (rank, cores) in (0..).zip(&timeline.ranks) {
        tracer.rank(rank, cores);
    }
    let trace = Trace {
        unit: "ns".to_owned(),
        events: tracer.events,
    };
    Ok(serde_json::to_writer(writer, &trace)?)
}

/// Threads of a rank: matrix cores, then vector cores.
fn thread(core: &CoreTimeline) -> u32 {
    match core.kind {
        CoreKind::Aic => 1 + core.idx,
        CoreKind::Aiv => FIRST_AIV + core.idx,
    }
}

const FIRST_AIV: u32 = 1001;

struct Tracer {
    start: u64,
    events: Vec<Event>,
    num_arrows: u64,
}

impl Tracer {
    fn micro(&self, time: u64) -> f64 {
        (time - self.start) as f64 / 1e3
    }

    fn rank(&mut self, rank: u32, cores: &[CoreTimeline]) {
        self.label("process_name", rank, 0, format!("rank {rank}"));
        for core in cores {
            let name = format!("{} {}", core.kind.name(), core.idx);
            self.label("thread_name", rank, thread(core), name);
            for work in &core.work {
                self.work(rank, thread(core), work);
            }
        }
        self.arrows(rank, cores);
    }

    fn label(&mut self, name: &str, pid: u32, tid: u32, text: String) {
        self.events.push(Event {
            name: name.to_owned(),
            cat: String::new(),
            ph: "M".to_owned(),
            ts: 0.0,
            dur: None,
            pid,
            tid,
            id: None,
            bp: None,
            args: Args {
                name: Some(text),
                ..Args::default()
            },
        });
    }

    fn slice(&mut self, pid: u32, tid: u32, cat: &str, (begin, end): (u64, u64), work: &Work) {
        let title = match work.expert {
            Some(expert) => format!("{} {expert}", work.stage),
            None => work.stage.to_string(),
        };
        let within = |nanos: u64| (nanos > 0 && cat == WORK).then_some(nanos as f64 / 1e3);
        self.events.push(Event {
            name: if cat == WAIT {
                format!("wait: {title}")
            } else {
                title
            },
            cat: cat.to_owned(),
            ph: "X".to_owned(),
            ts: self.micro(begin),
            dur: Some((end - begin) as f64 / 1e3),
            pid,
            tid,
            id: None,
            bp: None,
            args: Args {
                name: None,
                stage: Some(work.stage),
                expert: work.expert,
                waits_for_ranks_us: within(work.peer_wait),
                waits_at_barriers_us: within(work.barrier_wait),
            },
        });
    }

    fn work(&mut self, pid: u32, tid: u32, work: &Work) {
        if work.begin > work.asked {
            self.slice(pid, tid, WAIT, (work.asked, work.begin), work);
        }
        self.slice(pid, tid, WORK, (work.begin, work.end), work);
    }

    /// From the core that handed an expert on last to every core that waited for it.
    fn arrows(&mut self, rank: u32, cores: &[CoreTimeline]) {
        let mut last: HashMap<(StageKind, Option<u32>), (u64, u32)> = HashMap::new();
        for core in cores {
            for work in &core.work {
                let entry = last.entry((work.stage, work.expert)).or_default();
                *entry = (*entry).max((work.end, thread(core)));
            }
        }
        for core in cores {
            for work in core.work.iter().filter(|work| work.begin > work.asked) {
                let Some(source) = producer(work.stage) else {
                    continue;
                };
                let expert = work.expert.filter(|_| source != StageKind::FrontReorder);
                if let Some(&(end, from)) = last.get(&(source, expert)) {
                    self.arrow(rank, (from, end), (thread(core), work.begin));
                }
            }
        }
    }

    fn arrow(&mut self, pid: u32, from: (u32, u64), to: (u32, u64)) {
        self.num_arrows += 1;
        for (ph, (tid, time)) in [("s", from), ("f", to)] {
            self.events.push(Event {
                name: "ready".to_owned(),
                cat: "flag".to_owned(),
                ph: ph.to_owned(),
                ts: self.micro(time),
                dur: None,
                pid,
                tid,
                id: Some(self.num_arrows),
                bp: (ph == "f").then(|| "e".to_owned()),
                args: Args::default(),
            });
        }
    }
}

const WORK: &str = "work";
const WAIT: &str = "wait";

/// Reads a trace that [`write()`] wrote. Waits before work are not kept.
///
/// # Errors
/// [`TraceError`].
pub fn read(text: &str) -> Result<Timeline, TraceError> {
    let trace: Trace = serde_json::from_str(text)?;
    let mut ranks: Vec<HashMap<u32, CoreTimeline>> = Vec::new();
    for event in trace.events.iter().filter(|event| event.cat == WORK) {
        let (Some(stage), Some(dur)) = (event.args.stage, event.dur) else {
            continue;
        };
        let rank = event.pid as usize;
        if rank >= ranks.len() {
            ranks.resize_with(rank + 1, HashMap::new);
        }
        let core = ranks[rank]
            .entry(event.tid)
            .or_insert_with(|| empty(event.tid));
        let nanos = |micro: f64| (micro * 1e3).round() as u64;
        let begin = nanos(event.ts);
        core.work.push(Work {
            stage,
            expert: event.args.expert,
            asked: begin,
            begin,
            end: begin + nanos(dur),
            peer_wait: nanos(event.args.waits_for_ranks_us.unwrap_or(0.0)),
            barrier_wait: nanos(event.args.waits_at_barriers_us.unwrap_or(0.0)),
        });
    }
    let sorted = |cores: HashMap<u32, CoreTimeline>| {
        let mut cores: Vec<CoreTimeline> = cores.into_values().collect();
        cores.sort_by_key(|core| (core.kind, core.idx));
        cores
    };
    let timeline = Timeline {
        ranks: ranks.into_iter().map(sorted).collect(),
    };
    if timeline.is_empty() {
        return Err(TraceError::Empty);
    }
    Ok(timeline)
}

fn empty(thread: u32) -> CoreTimeline {
    let (kind, idx) = if thread >= FIRST_AIV {
        (CoreKind::Aiv, thread - FIRST_AIV)
    } else {
        (CoreKind::Aic, thread.saturating_sub(1))
    };
    CoreTimeline {
        kind,
        idx,
        work: Vec::new(),
        peer_waits: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::small;
    use super::*;

    fn text() -> String {
        let mut bytes = Vec::new();
        write(&small(), &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_trace_has_what_perfetto_asks_for() {
        let trace: serde_json::Value = serde_json::from_str(&text()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let of = |ph: &str| events.iter().filter(|e| e["ph"] == ph).collect::<Vec<_>>();
        assert_eq!(of("M").len(), 3);
        // 12 pieces of work, 5 waits; each wait but those for FrontReorder and ranks has its arrow.
        assert_eq!(of("X").len(), 12 + 5);
        assert_eq!((of("s").len(), of("f").len()), (5, 5));
        for arrow in of("f") {
            assert_eq!(arrow["bp"], "e");
        }
        for slice in of("X") {
            assert!(slice["dur"].as_f64().unwrap() >= 0.0 && slice["ts"].as_f64().unwrap() >= 0.0);
        }
    }

    #[test]
    fn a_trace_is_read_as_it_was_written() {
        let mut written = small();
        let first = &mut written.ranks[0][0].work[0];
        (first.peer_wait, first.barrier_wait) = (1000, 3000);
        let mut bytes = Vec::new();
        write(&written, &mut bytes).unwrap();
        let read = read(&String::from_utf8(bytes).unwrap()).unwrap();
        let work = |timeline: &Timeline| {
            let start = timeline.start();
            let cores = timeline.ranks.iter().flatten();
            let works = cores.flat_map(|core| core.work.iter().map(|w| (core.kind, *w)));
            works
                .map(|(kind, w)| {
                    let waits = (w.peer_wait, w.barrier_wait);
                    let time = (w.begin - start, w.end - start);
                    (kind, w.stage, w.expert, time, waits)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(work(&read), work(&written));
    }

    #[test]
    fn other_files_are_refused() {
        for text in ["", "{}", "[1]", "{\"traceEvents\": []}"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
