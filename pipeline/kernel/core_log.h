// What a core did in a launch, and when: a span for each piece of work, and the time it waited for each source rank.
//
//   asked ---- waits for other cores ---- begin ---- works, or waits for other ranks ---- end
#pragma once

#include "megamoe/stage.h"
#include "pipeline/fused_args.h"

namespace megamoe {

class CoreLog {
 public:
  // `core` counts matrix cores first.
  AICORE CoreLog(const LogIo &io, uint32_t core)
      : io_(io),
        head_(reinterpret_cast<__gm__ uint64_t *>(io.cores + static_cast<uint64_t>(core) * io.bytes_per_core)),
        peer_waits_(head_ + 1),
        spans_(reinterpret_cast<__gm__ Span *>(peer_waits_ + io.num_ranks)) {
    for (uint32_t rank = 0; rank < io_.num_ranks; ++rank) {
      peer_waits_[rank] = 0;
    }
  }

  // The core turns to a piece of work.
  AICORE void ask(StageKind stage, uint32_t expert) {
    span_.asked = get_sys_cnt();
    span_.peer_wait = 0;
    span_.barrier_wait = 0;
    span_.stage = static_cast<uint32_t>(stage);
    span_.expert = expert;
  }

  // Its input is there.
  AICORE void begin() { span_.begin = get_sys_cnt(); }

  // It is done.
  AICORE void end() {
    span_.end = get_sys_cnt();
    if (num_spans_ < io_.max_spans) {
      spans_[num_spans_] = span_;
    }
    num_spans_ += 1;
  }

  // The core waits for others within its work, until one of the two calls below.
  AICORE void before_wait() { wait_begin_ = get_sys_cnt(); }

  AICORE void after_peer(uint32_t rank) {
    const uint64_t waited = get_sys_cnt() - wait_begin_;
    peer_waits_[rank] += waited;
    span_.peer_wait += waited;
  }

  AICORE void after_barrier() { span_.barrier_wait += get_sys_cnt() - wait_begin_; }

  // What was logged is there for the host.
  AICORE void close() {
    *head_ = num_spans_;
    refresh(reinterpret_cast<__gm__ uint8_t *>(head_), io_.bytes_per_core);
    publish_writes();
  }

 private:
  const LogIo io_;
  __gm__ uint64_t *head_;
  __gm__ uint64_t *peer_waits_;
  __gm__ Span *spans_;
  Span span_ = {};
  uint64_t num_spans_ = 0;
  uint64_t wait_begin_ = 0;
};

}  // namespace megamoe
