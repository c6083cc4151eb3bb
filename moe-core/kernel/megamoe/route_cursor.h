// Walks the rows of a local expert in their order, and says where each comes from.
#pragma once

#include "megamoe/stage.h"

namespace megamoe {

class RouteCursor {
 public:
  // At row `index` of the expert's rows; the expert has more rows than that.
  AICORE RouteCursor(const RouteMetadata &metadata, uint32_t experts_per_rank, uint32_t expert, uint32_t index)
      : metadata_(metadata), experts_per_rank_(experts_per_rank), expert_(expert), index_(static_cast<int32_t>(index)) {
    find_source();
  }

  // The rank that sent the row, and the row among its packed rows.
  AICORE uint32_t source() const { return source_; }
  AICORE uint32_t source_row() const {
    return static_cast<uint32_t>(metadata_.pre_sum[place()] + index_ - begin_);
  }

  // To the next row, which must exist.
  AICORE void next() {
    index_ += 1;
    find_source();
  }

 private:
  AICORE uint64_t place() const { return static_cast<uint64_t>(source_) * experts_per_rank_ + expert_; }

  AICORE void find_source() {
    while (metadata_.cumsum[place()] <= index_) {
      begin_ = metadata_.cumsum[place()];
      source_ += 1;
    }
  }

  const RouteMetadata &metadata_;
  uint32_t experts_per_rank_;
  uint32_t expert_;
  int32_t index_;
  int32_t begin_ = 0;
  uint32_t source_ = 0;
};

}  // namespace megamoe
