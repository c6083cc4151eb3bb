// Signals in global memory, between cores and between ranks.
#pragma once

#include "pto/host/global.hpp"

namespace pto::comm {

enum class NotifyOp : uint8_t { AtomicAdd = 0, Set = 1 };
enum class WaitCmp : uint8_t { EQ = 0, NE = 1, GT = 2, GE = 3, LT = 4, LE = 5 };

using Signal = GlobalTensor<int32_t, Shape<1, 1, 1, 1, 1>, Stride<1, 1, 1, 1, 1>, Layout::ND>;

namespace host {

template <typename SignalData, typename Call>
PTO_INSTRUCTION void for_each(SignalData &signals, Call call) {
  static_assert(std::is_same_v<typename SignalData::RawDType, int32_t>, "signals are int32");
  int64_t index[5];
  for (index[0] = 0; index[0] < signals.GetShape(0); ++index[0]) {
    for (index[1] = 0; index[1] < signals.GetShape(1); ++index[1]) {
      for (index[2] = 0; index[2] < signals.GetShape(2); ++index[2]) {
        for (index[3] = 0; index[3] < signals.GetShape(3); ++index[3]) {
          for (index[4] = 0; index[4] < signals.GetShape(4); ++index[4]) {
            int64_t offset = 0;
            for (int dim = 0; dim < 5; ++dim) {
              offset += index[dim] * signals.GetStride(dim);
            }
            call(signals.data() + offset);
          }
        }
      }
    }
  }
}

}  // namespace host

// What the core wrote before is visible to who sees the value.
template <typename SignalData>
PTO_INSTRUCTION void TNOTIFY(SignalData &signals, int32_t value, NotifyOp op) {
  host::for_each(signals, [&](__gm__ int32_t *signal) {
    megamoe_dev_notify(signal, value, op == NotifyOp::AtomicAdd ? 1 : 0);
  });
}

// Returns when all signals have the value.
template <typename SignalData>
PTO_INSTRUCTION void TWAIT(SignalData &signals, int32_t value, WaitCmp compare) {
  host::for_each(signals, [&](__gm__ int32_t *signal) {
    megamoe_dev_wait(signal, value, static_cast<uint32_t>(compare));
  });
}

// Whether all signals have the value.
template <typename SignalData>
PTO_INSTRUCTION bool TTEST(SignalData &signals, int32_t value, WaitCmp compare) {
  bool all = true;
  host::for_each(signals, [&](__gm__ int32_t *signal) {
    all = megamoe_dev_test(signal, value, static_cast<uint32_t>(compare)) != 0 && all;
  });
  return all;
}

}  // namespace pto::comm
