// What all stages share on the device: workers, synchronisation policies, and lines of UB and GM.
//
// A stage is a class template over its synchronisation policy. Who calls it deals the work: it passes an expert and a
// worker, `idx` of `num`, and sees to it that the expert's input is there. What a stage itself has to wait for, other
// vector cores and other ranks, it says to the policy. So one body runs alone, fused and under test.
//
// A stage names the types of its arguments, `Tiling` and `Io`, and is constructed from them and a policy.
#pragma once

#include "megamoe/entry.h"

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

// What this core wrote before is visible to who sees a signal of it.
AICORE inline void publish_writes() {
  pipe_barrier(PIPE_ALL);
  dsb(DSB_DDR);
}

// For a stage that runs alone.
struct NoSync {
  // Returns when all vector workers of the stage are here, and what they wrote is visible.
  AICORE void vector_barrier() const {
    publish_writes();
    pto::SYNCALL<pto::SyncCoreType::AIVOnly>();
  }
  // Around every wait for another rank.
  AICORE void before_peer() const {}
  AICORE void after_peer(uint32_t) const {}
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

// Bytes of a line of the scalar unit's cache.
constexpr uint32_t kCacheLineBytes = 64;

// Writes back what the scalar unit wrote of `count` values, and forgets what its cache holds of them: before it reads
// what another core or pipe wrote in this launch, and after it wrote what others read.
template <typename T>
AICORE inline void refresh(__gm__ T *values, uint64_t count) {
  if (count == 0) {
    return;
  }
  auto *line = reinterpret_cast<__gm__ uint8_t *>(reinterpret_cast<uint64_t>(values) / kCacheLineBytes * kCacheLineBytes);
  for (auto *end = reinterpret_cast<__gm__ uint8_t *>(values + count); line < end; line += kCacheLineBytes) {
    dcci(line, cache_line_t::SINGLE_CACHE_LINE, dcci_dst_t::CACHELINE_OUT);
  }
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
template <typename Stage>
AICORE inline void run_on_vector_cores(__gm__ uint8_t *raw) {
  const auto args = *reinterpret_cast<__gm__ StageArgs<typename Stage::Tiling, typename Stage::Io> *>(raw);
  if (ASCEND_IS_AIV) {
    Stage stage(args.tiling, args.io);
    stage(vector_worker());
  }
}

}  // namespace megamoe
