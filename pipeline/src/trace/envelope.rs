//! The picture of a launch: one lane for each stage, one bar for each expert from the first core that began it to
//! the last that ended, time to the right.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use moe_core::StageKind;

use super::{Timeline, works};

const LEFT: f64 = 90.0;
const WIDTH: f64 = 1100.0;
const LANE: f64 = 64.0;
const TOP: f64 = 40.0;
/// Bars of a lane lie in so many rows, so that experts that overlap stay apart.
const ROWS: u32 = 4;

/// The SVG of one rank.
///
/// # Errors
/// The number of ranks, when there is no rank of that number in the timeline.
pub fn svg(timeline: &Timeline, rank: usize) -> Result<String, usize> {
    let cores = timeline.ranks.get(rank).ok_or(timeline.ranks.len())?;
    let start = works(cores).map(|work| work.begin).min().unwrap_or(0);
    let end = works(cores).map(|work| work.end).max().unwrap_or(start);
    let scale = WIDTH / (end - start).max(1) as f64;
    let x = |time: u64| LEFT + (time - start) as f64 * scale;
    let height = TOP + LANE * StageKind::ALL.len() as f64 + 40.0;
    let mut svg = String::new();
    // Writing to a string never fails.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"13\">rank {rank}: experts in each stage, {:.3} ms</text>\n",
        LEFT + WIDTH + 20.0,
        (end - start) as f64 / 1e6,
    );
    for (lane, stage) in StageKind::ALL.into_iter().enumerate() {
        let y = TOP + lane as f64 * LANE;
        let _ = writeln!(
            svg,
            "<text x=\"8\" y=\"{}\">{stage}</text><line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#ddd\"/>",
            y + LANE / 2.0,
            LEFT + WIDTH,
        );
        for (expert, (begin, end)) in envelopes(timeline, rank, stage) {
            bar(&mut svg, y, expert, (x(begin), x(end)));
        }
    }
    axis(&mut svg, height - 22.0, (end - start) as f64 / 1e6);
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// First begin and last end of each expert in a stage.
fn envelopes(
    timeline: &Timeline,
    rank: usize,
    stage: StageKind,
) -> BTreeMap<Option<u32>, (u64, u64)> {
    let mut envelopes: BTreeMap<Option<u32>, (u64, u64)> = BTreeMap::new();
    for work in works(&timeline.ranks[rank]).filter(|work| work.stage == stage) {
        let envelope = envelopes
            .entry(work.expert)
            .or_insert((work.begin, work.end));
        *envelope = (envelope.0.min(work.begin), envelope.1.max(work.end));
    }
    envelopes
}

fn bar(svg: &mut String, lane: f64, expert: Option<u32>, (left, right): (f64, f64)) {
    let (row, rows) = expert.map_or((0, 1), |expert| (expert % ROWS, ROWS));
    let height = (LANE - 8.0) / f64::from(rows);
    let y = lane + 4.0 + height * f64::from(row);
    // Neighbours get hues far apart.
    let hue = expert.map_or(0, |expert| expert * 137 % 360);
    let saturation = if expert.is_some() { 60 } else { 0 };
    let title = expert.map_or(String::new(), |expert| expert.to_string());
    let _ = writeln!(
        svg,
        "<rect x=\"{left:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"hsl({hue},{saturation}%,65%)\">\
         <title>{title}</title></rect><text x=\"{:.2}\" y=\"{:.2}\" font-size=\"9\">{title}</text>",
        (right - left).max(0.5),
        height - 1.0,
        left + 2.0,
        y + height - 4.0,
    );
}

fn axis(svg: &mut String, y: f64, millis: f64) {
    for tick in 0..=10 {
        let (x, time) = (
            LEFT + WIDTH * f64::from(tick) / 10.0,
            millis * f64::from(tick) / 10.0,
        );
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" x2=\"{x}\" y1=\"{TOP}\" y2=\"{y}\" stroke=\"#eee\"/>\
             <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{time:.3}</text>",
            y + 14.0,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::small;
    use super::*;

    #[test]
    fn every_expert_has_its_bar_in_every_stage() {
        let svg = svg(&small(), 0).unwrap();
        // Five stages of two experts, two without, the background.
        assert_eq!(svg.matches("<rect").count(), 5 * 2 + 2 + 1);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn a_rank_that_is_not_there_is_refused() {
        assert_eq!(svg(&small(), 1), Err(1));
    }
}
