// Stand-alone entry points of FrontReorder, one for each way to sort.
#include "front_reorder.h"

using namespace megamoe;

namespace {

template <typename Sort>
AICORE void run(__gm__ uint8_t *raw) {
  if (reinterpret_cast<__gm__ FrontTiling *>(raw)->input_is_bf16 != 0) {
    run_on_vector_cores<FrontReorder<Sort, bfloat16_t>>(raw);
  } else {
    run_on_vector_cores<FrontReorder<Sort, half>>(raw);
  }
}

}  // namespace

MEGAMOE_KERNEL(megamoe_front_full_load) { run<FullLoad>(raw); }

MEGAMOE_KERNEL(megamoe_front_one_core) { run<OneCore>(raw); }

MEGAMOE_KERNEL(megamoe_front_multi_core) { run<MultiCore>(raw); }
