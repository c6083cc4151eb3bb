// Stand-alone entry points of the activation, one for each function.
#include "swiglu.h"

using namespace megamoe;

extern "C" __global__ AICORE void megamoe_swiglu_silu(__gm__ uint8_t *raw) {
  run_on_vector_cores<Swiglu<Silu>>(raw);
}

extern "C" __global__ AICORE void megamoe_swiglu_gelu(__gm__ uint8_t *raw) {
  run_on_vector_cores<Swiglu<Gelu>>(raw);
}
