// How cores of a launch hand experts to each other: a counter of arrivals for each stage and expert.
//
//   producers                               consumers
//   ---------                               ---------
//   work on expert e
//   writes drained, counter[stage][e] += 1 --> wait until counter[stage][e] reaches the number of producers
//
// Every core that shares an expert arrives once, also with an empty share. An expert without rows is handed on by nobody:
// all cores know from the counts that it has none. There are two tables of counters, used in turn: a launch counts in one
// and clears the other, so that no launch waits for a table to be cleared.
#pragma once

#include "megamoe/stage.h"
#include "pipeline/fused_args.h"

namespace megamoe {

// Who shares GMM2 of an expert: one decision, made by the group's first core, that all producers and consumers obey.
enum class Join : int32_t { Undecided = 0, Group = 1, AllCores = 2 };

class Handover {
 public:
  AICORE Handover(const HandoverIo &io, uint32_t experts_per_rank) : io_(io), experts_(experts_per_rank) {}

  // Zeros the table of the next launch: this worker's share. Nothing else uses UB yet.
  AICORE void clear_next(const Worker &worker) const {
    const Range words = share(kHandoverCounters * experts_ * kLineWords, worker);
    const uint32_t line_len = min_of(kMaxLine, words.end - words.begin);
    if (line_len == 0) {
      return;
    }
    Line<int32_t> zeros = line_at<int32_t>(0, line_len);
    TEXPANDS(zeros, 0);
    set_flag(PIPE_V, PIPE_MTE3, kZeros);
    wait_flag(PIPE_V, PIPE_MTE3, kZeros);
    for (uint32_t begin = words.begin; begin < words.end; begin += kMaxLine) {
      const uint32_t len = min_of(kMaxLine, words.end - begin);
      Line<int32_t> source = line_at<int32_t>(0, len);
      GmLine<int32_t> to = gm_line(io_.next_counters + begin, len);
      TSTORE(to, source);
    }
    pipe_barrier(PIPE_ALL);
  }

  // This core's share of an expert in a stage is done.
  AICORE void arrive(StageKind stage, uint32_t expert) const {
    publish_writes();
    pto::comm::Signal counter(this->counter(stage, expert));
    pto::comm::TNOTIFY(counter, 1, pto::comm::NotifyOp::AtomicAdd);
  }

  // Returns when all `num_workers` have arrived.
  AICORE void wait(StageKind stage, uint32_t expert, uint32_t num_workers) const {
    pto::comm::Signal counter(this->counter(stage, expert));
    pto::comm::TWAIT(counter, static_cast<int32_t>(num_workers), pto::comm::WaitCmp::GE);
  }

  // Whether all have arrived.
  AICORE bool is_done(StageKind stage, uint32_t expert, uint32_t num_workers) const {
    pto::comm::Signal counter(this->counter(stage, expert));
    return pto::comm::TTEST(counter, static_cast<int32_t>(num_workers), pto::comm::WaitCmp::GE);
  }

  AICORE void decide(uint32_t expert, Join join) const {
    pto::comm::Signal word(decision(expert));
    pto::comm::TNOTIFY(word, static_cast<int32_t>(join), pto::comm::NotifyOp::Set);
  }

  AICORE Join wait_decision(uint32_t expert) const {
    pto::comm::Signal word(decision(expert));
    pto::comm::TWAIT(word, static_cast<int32_t>(Join::Undecided), pto::comm::WaitCmp::NE);
    const bool is_group = pto::comm::TTEST(word, static_cast<int32_t>(Join::Group), pto::comm::WaitCmp::EQ);
    return is_group ? Join::Group : Join::AllCores;
  }

 private:
  static constexpr int kZeros = 0;
  static constexpr uint32_t kLineWords = kCacheLineBytes / sizeof(int32_t);

  // Counters lie in lines of their own: cores of different experts do not meet in one.
  AICORE __gm__ int32_t *line(uint32_t kind, uint32_t expert) const {
    return io_.counters + (static_cast<uint64_t>(kind) * experts_ + expert) * kLineWords;
  }
  AICORE __gm__ int32_t *counter(StageKind stage, uint32_t expert) const {
    return line(static_cast<uint32_t>(stage), expert);
  }
  // In the place of the last stage's counters, which nobody waits for.
  AICORE __gm__ int32_t *decision(uint32_t expert) const {
    return line(static_cast<uint32_t>(StageKind::Unpermute), expert);
  }

  const HandoverIo io_;
  uint32_t experts_;
};

}  // namespace megamoe
