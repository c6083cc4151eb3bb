// The windows of all ranks, for device code. Rules are those of docs/window-protocol.md.
#pragma once

#include "megamoe/stage.h"
#include "megamoe/window_map.h"

namespace megamoe {

class WindowView {
 public:
  AICORE explicit WindowView(__gm__ uint8_t *map) : map_(*reinterpret_cast<__gm__ WindowMap *>(map)) {}

  AICORE uint32_t rank() const { return map_.rank; }
  AICORE uint32_t num_ranks() const { return map_.num_ranks; }
  AICORE int32_t epoch() const { return map_.epoch; }

  AICORE __gm__ int8_t *packed_row(uint32_t rank, uint32_t row) const {
    return reinterpret_cast<__gm__ int8_t *>(map_.bases[rank] + map_.packed_rows + row * map_.packed_row_bytes);
  }

  template <typename T>
  AICORE __gm__ T *returned_row(uint32_t rank, uint32_t row) const {
    return reinterpret_cast<__gm__ T *>(map_.bases[rank] + map_.returned_rows + row * map_.returned_row_bytes);
  }

  // The counts that `source` publishes at `rank`: lines of counts, the last word of each is its flag.
  AICORE __gm__ int32_t *counts(uint32_t rank, uint32_t source) const {
    return reinterpret_cast<__gm__ int32_t *>(map_.bases[rank] + map_.counts + source * map_.count_row_bytes);
  }

  AICORE uint32_t count_row_words() const { return static_cast<uint32_t>(map_.count_row_bytes / sizeof(int32_t)); }
  AICORE uint32_t count_lines() const { return count_row_words() / map_.line_words; }
  AICORE uint32_t line_words() const { return map_.line_words; }

  // Place of an expert's count in a row of counts.
  AICORE uint32_t count_index(uint32_t expert) const {
    return expert / map_.counts_per_line * map_.line_words + expert % map_.counts_per_line;
  }

  AICORE __gm__ int32_t *rows_ready(uint32_t rank, uint32_t producer) const {
    return signal(rank, map_.rows_ready, producer);
  }

  AICORE __gm__ int32_t *returned(uint32_t rank, uint32_t expert) const {
    return signal(rank, map_.returned, expert);
  }

  // Rule 1: what this core wrote is visible before the signal is.
  AICORE void notify(__gm__ int32_t *word) const {
    pto::comm::Signal signal(word);
    pto::comm::TNOTIFY(signal, map_.epoch, pto::comm::NotifyOp::Set);
  }

  // Rule 4: a rank may be one launch ahead.
  AICORE void wait(__gm__ int32_t *word) const {
    pto::comm::Signal signal(word);
    pto::comm::TWAIT(signal, map_.epoch, pto::comm::WaitCmp::GE);
  }

 private:
  AICORE __gm__ int32_t *signal(uint32_t rank, uint64_t region, uint32_t index) const {
    return reinterpret_cast<__gm__ int32_t *>(map_.bases[rank] + region +
                                              static_cast<uint64_t>(index) * map_.signal_stride_bytes);
  }

  WindowMap map_;
};

}  // namespace megamoe
