// The schedule of a launch, and the schedulers that tell a core its next piece of work.
//
// Experts are taken in waves. In step t a matrix core takes GMM1 of wave t, then GMM2 of wave t - 1; a vector core takes
// Dispatch of wave t, SwiGLU of wave t - 1, Combine of wave t - 2:
//
//   step      0           1           2           3
//   AIC       GMM1 0      GMM1 1      GMM1 2      GMM1 3
//                         GMM2 0      GMM2 1      GMM2 2
//   AIV       Dispatch 0  Dispatch 1  Dispatch 2  Dispatch 3
//                         SwiGLU 0    SwiGLU 1    SwiGLU 2
//                                     Combine 0   Combine 1
//
// No schedule of this kind can lock up: give the lanes of wave w the dates Dispatch 10w, GMM1 10w + 12, SwiGLU 10w + 13,
// GMM2 10w + 24, Combine 10w + 26. Every core takes its work by date, and all work waits for earlier dates only.
//
// A lane's work on an expert is shared by a group of cores, which may be all of them. With groups apart the lanes of
// different groups run side by side, however long the waves are.
#pragma once

#include "megamoe/stage.h"
#include "pipeline/fused_args.h"

namespace megamoe {

// A worker's share of an expert in a stage. A worker beyond the group is a helper, which may be asked to join.
struct Work {
  StageKind stage;
  uint32_t expert;
  Worker worker;
};

class Schedule {
 public:
  AICORE Schedule(const ScheduleTiling &tiling, const __gm__ int32_t *expert_offset)
      : tiling_(tiling), expert_offset_(expert_offset) {}

  AICORE const ScheduleTiling &tiling() const { return tiling_; }

  AICORE bool has_rows(uint32_t expert) const { return expert_offset_[expert + 1] > expert_offset_[expert]; }

  // The cores that share an expert in a stage.
  AICORE CoreGroup group(StageKind stage, uint32_t expert) const {
    switch (stage) {
      case StageKind::Dispatch:
        return tiling_.dispatch;
      case StageKind::Gmm1:
        return expert < tiling_.all_cores_experts ? CoreGroup{0, tiling_.num_aic} : tiling_.gmm1;
      case StageKind::Swiglu:
        return tiling_.swiglu;
      case StageKind::Gmm2:
        return tiling_.gmm2;
      case StageKind::Combine:
        return tiling_.combine;
      default:
        return CoreGroup{0, tiling_.num_aiv};
    }
  }

  AICORE uint32_t num_workers(StageKind stage, uint32_t expert) const { return group(stage, expert).num; }

  // A core's place in a group; from the group's size on it is not one of them.
  AICORE static Worker place(const CoreGroup &group, uint32_t core, uint32_t num_cores) {
    return Worker{(core + num_cores - group.first) % num_cores, group.num};
  }

  // Whether cores of GMM1 may join GMM2 of this expert.
  AICORE bool may_join(uint32_t expert) const { return expert >= tiling_.join_from; }

 private:
  const ScheduleTiling tiling_;
  const __gm__ int32_t *expert_offset_;
};

// Walks a core through its lanes.
template <uint32_t NumLanes>
class LaneWalk {
 public:
  AICORE LaneWalk(const Schedule &schedule, const StageKind (&lanes)[NumLanes], uint32_t core, uint32_t num_cores)
      : schedule_(schedule), core_(core), num_cores_(num_cores) {
    for (uint32_t lane = 0; lane < NumLanes; ++lane) {
      lanes_[lane] = lanes[lane];
    }
    const ScheduleTiling &tiling = schedule.tiling();
    num_waves_ = (tiling.experts_per_rank + tiling.experts_per_wave - 1) / tiling.experts_per_wave;
    enter_lane();
  }

  // The next piece of work, if there is one.
  AICORE bool next(Work &work) {
    while (step_ < num_waves_ + NumLanes - 1) {
      while (expert_ < end_) {
        work.stage = lanes_[lane_];
        work.expert = expert_++;
        work.worker = Schedule::place(schedule_.group(work.stage, work.expert), core_, num_cores_);
        // Rows or not, an expert is announced to its sources.
        const bool is_wanted = work.stage == StageKind::Combine || schedule_.has_rows(work.expert);
        if (is_wanted && work.worker.idx < work.worker.num) {
          return true;
        }
      }
      lane_ += 1;
      if (lane_ == NumLanes) {
        lane_ = 0;
        step_ += 1;
      }
      enter_lane();
    }
    return false;
  }

 private:
  AICORE void enter_lane() {
    const ScheduleTiling &tiling = schedule_.tiling();
    expert_ = end_ = 0;
    if (step_ >= lane_ && step_ - lane_ < num_waves_) {
      expert_ = (step_ - lane_) * tiling.experts_per_wave;
      end_ = min_of(expert_ + tiling.experts_per_wave, tiling.experts_per_rank);
    }
  }

  const Schedule &schedule_;
  StageKind lanes_[NumLanes];
  uint32_t core_, num_cores_, num_waves_;
  uint32_t step_ = 0, lane_ = 0, expert_ = 0, end_ = 0;
};

// Of a matrix core: GMM1, then GMM2; then, where its schedule says so, the experts of GMM2 that it may be asked to join.
class MatrixScheduler {
 public:
  AICORE MatrixScheduler(const Schedule &schedule, uint32_t core)
      : schedule_(schedule),
        lanes_(schedule, {StageKind::Gmm1, StageKind::Gmm2}, core, schedule.tiling().num_aic),
        place_(Schedule::place(schedule.tiling().gmm2, core, schedule.tiling().num_aic)),
        joins_(schedule.tiling().join_from) {}

  AICORE bool next(Work &work) {
    if (lanes_.next(work)) {
      return true;
    }
    while (place_.idx >= place_.num && joins_ < schedule_.tiling().experts_per_rank) {
      work = Work{StageKind::Gmm2, joins_++, place_};
      if (schedule_.has_rows(work.expert)) {
        return true;
      }
    }
    return false;
  }

 private:
  const Schedule &schedule_;
  LaneWalk<2> lanes_;
  Worker place_;
  uint32_t joins_;
};

// Of a vector core.
class VectorScheduler {
 public:
  AICORE VectorScheduler(const Schedule &schedule, uint32_t core)
      : lanes_(schedule, {StageKind::Dispatch, StageKind::Swiglu, StageKind::Combine}, core,
               schedule.tiling().num_aiv) {}

  AICORE bool next(Work &work) { return lanes_.next(work); }

 private:
  LaneWalk<3> lanes_;
};

}  // namespace megamoe
