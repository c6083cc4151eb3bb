// Stand-alone entry point of Dispatch.
#include "dispatch.h"

using namespace megamoe;

extern "C" __global__ AICORE void megamoe_dispatch(__gm__ uint8_t *raw) {
  run_on_vector_cores<Dispatch<>>(raw);
}
