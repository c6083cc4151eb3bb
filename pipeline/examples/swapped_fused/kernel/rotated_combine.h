// Combine with its blocks dealt from another core for every expert. An expert with fewer blocks than cores gives them to
// the first cores; with experts that small the others would never work.
//
//   data flow and flags: combine.h
#pragma once

#include "combine.h"

template <typename Out, typename Sync = megamoe::NoSync>
class RotatedCombine : public megamoe::Combine<Out, Sync> {
 public:
  using Base = megamoe::Combine<Out, Sync>;
  using Base::Base;

  AICORE void run(uint32_t expert, const megamoe::Worker &worker) {
    Base::run(expert, megamoe::Worker{(worker.idx + expert) % worker.num, worker.num});
  }
};
