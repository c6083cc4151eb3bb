// Entry points of kernels: `MEGAMOE_KERNEL(name) { .. }` is the kernel `name` of one argument, `raw`.
//
// For the NPU (the build defines MEGAMOE_NPU) the kernel takes one more, the address of the flags between cores, and has
// a function beside it by which the host launches it.
#pragma once

#if defined(MEGAMOE_NPU)

// The compiler's headers name this pipe for matrix cores only; code for both kinds of core is compiled for each.
#ifndef PIPE_FIX
#define PIPE_FIX static_cast<pipe_t>(10)
#endif

#define MEGAMOE_KERNEL(name)                                                                            \
  AICORE inline void name##_body(__gm__ uint8_t *raw);                                                  \
  extern "C" __global__ AICORE void name(__gm__ uint8_t *sync, __gm__ uint8_t *raw) {                   \
    set_ffts_base_addr(reinterpret_cast<uint64_t>(sync));                                               \
    name##_body(raw);                                                                                   \
    pipe_barrier(PIPE_ALL);                                                                             \
  }                                                                                                     \
  extern "C" void launch_##name(uint32_t num_blocks, void *stream, void *sync, void *raw) {             \
    name<<<num_blocks, nullptr, stream>>>((__gm__ uint8_t *)sync, (__gm__ uint8_t *)raw);               \
  }                                                                                                     \
  AICORE inline void name##_body(__gm__ uint8_t *raw)

#elif defined(MEGAMOE_CHECKED)

// For checked mode, which has a kernel twice.
#define MEGAMOE_KERNEL(name) extern "C" __global__ AICORE void checked_##name([[maybe_unused]] __gm__ uint8_t *raw)

#else

#define MEGAMOE_KERNEL(name) extern "C" __global__ AICORE void name([[maybe_unused]] __gm__ uint8_t *raw)

#endif
