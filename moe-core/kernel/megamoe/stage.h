// What all stages share on the device: workers, synchronisation policies, and lines of UB and GM.
//
// A stage is a class template over its synchronisation policy. Who calls it deals the cores: it passes a worker, `idx`
// of `num`. The stage says which expert it waits for and which it has finished; the policy says how. So one body runs
// alone, fused and under test.
#pragma once

#include "kernel_operator.h"
#include "megamoe/onchip.h"
#include "megamoe/slot.h"

namespace megamoe {

// One of the cores that share a stage's work.
struct Worker {
  uint32_t idx;
  uint32_t num;
};

// A half-open range of work.
struct Range {
  uint32_t begin;
  uint32_t end;
};

// A worker's contiguous share of `count` items. Shares differ by one item at most.
AICORE inline Range share(uint32_t count, const Worker &worker) {
  Range range;
  range.begin = static_cast<uint32_t>(static_cast<uint64_t>(count) * worker.idx / worker.num);
  range.end = static_cast<uint32_t>(static_cast<uint64_t>(count) * (worker.idx + 1) / worker.num);
  return range;
}

AICORE inline uint32_t min_of(uint32_t a, uint32_t b) { return a < b ? a : b; }
AICORE inline uint32_t max_of(uint32_t a, uint32_t b) { return a > b ? a : b; }
AICORE inline uint32_t align_up(uint32_t value, uint32_t to) { return (value + to - 1) / to * to; }

// For a stage that runs alone: its inputs are there when it starts, and its end is the launch's end.
struct NoSync {
  // Returns when the expert's input is there.
  AICORE void wait_expert(uint32_t) const {}
  // This worker's share of the expert is done.
  AICORE void expert_done(uint32_t) const {}
  // Returns when all vector workers of the stage are here, and what they wrote is visible.
  AICORE void vector_barrier() const {
    pipe_barrier(PIPE_ALL);
    dsb(DSB_DDR);
    pto::SYNCALL<pto::SyncCoreType::AIVOnly>();
  }
};

// All vector cores of the launch, as workers.
AICORE inline Worker vector_worker() {
  Worker worker;
  worker.idx = static_cast<uint32_t>(get_block_idx() * get_subblockdim() + get_subblockid());
  worker.num = static_cast<uint32_t>(get_block_num() * get_subblockdim());
  return worker;
}

// All matrix cores of the launch, as workers.
AICORE inline Worker matrix_worker() {
  Worker worker;
  worker.idx = static_cast<uint32_t>(get_block_idx());
  worker.num = static_cast<uint32_t>(get_block_num());
  return worker;
}

// One row in UB. How much of it is used, and where it lies, the tiling decides.
template <typename T>
using Line = pto::Tile<pto::TileType::Vec, T, 1, kMaxLine, pto::BLayout::RowMajor, 1, pto::DYNAMIC>;

template <typename T>
AICORE inline Line<T> line_at(uint32_t address, uint32_t len) {
  Line<T> line(len);
  TASSIGN(line, address);
  return line;
}

// One row in global memory.
template <typename T>
using GmLine = pto::GlobalTensor<T, pto::Shape<1, 1, 1, 1, pto::DYNAMIC>, pto::Stride<1, 1, 1, 1, 1>>;

template <typename T>
AICORE inline GmLine<T> gm_line(__gm__ T *data, uint32_t len) {
  return GmLine<T>(data, pto::Shape<1, 1, 1, 1, pto::DYNAMIC>(len));
}

// Stores `len` values that the scalar unit wrote at `address` of UB; when it returns, they may be overwritten. `event` is
// free between S and MTE3, both ways.
template <typename T>
AICORE inline void store_scalars(uint32_t address, __gm__ T *target, uint32_t len, int event) {
  Line<T> line = line_at<T>(address, len);
  GmLine<T> to = gm_line(target, len);
  set_flag(PIPE_S, PIPE_MTE3, event);
  wait_flag(PIPE_S, PIPE_MTE3, event);
  TSTORE(to, line);
  set_flag(PIPE_MTE3, PIPE_S, event);
  wait_flag(PIPE_MTE3, PIPE_S, event);
}

// A launch's argument: sizes and offsets, then the views.
template <typename Tiling, typename Io>
struct StageArgs {
  Tiling tiling;
  Io io;
};

// The body of a stand-alone kernel on vector cores.
template <typename Stage, typename Tiling, typename Io>
AICORE inline void run_on_vector_cores(__gm__ uint8_t *raw) {
  const auto args = *reinterpret_cast<__gm__ StageArgs<Tiling, Io> *>(raw);
  if (ASCEND_IS_AIV) {
    Stage stage(args.tiling, args.io);
    stage(vector_worker());
  }
}

}  // namespace megamoe
