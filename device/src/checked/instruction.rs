//! What each instruction reads and writes.

use std::ops::Range;
use std::sync::{Arc, MutexGuard};

use super::State;
use super::clock::Agent;
use super::core::{CoreCheck, Running};
use super::finding::Check;
use super::judge::{Fault, Space};
use crate::abi::types::{GmLayout, GmView, Memory, TileLayout, TileView};

const C0: u64 = 32;

/// An instruction of a core, and its pieces of memory.
pub(crate) struct Instruction<'c> {
    core: &'c mut CoreCheck,
    state: MutexGuard<'c, State>,
    running: Running,
    operands: Vec<(Memory, Range<u64>, bool)>,
}

impl CoreCheck {
    /// Checks an instruction: `describe` says what it reads and writes, reads first.
    pub(crate) fn instruction(
        &mut self,
        name: &'static str,
        pipe: Agent,
        describe: impl FnOnce(&mut Instruction<'_>),
    ) {
        let checker = Arc::clone(&self.checker);
        let mut state = checker.lock();
        let running = self.start(&mut state, name, pipe);
        let mut instruction = Instruction {
            core: self,
            state,
            running,
            operands: Vec::new(),
        };
        describe(&mut instruction);
        instruction.check_overlap();
    }

    /// A load or store of the scalar unit.
    pub(crate) fn scalar(&mut self, memory: Option<Memory>, range: Range<u64>, is_write: bool) {
        let (name, agent) = if is_write {
            ("scalar store", Agent::ScalarWrites)
        } else {
            ("scalar load", Agent::S)
        };
        let checker = Arc::clone(&self.checker);
        let mut state = checker.lock();
        let running = self.start(&mut state, name, agent);
        match memory {
            Some(memory) => self.touch(&mut state, &running, memory, range, is_write),
            None => self.touch_global(&mut state, &running, range, is_write),
        }
    }

    /// Whether an address is of the program itself: a kernel's constants.
    pub(crate) fn is_own(&self, address: u64) -> bool {
        let mut state = self.checker.lock();
        state.region_at(address).is_none() && state.images.hold(address)
    }
}

impl Instruction<'_> {
    pub(crate) fn reads(&mut self, tile: &TileView) {
        self.tile(tile, false);
    }

    pub(crate) fn writes(&mut self, tile: &TileView) {
        self.tile(tile, true);
    }

    fn tile(&mut self, tile: &TileView, is_write: bool) {
        for range in footprint(tile) {
            self.piece(tile.memory(), range, is_write);
        }
    }

    fn piece(&mut self, memory: Memory, range: Range<u64>, is_write: bool) {
        self.operands.push((memory, range.clone(), is_write));
        self.core
            .touch(&mut self.state, &self.running, memory, range, is_write);
    }

    /// The part of a tile in L1 of `target`'s valid size, from row and column on.
    pub(crate) fn reads_part(
        &mut self,
        source: &TileView,
        target: &TileView,
        (row, col): (u32, u32),
    ) {
        let part = TileView {
            valid_rows: target.valid_rows,
            valid_cols: target.valid_cols,
            ..*source
        };
        let offset = u64::from(col) / C0 * u64::from(source.rows) * C0 + u64::from(row) * C0;
        for range in footprint(&part) {
            let range = range.start + offset..range.end + offset;
            self.piece(source.memory(), range, false);
        }
    }

    pub(crate) fn reads_global(&mut self, gm: &GmView, tile: &TileView) {
        self.global(gm, tile, false);
    }

    pub(crate) fn writes_global(&mut self, gm: &GmView, tile: &TileView) {
        self.global(gm, tile, true);
    }

    fn global(&mut self, gm: &GmView, tile: &TileView, is_write: bool) {
        let mut run: Option<Range<u64>> = None;
        for piece in global_pieces(gm, tile) {
            match &mut run {
                Some(run) if run.end == piece.start => run.end = piece.end,
                _ => {
                    if let Some(run) = run.replace(piece) {
                        self.core
                            .touch_global(&mut self.state, &self.running, run, is_write);
                    }
                }
            }
        }
        if let Some(run) = run {
            self.core
                .touch_global(&mut self.state, &self.running, run, is_write);
        }
    }

    /// A target that covers a part of a source, and does not start where it does.
    fn check_overlap(&mut self) {
        let overlapping = self
            .operands
            .iter()
            .filter(|(_, _, is_write)| *is_write)
            .find_map(|(memory, target, _)| {
                let mut sources = self
                    .operands
                    .iter()
                    .filter(|(m, _, is_write)| m == memory && !is_write);
                let meets =
                    |source: &Range<u64>| source.start < target.end && target.start < source.end;
                sources
                    .any(|(_, source, _)| meets(source) && source.start != target.start)
                    .then(|| (*memory, target.clone()))
            });
        if let Some((memory, range)) = overlapping {
            let hint = "give the result a place of its own, or the operand's whole place";
            let fault = Fault::alone(Check::Memcheck, "tiles of one instruction overlap", hint);
            let place = (&Space::OnChip(memory), &range);
            self.core
                .report(&mut self.state, &self.running, &fault, place);
        }
    }
}

fn one(range: Range<u64>) -> Vec<Range<u64>> {
    std::iter::once(range).collect()
}

/// Bytes of a tile's valid elements.
fn footprint(tile: &TileView) -> Vec<Range<u64>> {
    let bytes = tile.dtype().bytes() as u64;
    let start = u64::from(tile.address);
    let (rows, cols) = (u64::from(tile.valid_rows), u64::from(tile.valid_cols));
    if rows == 0 || cols == 0 {
        return Vec::new();
    }
    let strided = |count: u64, stride: u64, len: u64| -> Vec<Range<u64>> {
        if len == stride || count == 1 {
            return one(start..start + (count - 1) * stride + len);
        }
        (0..count)
            .map(|i| start + i * stride..start + i * stride + len)
            .collect()
    };
    match tile.layout() {
        TileLayout::RowMajor => strided(rows, u64::from(tile.cols) * bytes, cols * bytes),
        TileLayout::ColMajor => strided(cols, u64::from(tile.rows) * bytes, rows * bytes),
        TileLayout::Nz => strided(
            (cols * bytes).div_ceil(C0),
            u64::from(tile.rows) * C0,
            rows * C0,
        ),
        // Only the unit knows how; whole fractals of what is valid.
        TileLayout::Unit => {
            let unit = C0 / bytes;
            one(start..start + rows.next_multiple_of(16) * cols.next_multiple_of(unit) * bytes)
        }
    }
}

/// Bytes of global memory that go with a tile's valid elements.
fn global_pieces(gm: &GmView, tile: &TileView) -> Vec<Range<u64>> {
    let bytes = tile_bytes(gm);
    let (rows, cols) = (tile.valid_rows as usize, u64::from(tile.valid_cols));
    if GmLayout::Nz == gm.layout() {
        let columns = (cols * bytes).div_ceil(C0);
        let piece = |column: u64| {
            let start = gm.data + column * gm.stride[1].cast_unsigned() * bytes;
            start..start + rows as u64 * C0
        };
        return (0..columns).map(piece).collect();
    }
    (0..rows)
        .map(|row| {
            let start = gm.row(row) as u64;
            start..start + cols * bytes
        })
        .collect()
}

fn tile_bytes(gm: &GmView) -> u64 {
    gm.dtype().bytes() as u64
}
