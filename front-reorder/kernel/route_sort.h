// Numbers a rank's routes by expert, in a stable order. Three ways to share the work; all give the same numbers.
// AnyPath takes the one that the tiling names, so that one kernel serves launches of few and of many tokens.
//
//   FullLoad    every worker sorts all routes by itself: no exchange. For few routes.
//   OneCore     the first worker sorts, the others read its numbers after a barrier.
//   MultiCore   every worker counts its own tokens' routes; after a barrier each knows where its routes start.
//
// A sorter leaves each worker the rows of its own tokens' routes in global memory (row_of_route) and, if it is one that
// publishes, the counts of all experts in UB.
#pragma once

#include "front-reorder/tiling.h"
#include "megamoe/stage.h"

namespace megamoe {

// What the sorters share: lines of UB and passes over routes.
class RouteSort {
 public:
  AICORE RouteSort(const FrontTiling &tiling, const FrontReorderIo &io) : tiling_(tiling), io_(io) {}

  AICORE auto counts() const { return line_at<int32_t>(tiling_.counts, tiling_.num_experts).data(); }

 protected:
  static constexpr int kLoaded = 0, kSaved = 0;

  AICORE auto next() const { return line_at<int32_t>(tiling_.next, tiling_.num_experts).data(); }

  AICORE void clear_counts() const {
    auto *counts = this->counts();
    for (uint32_t expert = 0; expert < tiling_.num_experts; ++expert) {
      counts[expert] = 0;
    }
  }

  // Expert ids of routes begin .. begin + len, in UB.
  AICORE auto load_ids(uint32_t begin, uint32_t len) const {
    Line<int32_t> ids = line_at<int32_t>(tiling_.ids, len);
    GmLine<int32_t> from = gm_line(io_.topk_ids + begin, len);
    TLOAD(ids, from);
    set_flag(PIPE_MTE2, PIPE_S, kLoaded);
    wait_flag(PIPE_MTE2, PIPE_S, kLoaded);
    return ids.data();
  }

  // Adds routes begin .. end to the counts.
  AICORE void count(uint32_t begin, uint32_t end) const {
    auto *counts = this->counts();
    for (uint32_t piece = begin; piece < end; piece += tiling_.piece) {
      const uint32_t len = min_of(tiling_.piece, end - piece);
      const auto *ids = load_ids(piece, len);
      for (uint32_t i = 0; i < len; ++i) {
        if (ids[i] >= 0) {
          counts[ids[i]] += 1;
        }
      }
    }
  }

  // First row of each expert, from the counts.
  AICORE void start_rows() const {
    const auto *counts = this->counts();
    auto *next = this->next();
    int32_t row = 0;
    for (uint32_t expert = 0; expert < tiling_.num_experts; ++expert) {
      next[expert] = row;
      row += counts[expert];
    }
  }

  // Numbers routes begin .. end and saves the numbers of those in `kept`.
  AICORE void number(uint32_t begin, uint32_t end, const Range &kept) const {
    auto *next = this->next();
    for (uint32_t piece = begin; piece < end; piece += tiling_.piece) {
      const uint32_t len = min_of(tiling_.piece, end - piece);
      const auto *ids = load_ids(piece, len);
      auto *rows = line_at<int32_t>(tiling_.rows, len).data();
      for (uint32_t i = 0; i < len; ++i) {
        rows[i] = ids[i] >= 0 ? next[ids[i]]++ : -1;
      }
      save_kept(piece, len, kept);
    }
  }

  const FrontTiling &tiling_;
  const FrontReorderIo &io_;

 private:
  // The part of a numbered piece that lies in `kept`, moved to the start of the line first: lines start at multiples of
  // 32 bytes.
  AICORE void save_kept(uint32_t piece, uint32_t len, const Range &kept) const {
    const uint32_t begin = max_of(piece, kept.begin), end = min_of(piece + len, kept.end);
    if (begin >= end) {
      return;
    }
    auto *rows = line_at<int32_t>(tiling_.rows, len).data();
    for (uint32_t i = begin; i < end && begin > piece; ++i) {
      rows[i - begin] = rows[i - piece];
    }
    store_scalars(tiling_.rows, io_.row_of_route + begin, end - begin, kSaved);
  }
};

class FullLoad : public RouteSort {
 public:
  using RouteSort::RouteSort;

  template <typename Sync>
  AICORE void sort(const Worker &, const Range &own_routes, Sync &) const {
    clear_counts();
    count(0, tiling_.num_routes);
    start_rows();
    number(0, tiling_.num_routes, own_routes);
  }

  AICORE Worker publisher(const Worker &worker) const { return worker; }
};

class OneCore : public RouteSort {
 public:
  using RouteSort::RouteSort;

  template <typename Sync>
  AICORE void sort(const Worker &worker, const Range &, Sync &sync) const {
    if (worker.idx == 0) {
      const Range all = {0, tiling_.num_routes};
      clear_counts();
      count(0, tiling_.num_routes);
      start_rows();
      number(0, tiling_.num_routes, all);
    }
    sync.vector_barrier();
  }

  // Only the first worker has the counts.
  AICORE Worker publisher(const Worker &worker) const {
    Worker publisher;
    publisher.idx = worker.idx;
    publisher.num = 1;
    return publisher;
  }
};

class MultiCore : public RouteSort {
 public:
  using RouteSort::RouteSort;

  template <typename Sync>
  AICORE void sort(const Worker &worker, const Range &own_routes, Sync &sync) const {
    auto *all_counts = reinterpret_cast<__gm__ int32_t *>(io_.workspace);
    const uint64_t row = align_up(tiling_.num_experts, kRowUnit);
    clear_counts();
    count(own_routes.begin, own_routes.end);
    store_scalars(tiling_.counts, all_counts + worker.idx * row, tiling_.num_experts, kSaved);
    sync.vector_barrier();
    gather(worker, all_counts, row);
    number(own_routes.begin, own_routes.end, own_routes);
  }

  AICORE Worker publisher(const Worker &worker) const { return worker; }

 private:
  // Rows of counts start at multiples of 32 bytes.
  static constexpr uint32_t kRowUnit = 8;

  // Counts of all workers together, and this worker's first row of each expert.
  AICORE void gather(const Worker &worker, __gm__ int32_t *all_counts, uint64_t row) const {
    auto *counts = this->counts();
    auto *next = this->next();
    clear_counts();
    for (uint32_t expert = 0; expert < tiling_.num_experts; ++expert) {
      next[expert] = 0;
    }
    for (uint32_t other = 0; other < worker.num; ++other) {
      Line<int32_t> line = line_at<int32_t>(tiling_.publish, tiling_.num_experts);
      GmLine<int32_t> from = gm_line(all_counts + other * row, tiling_.num_experts);
      TLOAD(line, from);
      set_flag(PIPE_MTE2, PIPE_S, kLoaded);
      wait_flag(PIPE_MTE2, PIPE_S, kLoaded);
      const auto *theirs = line.data();
      for (uint32_t expert = 0; expert < tiling_.num_experts; ++expert) {
        counts[expert] += theirs[expert];
        next[expert] += other < worker.idx ? theirs[expert] : 0;
      }
    }
    int32_t first = 0;
    for (uint32_t expert = 0; expert < tiling_.num_experts; ++expert) {
      next[expert] += first;
      first += counts[expert];
    }
  }
};

class AnyPath : public RouteSort {
 public:
  using RouteSort::RouteSort;

  template <typename Sync>
  AICORE void sort(const Worker &worker, const Range &own_routes, Sync &sync) const {
    switch (path()) {
      case Path::FullLoad:
        return FullLoad(tiling_, io_).sort(worker, own_routes, sync);
      case Path::OneCore:
        return OneCore(tiling_, io_).sort(worker, own_routes, sync);
      case Path::MultiCore:
        return MultiCore(tiling_, io_).sort(worker, own_routes, sync);
    }
  }

  AICORE Worker publisher(const Worker &worker) const {
    return path() == Path::OneCore ? OneCore(tiling_, io_).publisher(worker) : worker;
  }

 private:
  AICORE Path path() const { return static_cast<Path>(tiling_.path); }
};

}  // namespace megamoe
