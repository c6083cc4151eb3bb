// The exchange of counts: publishes this rank's, takes those of all ranks, and works out who gets which rows.
#pragma once

#include "front-reorder/tiling.h"
#include "megamoe/window.h"

namespace megamoe {

class CountExchange {
 public:
  AICORE CountExchange(const FrontTiling &tiling, const FrontReorderIo &io, const WindowView &window)
      : tiling_(tiling), io_(io), window_(window) {}

  // This rank's counts to the peers of this worker. Every line ends in its flag and is written whole (rule 3). They may
  // still be on their way when it returns: a barrier comes before their place in UB is used again.
  template <typename Counts>
  AICORE void publish(const Counts *counts, const Worker &publisher) const {
    if (publisher.idx >= publisher.num) {
      return;
    }
    const uint32_t words = window_.count_row_words(), line = window_.line_words();
    auto *row = line_at<int32_t>(tiling_.publish, words).data();
    for (uint32_t word = 0; word < words; ++word) {
      row[word] = word % line == line - 1 ? window_.epoch() : tiling_.count_marker;
    }
    for (uint32_t expert = 0; expert < tiling_.num_experts; ++expert) {
      row[window_.count_index(expert)] += counts[expert];
    }
    set_flag(PIPE_S, PIPE_MTE3, kInts);
    wait_flag(PIPE_S, PIPE_MTE3, kInts);
    Line<int32_t> source = line_at<int32_t>(tiling_.publish, words);
    for (uint32_t peer = publisher.idx; peer < window_.num_ranks(); peer += publisher.num) {
      GmLine<int32_t> to = gm_line(window_.counts(peer, window_.rank()), words);
      TSTORE(to, source);
    }
  }

  // Returns when the counts of all ranks are here.
  template <typename Sync>
  AICORE void wait_counts(Sync &sync) const {
    for (uint32_t source = 0; source < window_.num_ranks(); ++source) {
      auto *row = window_.counts(window_.rank(), source);
      sync.before_peer();
      for (uint32_t line = 1; line <= window_.count_lines(); ++line) {
        pto::comm::Signal flag(row + line * window_.line_words() - 1);
        pto::comm::TWAIT(flag, window_.epoch(), pto::comm::WaitCmp::EQ);
      }
      sync.after_peer(source);
    }
  }

  // What this rank receives: one worker's work.
  AICORE void write_received() const {
    const uint32_t experts = tiling_.experts_per_rank, first = window_.rank() * experts;
    auto *sums = line_at<int32_t>(tiling_.counts, experts).data();
    for (uint32_t expert = 0; expert < experts; ++expert) {
      sums[expert] = 0;
    }
    for (uint32_t source = 0; source < window_.num_ranks(); ++source) {
      auto *starts = line_at<int32_t>(tiling_.next, experts).data();
      int32_t row = 0;
      for (uint32_t expert = 0; expert < first; ++expert) {
        row += count(source, expert);
      }
      for (uint32_t expert = 0; expert < experts; ++expert) {
        const int32_t rows = count(source, first + expert);
        starts[expert] = row;
        sums[expert] += rows;
        row += rows;
      }
      const uint64_t place = static_cast<uint64_t>(source) * experts;
      store_scalars(tiling_.next, io_.metadata.pre_sum + place, experts, kInts);
      store_scalars(tiling_.counts, io_.metadata.cumsum + place, experts, kInts);
    }
    store_scalars(tiling_.counts, io_.metadata.expert_token_nums, experts, kInts);
    // One entry more than experts: the line for publishing has room.
    auto *offsets = line_at<int32_t>(tiling_.publish, experts + 1).data();
    offsets[0] = 0;
    for (uint32_t expert = 0; expert < experts; ++expert) {
      offsets[expert + 1] = limit(offsets[expert] + sums[expert]);
    }
    store_scalars(tiling_.publish, io_.metadata.expert_offset, experts + 1, kInts);
  }

  // Which of this rank's rows the ranks of this worker keep: the one clip rule, as they apply it themselves.
  AICORE void write_kept(const Worker &worker) const {
    const uint32_t experts = tiling_.experts_per_rank;
    auto *kept_end = line_at<int32_t>(tiling_.next, experts).data();
    for (uint32_t rank = worker.idx; rank < window_.num_ranks(); rank += worker.num) {
      int32_t own_row = 0, row = 0;
      for (uint32_t expert = 0; expert < rank * experts; ++expert) {
        own_row += count(window_.rank(), expert);
      }
      for (uint32_t expert = 0; expert < experts; ++expert) {
        for (uint32_t source = 0; source < window_.num_ranks(); ++source) {
          const int32_t rows = count(source, rank * experts + expert);
          const int32_t end = limit(row + rows);
          if (source == window_.rank()) {
            kept_end[expert] = own_row + end - row;
            own_row += rows;
          }
          row = end;
        }
      }
      store_scalars(tiling_.next, io_.metadata.kept_end + static_cast<uint64_t>(rank) * experts, experts, kInts);
    }
  }

 private:
  static constexpr int kInts = 3;

  AICORE int32_t count(uint32_t source, uint32_t expert) const {
    return window_.counts(window_.rank(), source)[window_.count_index(expert)] - tiling_.count_marker;
  }

  AICORE int32_t limit(int32_t rows) const {
    const int32_t max = static_cast<int32_t>(tiling_.max_output_size);
    return rows < max ? rows : max;
  }

  const FrontTiling &tiling_;
  const FrontReorderIo &io_;
  const WindowView &window_;
};

}  // namespace megamoe
