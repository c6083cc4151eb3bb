//! Where the kernels synchronise, found in their source.

use std::collections::BTreeMap;
use std::ops::Range;

/// A change of a file that takes a synchronisation away, or weakens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// The file, below a kernel folder.
    pub(crate) file: String,
    /// Line of the first change, from 1.
    pub(crate) line: usize,
    /// What is changed, in a few words.
    pub(crate) what: String,
    /// Why it is not there for the sake of order, where the source says so.
    pub(crate) exempt: Option<String>,
    /// Bytes of the file that are replaced, in order, and by what.
    pub(crate) edits: Vec<(Range<usize>, String)>,
}

impl Site {
    /// The file's text with the change.
    pub(crate) fn apply(&self, text: &str) -> String {
        let mut changed = String::new();
        let mut at = 0;
        for (range, by) in &self.edits {
            changed.push_str(&text[at..range.start]);
            changed.push_str(by);
            at = range.end;
        }
        changed.push_str(&text[at..]);
        changed
    }
}

/// A comment in front of a wait that decides when something happens, not whether it is right.
const NOT_FOR_ORDER: &str = "// not for order:";

/// Calls that synchronise; each is removed by itself.
const CALLS: [&str; 19] = [
    "pipe_barrier(",
    "dsb(",
    "dcci(",
    "pto::SYNCALL<",
    "pto::comm::TNOTIFY(",
    "pto::comm::TWAIT(",
    "refresh(",
    "publish_writes(",
    "sync_.vector_barrier(",
    "sync.vector_barrier(",
    "window_.notify(",
    "window_.wait(",
    "handover_.wait(",
    "handover_.arrive(",
    "handover_.decide(",
    "exchange.wait_counts(",
    "wait_front(",
    "wait_gmm2(",
    "wait_for(",
];

/// Texts that make a wait weaker when they are replaced.
const WEAKER: [(&str, &str, &str); 4] = [
    (
        "TWAIT(signal, map_.epoch, ",
        "TWAIT(signal, map_.epoch - 1, ",
        "waits for the epoch before",
    ),
    (
        "TNOTIFY(signal, map_.epoch, ",
        "TNOTIFY(signal, map_.epoch + 1, ",
        "announces the epoch after",
    ),
    (
        "TWAIT(flag, window_.epoch(), pto::comm::WaitCmp::EQ)",
        "TWAIT(flag, 0, pto::comm::WaitCmp::GT)",
        "takes counts of any launch",
    ),
    (
        "TWAIT(counter, static_cast<int32_t>(num_workers), ",
        "TWAIT(counter, static_cast<int32_t>(num_workers) - 1, ",
        "waits for one worker less",
    ),
];

/// All of a file.
pub(crate) fn find(file: &str, text: &str) -> Vec<Site> {
    let mut sites = flag_pairs(file, text);
    for call in CALLS {
        for range in statements(text, call) {
            let what = one_line(&text[range.clone()]);
            sites.push(site(
                file,
                text,
                format!("without {what}"),
                vec![(range, ";".to_owned())],
            ));
        }
    }
    for (old, new, what) in WEAKER {
        for (start, _) in text.match_indices(old) {
            let edit = (start..start + old.len(), new.to_owned());
            sites.push(site(file, text, what.to_owned(), vec![edit]));
        }
    }
    sites.sort_by_key(|site| site.line);
    sites
}

fn site(file: &str, text: &str, what: String, edits: Vec<(Range<usize>, String)>) -> Site {
    let start = edits.first().map_or(0, |(range, _)| range.start);
    let line_before = text[..start]
        .trim_end()
        .lines()
        .next_back()
        .unwrap_or_default();
    let exempt = line_before
        .trim()
        .strip_prefix(NOT_FOR_ORDER)
        .map(|reason| reason.trim().to_owned());
    Site {
        exempt,
        file: file.to_owned(),
        line: text[..start].matches('\n').count() + 1,
        what,
        edits,
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .trim_end_matches(';')
        .to_owned()
}

/// Two pipes and an id.
type Flag = (String, String, String);
type Edits = Vec<(Range<usize>, String)>;

/// All sets and waits of one flag: two pipes and an id without the number of its buffer.
fn flag_pairs(file: &str, text: &str) -> Vec<Site> {
    let mut families: BTreeMap<Flag, Edits> = BTreeMap::new();
    for call in ["set_flag(", "wait_flag("] {
        for range in statements(text, call) {
            let statement = one_line(&text[range.clone()]);
            let arguments = statement[call.len()..].trim_end_matches(')');
            let [source, target, id] = arguments.splitn(3, ", ").collect::<Vec<_>>()[..] else {
                continue;
            };
            let base = id.split(' ').next().unwrap_or(id);
            let key = (source.to_owned(), target.to_owned(), base.to_owned());
            families
                .entry(key)
                .or_default()
                .push((range, format!("(void)({id});")));
        }
    }
    let make = |((source, target, id), mut edits): (Flag, Edits)| {
        edits.sort_by_key(|(range, _)| range.start);
        let what = format!("without flags {id} of {source} -> {target}");
        site(file, text, what, edits)
    };
    families.into_iter().map(make).collect()
}

/// Places of statements that begin with a call.
fn statements(text: &str, call: &str) -> Vec<Range<usize>> {
    let begins = |start: usize| {
        let before = without_comments(&text[..start]);
        let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let is_comment = text[line..start].contains("//");
        !is_comment && before.ends_with(['{', '}', ';', ':', ')']) && !before.ends_with("::")
    };
    let end = |start: usize| text[start..].find(';').map(|len| start + len + 1);
    let starts = text
        .match_indices(call)
        .map(|(start, _)| start)
        .filter(|&start| begins(start));
    starts
        .filter_map(|start| Some(start..end(start)?))
        .collect()
}

/// A text without the comment lines at its end.
fn without_comments(text: &str) -> &str {
    let mut text = text.trim_end();
    while let Some(line) = text
        .lines()
        .next_back()
        .filter(|line| line.trim_start().starts_with("//"))
    {
        text = text[..text.len() - line.len()].trim_end();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "void f() {\n  // dsb(DSB_DDR) here\n  set_flag(PIPE_V, PIPE_S, kMax);\n  \
                        wait_flag(PIPE_V, PIPE_S, kMax + buffer);\n  pipe_barrier(PIPE_V);\n  a.refresh(x);\n}\n";

    #[test]
    fn a_flag_is_one_site_and_comments_and_members_are_none() {
        let sites = find("f.h", TEXT);
        let whats: Vec<_> = sites
            .iter()
            .map(|site| (site.line, site.what.as_str()))
            .collect();
        let want = [
            (3, "without flags kMax of PIPE_V -> PIPE_S"),
            (5, "without pipe_barrier(PIPE_V)"),
        ];
        assert_eq!(whats, want);
        let changed = sites[0].apply(TEXT);
        assert!(
            changed.contains("(void)(kMax);\n  (void)(kMax + buffer);\n  pipe_barrier"),
            "{changed}"
        );
    }
}
