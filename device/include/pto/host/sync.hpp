// Pipes, flags, barriers, and what a core knows of itself.
#pragma once

#include "pto/host/device.hpp"

enum pipe_t {
  PIPE_S = 0,
  PIPE_V = 1,
  PIPE_M = 2,
  PIPE_MTE1 = 3,
  PIPE_MTE2 = 4,
  PIPE_MTE3 = 5,
  PIPE_FIX = 6,
  PIPE_ALL = 7,
};

enum event_t {
  EVENT_ID0 = 0,
  EVENT_ID1 = 1,
  EVENT_ID2 = 2,
  EVENT_ID3 = 3,
  EVENT_ID4 = 4,
  EVENT_ID5 = 5,
  EVENT_ID6 = 6,
  EVENT_ID7 = 7,
};

enum cache_line_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE = 1 };
enum dcci_dst_t { CACHELINE_ALL = 0, CACHELINE_UB = 1, CACHELINE_OUT = 2, CACHELINE_ATOMIC = 3 };
enum mem_dsb_t { DSB_ALL = 0, DSB_DDR = 1, DSB_UB = 2, DSB_SEQ = 3 };

inline int64_t get_block_idx() { return megamoe::device::core().block_idx; }
inline int64_t get_block_num() { return megamoe::device::core().num_blocks; }
inline int64_t get_subblockid() { return megamoe::device::core().subblock_idx; }
inline int64_t get_subblockdim() { return megamoe::device::core().num_subblocks; }

// Ticks of the system counter, the same for all cores and ranks of a machine.
inline uint64_t get_sys_cnt() { return megamoe_dev_sys_cnt(); }

// Instructions run in order here: a flag orders nothing, but one that is never set is an error.
PTO_INSTRUCTION void set_flag(pipe_t source, pipe_t target, int event) {
  megamoe_dev_set_flag(source, target, static_cast<uint32_t>(event));
}
PTO_INSTRUCTION void wait_flag(pipe_t source, pipe_t target, int event) {
  megamoe_dev_wait_flag(source, target, static_cast<uint32_t>(event));
}

PTO_INSTRUCTION void pipe_barrier(pipe_t pipe) {
#ifdef MEGAMOE_CHECKED
  megamoe_dev_pipe_barrier(pipe);
#else
  // Pipes run in order here.
  if (pipe == PIPE_ALL) {
    megamoe_dev_pipe_barrier(pipe);
  }
#endif
}

template <typename T>
PTO_INSTRUCTION void dcci(__gm__ T *line, uint64_t what, uint64_t = 0) {
  megamoe_dev_dcci(reinterpret_cast<uint64_t>(line), what == ENTIRE_DATA_CACHE ? 1 : 0);
}
PTO_INSTRUCTION void dsb(mem_dsb_t) { megamoe_dev_dsb(); }

// Flags between the matrix core and the vector cores of a physical core (mode 2).
inline uint64_t getFFTSMsg(uint64_t mode, uint64_t flag) { return (mode & 3) << 4 | (flag & 15) << 8 | 1; }
PTO_INSTRUCTION void ffts_cross_core_sync(pipe_t pipe, uint64_t message) {
  if ((message >> 4 & 3) != 2) {
    megamoe_dev_fail("ffts_cross_core_sync: mode 2 is supported, use SYNCALL for the others");
  }
  megamoe_dev_cross_set(pipe, static_cast<uint32_t>(message >> 8 & 15));
}
PTO_INSTRUCTION void wait_flag_dev(int64_t flag) { megamoe_dev_cross_wait(static_cast<uint32_t>(flag)); }

namespace pto {

template <SyncCoreType CoreType = SyncCoreType::AIVOnly>
PTO_INSTRUCTION void SYNCALL() {
  megamoe_dev_sync_all(static_cast<uint32_t>(CoreType));
}

}  // namespace pto
