//! Sorting and gathering on the vector core.

use super::types::{DType, TileView};
use super::{place, unsupported};
use crate::checked::Agent;
use crate::compute::sort::{BLOCK, Pair, merge, sort_block};
use crate::runtime::core::Core;

/// `TSORT32`: each 32 values with their indices, descending.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_sort32(target: &TileView, source: &TileView, index: &TileView) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    if source.dtype() != DType::F32 || index.dtype().bytes() != 4 {
        unsupported(core, "TSORT32", source);
    }
    let (to, values) = (
        place(core, "TSORT32", target),
        place(core, "TSORT32", source),
    );
    let indices = place(core, "TSORT32", index);
    core.track("TSORT32", Agent::V, |i| {
        i.reads(source);
        i.reads(index);
        i.writes(&TileView {
            valid_cols: target.cols.min(2 * source.valid_cols),
            ..*target
        });
    });
    let len = source.valid_cols as usize;
    if !len.is_multiple_of(BLOCK) || target.cols < 2 * source.valid_cols {
        core.fail(&format!(
            "TSORT32: {len} values to a tile of {} columns",
            target.cols
        ));
    }
    for row in 0..source.valid_rows as usize {
        for start in (0..len).step_by(BLOCK) {
            let mut block = [Pair::default(); BLOCK];
            for (i, pair) in block.iter_mut().enumerate() {
                // SAFETY: the elements have been placed.
                unsafe {
                    pair.value = values
                        .cast::<f32>()
                        .add(row * source.pitch() + start + i)
                        .read();
                    pair.index = indices
                        .cast::<u32>()
                        .add(row * index.pitch() + start + i)
                        .read();
                }
            }
            sort_block(&mut block);
            // SAFETY: the target has room for two words for each value, as checked.
            unsafe {
                let to = to.cast::<u32>().add(row * target.pitch() + 2 * start);
                to.cast::<[Pair; BLOCK]>().write_unaligned(block);
            }
        }
    }
}

/// Pairs of a tile with one row.
///
/// # Safety
/// The tile has been placed at `from`.
unsafe fn pairs(from: *const u8, len: usize) -> Vec<Pair> {
    // SAFETY: as the caller promises.
    (0..len)
        .map(|i| unsafe { from.cast::<Pair>().add(i).read_unaligned() })
        .collect()
}

/// `TMRGSORT` of one tile: every four blocks of `block_len` words become one sorted list.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_merge_blocks(
    target: &TileView,
    source: &TileView,
    block_len: u32,
) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    let (to, from) = (
        place(core, "TMRGSORT", target),
        place(core, "TMRGSORT", source),
    );
    let words = source.valid_cols;
    if block_len == 0 || !block_len.is_multiple_of(64) || !words.is_multiple_of(4 * block_len) {
        core.fail(&format!("TMRGSORT: {words} words in blocks of {block_len}"));
    }
    core.track("TMRGSORT", Agent::V, |i| {
        i.reads(source);
        i.writes(&TileView {
            valid_cols: words.min(target.cols),
            ..*target
        });
    });
    // SAFETY: placed above.
    let all = unsafe { pairs(from, words as usize / 2) };
    let mut merged = Vec::with_capacity(all.len());
    for group in all.chunks(2 * block_len as usize) {
        let lists: Vec<&[Pair]> = group.chunks(block_len as usize / 2).collect();
        merge(&lists, false, &mut merged);
    }
    // SAFETY: the target has been placed with the same number of words.
    unsafe { write_pairs(core, target, to, &merged) }
}

unsafe fn write_pairs(core: &Core, target: &TileView, to: *mut u8, merged: &[Pair]) {
    if 2 * merged.len() > target.cols as usize {
        let (words, cols) = (2 * merged.len(), target.cols);
        core.fail(&format!("TMRGSORT: {words} words to a tile of {cols}"));
    }
    // SAFETY: the tile has room, as checked, and has been placed.
    unsafe { std::ptr::copy_nonoverlapping(merged.as_ptr().cast::<u8>(), to, 8 * merged.len()) }
}

/// `TMRGSORT` of two to four tiles. `taken` gets the number of pairs taken from each.
///
/// # Safety
/// See the module; `sources` has `num_sources` entries and `taken` four.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_merge(
    target: &TileView,
    sources: *const TileView,
    num_sources: u32,
    stop_early: u32,
    taken: *mut u16,
) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    let whole = TileView {
        valid_cols: target.cols,
        ..*target
    };
    let to = place(core, "TMRGSORT", &whole);
    // SAFETY: as the caller promises.
    let sources = unsafe { std::slice::from_raw_parts(sources, num_sources as usize) };
    let mut lists = Vec::new();
    for source in sources {
        let from = place(core, "TMRGSORT", source);
        // SAFETY: placed just now.
        lists.push(unsafe { pairs(from, source.valid_cols as usize / 2) });
    }
    core.track("TMRGSORT", Agent::V, |i| {
        sources.iter().for_each(|source| i.reads(source));
        let words: u32 = sources.iter().map(|source| source.valid_cols).sum();
        i.writes(&TileView {
            valid_cols: words.min(target.cols),
            ..*target
        });
    });
    let lists: Vec<&[Pair]> = lists.iter().map(Vec::as_slice).collect();
    let mut merged = Vec::new();
    let counts = merge(&lists, stop_early != 0, &mut merged);
    // SAFETY: the whole target has been placed; `taken` has four entries.
    unsafe {
        write_pairs(core, target, to, &merged);
        for (i, count) in counts.into_iter().enumerate() {
            taken.add(i).write(count as u16);
        }
    }
}

/// `TGATHER` with a mask: every `step`-th element of each row, from `first` on.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_gather(
    target: &TileView,
    source: &TileView,
    first: u32,
    step: u32,
) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    let from = place(core, "TGATHER", source);
    let count = source.valid_cols.saturating_sub(first).div_ceil(step);
    if count > target.cols {
        core.fail(&format!(
            "TGATHER: {count} elements to a tile of {} columns",
            target.cols
        ));
    }
    let to = place(
        core,
        "TGATHER",
        &TileView {
            valid_cols: count,
            ..*target
        },
    );
    core.track("TGATHER", Agent::V, |i| {
        i.reads(source);
        i.writes(&TileView {
            valid_cols: count,
            ..*target
        });
    });
    let bytes = source.dtype().bytes();
    for row in 0..source.valid_rows as usize {
        for i in 0..count as usize {
            let element = row * source.pitch() + first as usize + i * step as usize;
            // SAFETY: both elements have been placed.
            unsafe {
                let to = to.add((row * target.pitch() + i) * bytes);
                std::ptr::copy(from.add(element * bytes), to, bytes);
            }
        }
    }
}
