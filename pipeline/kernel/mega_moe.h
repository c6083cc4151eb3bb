// MegaMoE: the whole layer in one launch, on all matrix and vector cores.
//
//                 all AIV               AIV          AIC        AIV         AIC        AIV           all AIV
//   x --> FrontReorder ==> peers ==> Dispatch e --> GMM1 e --> SwiGLU e --> GMM2 e --> Combine e ==> peers ==> Unpermute
//              |                        ^  |          ^ |         ^ |         ^ |         ^ |                    ^
//              | front                  |  |          | |         | |         | |         | | all shares done    |
//              +------------------------+  +--arrive--+ +-arrive--+ +-arrive--+ +-arrive--+ +--> returned[e] ----+
//
// Cores meet at hand-overs of single experts (handover.h), never at a barrier between stages: while matrix cores multiply
// one expert, vector cores pull, activate and return others. The schedule (schedule.h) says which core takes what, in
// which order; this file knows how a piece of work is waited for and handed on; the stages know nothing of either.
#pragma once

#include "core_log.h"
#include "handover.h"
#include "schedule.h"
#include "standard_stages.h"

namespace megamoe {

// What stages say of waits for others goes to the core's log.
struct FusedSync : NoSync {
  CoreLog *log;
  AICORE void vector_barrier() const {
    log->before_wait();
    NoSync::vector_barrier();
    log->after_barrier();
  }
  AICORE void before_peer() const { log->before_wait(); }
  AICORE void after_peer(uint32_t rank) const { log->after_peer(rank); }
};

// A launch's argument, in the order in which the host writes it.
template <typename Stages>
struct FusedArgs {
  template <typename Stage>
  using Of = StageArgs<typename Stage::Tiling, typename Stage::Io>;

  FusedTiling fused;
  Of<typename Stages::template FrontReorder<half, NoSync>> front;
  Of<typename Stages::template Dispatch<NoSync>> dispatch;
  Of<typename Stages::template Gmm1<NoSync>> gmm1;
  Of<typename Stages::template Swiglu<NoSync>> swiglu;
  Of<typename Stages::template Gmm2<NoSync>> gmm2;
  Of<typename Stages::template Combine<half, NoSync>> combine;
  Of<typename Stages::template Unpermute<half, NoSync>> unpermute;
};

template <typename Stages, typename In, typename Out>
class MegaMoe {
 public:
  // `core` counts matrix cores first.
  AICORE MegaMoe(const FusedArgs<Stages> &args, uint32_t core)
      : args_(args),
        schedule_(args.fused.schedule, args.dispatch.io.metadata.expert_offset),
        handover_(args.fused.handover, args.fused.schedule.experts_per_rank),
        log_(args.fused.log, core) {
    sync_.log = &log_;
  }

  AICORE void run_matrix_core(uint32_t core) {
    wait_front();
    typename Stages::template Gmm1<FusedSync> gmm1(args_.gmm1.tiling, args_.gmm1.io, sync_);
    typename Stages::template Gmm2<FusedSync> gmm2(args_.gmm2.tiling, args_.gmm2.io, sync_);
    MatrixScheduler scheduler(schedule_, core);
    Work work;
    while (scheduler.next(work)) {
      if (work.stage == StageKind::Gmm1) {
        run(gmm1, work, StageKind::Dispatch);
      } else {
        run_gmm2(gmm2, work, core);
      }
    }
    log_.close();
  }

  AICORE void run_vector_core(const Worker &core) {
    handover_.clear_next(core);
    run_front(core);
    wait_front();
    run_experts(core);
    run_unpermute(core);
    log_.close();
  }

 private:
  // Spans of stages that do not go by experts.
  static constexpr uint32_t kNoExpert = ~0u;

  AICORE void run_front(const Worker &core) {
    typename Stages::template FrontReorder<In, FusedSync> front(args_.front.tiling, args_.front.io, sync_);
    log_.ask(StageKind::FrontReorder, kNoExpert);
    log_.begin();
    front(core);
    handover_.arrive(StageKind::FrontReorder, 0);
    log_.end();
  }

  // Returns when the metadata are there.
  AICORE void wait_front() {
    handover_.wait(StageKind::FrontReorder, 0, schedule_.tiling().num_aiv);
  }

  AICORE void run_experts(const Worker &core) {
    typename Stages::template Dispatch<FusedSync> dispatch(args_.dispatch.tiling, args_.dispatch.io, sync_);
    typename Stages::template Swiglu<FusedSync> swiglu(args_.swiglu.tiling, args_.swiglu.io, sync_);
    typename Stages::template Combine<Out, FusedSync> combine(args_.combine.tiling, args_.combine.io, sync_);
    if (core.idx == schedule_.tiling().dispatch.first) {
      dispatch.count_dropped();
    }
    VectorScheduler scheduler(schedule_, core.idx);
    Work work;
    while (scheduler.next(work)) {
      if (work.stage == StageKind::Dispatch) {
        run(dispatch, work, StageKind::FrontReorder);
      } else if (work.stage == StageKind::Swiglu) {
        run(swiglu, work, StageKind::Gmm1);
      } else {
        run_combine(combine, work);
      }
    }
  }

  template <typename Stage>
  AICORE void run(Stage &stage, const Work &work, StageKind input) {
    log_.ask(work.stage, work.expert);
    if (input != StageKind::FrontReorder) {
      handover_.wait(input, work.expert, schedule_.num_workers(input, work.expert));
    }
    log_.begin();
    stage.run(work.expert, work.worker);
    handover_.arrive(work.stage, work.expert);
    log_.end();
  }

  // GMM2, which cores of GMM1 may join.
  template <typename Stage>
  AICORE void run_gmm2(Stage &stage, const Work &work, uint32_t core) {
    log_.ask(work.stage, work.expert);
    Work share = work;
    if (schedule_.may_join(work.expert)) {
      if (work.worker.idx == 0) {
        decide_join(work.expert);
      }
      if (handover_.wait_decision(work.expert) == Join::AllCores) {
        share.worker = Worker{core, schedule_.tiling().num_aic};
      }
    }
    if (share.worker.idx < share.worker.num) {
      handover_.wait(StageKind::Swiglu, work.expert, schedule_.num_workers(StageKind::Swiglu, work.expert));
      log_.begin();
      stage.run(work.expert, share.worker);
      handover_.arrive(work.stage, work.expert);
      log_.end();
    }
  }

  // As late as possible: once the expert's rows are there.
  AICORE void decide_join(uint32_t expert) {
    // not for order: a later decision is a better one
    handover_.wait(StageKind::Swiglu, expert, schedule_.num_workers(StageKind::Swiglu, expert));
    // Cores take experts in order, so the last one with rows stands for all; this expert has rows.
    uint32_t last = schedule_.tiling().experts_per_rank - 1;
    while (!schedule_.has_rows(last)) {
      last -= 1;
    }
    const bool is_over = handover_.is_done(StageKind::Gmm1, last, schedule_.num_workers(StageKind::Gmm1, last));
    handover_.decide(expert, is_over ? Join::AllCores : Join::Group);
  }

  AICORE void wait_gmm2(uint32_t expert) {
    if (!schedule_.has_rows(expert)) {
      return;
    }
    uint32_t num_workers = schedule_.num_workers(StageKind::Gmm2, expert);
    if (schedule_.may_join(expert) && handover_.wait_decision(expert) == Join::AllCores) {
      num_workers = schedule_.tiling().num_aic;
    }
    handover_.wait(StageKind::Gmm2, expert, num_workers);
  }

  // Combine, and the signals to the expert's sources once all shares are done.
  template <typename Stage>
  AICORE void run_combine(Stage &stage, const Work &work) {
    const bool has_rows = schedule_.has_rows(work.expert);
    if (has_rows) {
      log_.ask(work.stage, work.expert);
      for (uint32_t expert = 0; expert <= schedule_.tiling().combine_start_after; ++expert) {
        // not for order: Combine leaves the memory to the matrix cores until then
        wait_gmm2(expert);
      }
      wait_gmm2(work.expert);
      log_.begin();
      stage.run(work.expert, work.worker);
      handover_.arrive(work.stage, work.expert);
      log_.end();
    }
    if (work.expert % work.worker.num == work.worker.idx) {
      log_.ask(work.stage, work.expert);
      if (has_rows) {
        handover_.wait(work.stage, work.expert, work.worker.num);
      }
      log_.begin();
      for (uint32_t source = 0; source < args_.fused.log.num_ranks; ++source) {
        stage.announce(work.expert, source);
      }
      log_.end();
    }
  }

  // First some tokens on the cores that are not busy with Combine, then the rest on all.
  AICORE void run_unpermute(const Worker &core) {
    const ScheduleTiling &tiling = schedule_.tiling();
    typename Stages::template Unpermute<Out, FusedSync> unpermute(args_.unpermute.tiling, args_.unpermute.io, sync_);
    const uint32_t num_tokens = args_.fused.num_tokens;
    const uint32_t num_early = static_cast<uint32_t>(static_cast<uint64_t>(num_tokens) * tiling.early_percent / 100);
    const CoreGroup idle = {(tiling.combine.first + tiling.combine.num) % core.num, core.num - tiling.combine.num};
    const Worker early = Schedule::place(idle, core.idx, core.num);
    if (num_early > 0 && early.idx < early.num) {
      run_tokens(unpermute, share(num_early, early), tiling.early_start_after);
    }
    const Range rest = share(num_tokens - num_early, core);
    run_tokens(unpermute, Range{num_early + rest.begin, num_early + rest.end}, kNoExpert);
  }

  // `after` is an expert whose rows have left, for it not to be too early.
  template <typename Stage>
  AICORE void run_tokens(Stage &stage, const Range &tokens, uint32_t after) {
    if (tokens.begin == tokens.end) {
      return;
    }
    log_.ask(StageKind::Unpermute, kNoExpert);
    if (after != kNoExpert && schedule_.has_rows(after)) {
      // not for order: a token waits for its own rows itself
      handover_.wait(StageKind::Combine, after, schedule_.num_workers(StageKind::Combine, after));
    }
    log_.begin();
    stage.run(tokens);
    // not for order: the span ends when the work has
    pipe_barrier(PIPE_ALL);
    log_.end();
  }

  const FusedArgs<Stages> &args_;
  Schedule schedule_;
  Handover handover_;
  CoreLog log_;
  FusedSync sync_;
};

template <typename Stages, typename In, typename Out>
AICORE inline void run_fused(const FusedArgs<Stages> &args) {
  if (ASCEND_IS_AIC) {
    const uint32_t core = matrix_worker().idx;
    MegaMoe<Stages, In, Out>(args, core).run_matrix_core(core);
  }
  if (ASCEND_IS_AIV) {
    const Worker core = vector_worker();
    MegaMoe<Stages, In, Out>(args, args.fused.schedule.num_aic + core.idx).run_vector_core(core);
  }
}

// The fused kernel of these stages, for the types of tokens and results that the argument names.
template <typename Stages>
AICORE inline void run_fused(__gm__ uint8_t *raw) {
  const auto args = *reinterpret_cast<__gm__ FusedArgs<Stages> *>(raw);
  const bool from_bf16 = args.fused.input_is_bf16 != 0, to_bf16 = args.fused.output_is_bf16 != 0;
  if (from_bf16) {
    to_bf16 ? run_fused<Stages, bfloat16_t, bfloat16_t>(args) : run_fused<Stages, bfloat16_t, half>(args);
  } else {
    to_bf16 ? run_fused<Stages, half, bfloat16_t>(args) : run_fused<Stages, half, half>(args);
  }
}

}  // namespace megamoe
