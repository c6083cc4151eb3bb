// Stand-alone entry points of Combine, one for each output type.
#include "combine.h"

using namespace megamoe;

MEGAMOE_KERNEL(megamoe_combine) {
  const auto *tiling = reinterpret_cast<__gm__ CombineTiling *>(raw);
  if (tiling->output_is_bf16 != 0) {
    run_on_vector_cores<Combine<bfloat16_t>>(raw);
  } else {
    run_on_vector_cores<Combine<half>>(raw);
  }
}
