//! Sites and verdicts as a table.

use std::fmt::Write as _;

use crate::Verdict;
use crate::sites::Site;

/// One mutant.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    place: String,
    what: String,
    verdict: Verdict,
}

impl Row {
    pub(crate) fn new(site: &Site, verdict: Verdict) -> Self {
        Self {
            place: format!("{}:{}", site.file, site.line),
            what: site.what.clone(),
            verdict,
        }
    }

    pub(crate) fn is_reported(&self) -> bool {
        matches!(self.verdict, Verdict::Reported(..))
    }

    pub(crate) fn is_exempt(&self) -> bool {
        matches!(self.verdict, Verdict::Exempt(_))
    }

    fn verdict(&self) -> String {
        match &self.verdict {
            Verdict::Reported(scenario, words) => format!("reported ({scenario}): {words}"),
            Verdict::Survived => "NOT REPORTED".to_owned(),
            Verdict::Broken(why) => format!("BROKEN: {why}"),
            Verdict::Exempt(reason) => format!("not made, not for order: {reason}"),
        }
    }
}

fn summary(rows: &[Row]) -> String {
    let reported = rows.iter().filter(|row| row.is_reported()).count();
    let exempt = rows.iter().filter(|row| row.is_exempt()).count();
    let made = rows.len() - exempt;
    format!(
        "{reported} of {made} mutants are reported; {exempt} sites are not there for the sake of order"
    )
}

/// To the terminal.
pub(crate) fn print(rows: &[Row]) {
    for row in rows {
        println!("{}: {}\n    {}", row.place, row.what, row.verdict());
    }
    println!("{}", summary(rows));
}

/// For the docs.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut text = format!(
        "# Every synchronisation, taken away\n\nMade by `cargo run --release -p megamoe-mutants -- all --table docs/mutants.md`. {}.\n\n\
         | place | change | what checked mode says |\n|---|---|---|\n",
        summary(rows)
    );
    for row in rows {
        let clean = |text: &str| text.replace('|', "\\|").replace('\n', " ");
        // Writing to a string never fails.
        let _ = writeln!(
            text,
            "| {} | `{}` | {} |",
            row.place,
            clean(&row.what),
            clean(&row.verdict())
        );
    }
    text
}
