// Stand-alone entry point of Unpermute, for both output types.
#include "unpermute.h"

using namespace megamoe;

MEGAMOE_KERNEL(megamoe_unpermute) {
  const auto *tiling = reinterpret_cast<__gm__ UnpermuteTiling *>(raw);
  if (tiling->output_is_bf16 != 0) {
    run_on_vector_cores<Unpermute<bfloat16_t>>(raw);
  } else {
    run_on_vector_cores<Unpermute<half>>(raw);
  }
}
