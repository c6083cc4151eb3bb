// What the virtual device does for the headers. Its Rust side is device/src/abi.
#pragma once

#include "megamoe/device_abi.h"

#include "pto/host/types.hpp"

extern "C" {
using megamoe::CoreInfo;
using megamoe::GmView;
using megamoe::TileView;

void megamoe_dev_core(CoreInfo *info);
uint8_t *megamoe_dev_memory(uint32_t memory);
[[noreturn]] void megamoe_dev_fail(const char *reason);

void megamoe_dev_load(const TileView *tile, const GmView *gm);
void megamoe_dev_store(const GmView *gm, const TileView *tile, uint32_t add);
void megamoe_dev_store_acc(const GmView *gm, const TileView *acc, uint32_t scale_kind, uint64_t scalar,
                           const TileView *scales);
void megamoe_dev_move(const TileView *target, const TileView *source);

void megamoe_dev_binary(uint32_t op, const TileView *target, const TileView *a, const TileView *b);
void megamoe_dev_scalar(uint32_t op, uint32_t scalar_first, const TileView *target, const TileView *source,
                        uint32_t bits);
void megamoe_dev_unary(uint32_t op, const TileView *target, const TileView *source);
void megamoe_dev_fill(const TileView *target, uint64_t bits);
void megamoe_dev_convert(const TileView *target, const TileView *source, uint32_t round, uint32_t saturate);
void megamoe_dev_row_max(const TileView *target, const TileView *source, const TileView *tmp);
void megamoe_dev_sort32(const TileView *target, const TileView *source, const TileView *index);
void megamoe_dev_merge_blocks(const TileView *target, const TileView *source, uint32_t block_len);
void megamoe_dev_merge(const TileView *target, const TileView *sources, uint32_t num_sources, uint32_t stop_early,
                       uint16_t *taken);
void megamoe_dev_gather(const TileView *target, const TileView *source, uint32_t first, uint32_t step);

void megamoe_dev_extract(const TileView *target, const TileView *source, uint32_t row, uint32_t col);
void megamoe_dev_matmul(const TileView *c, const TileView *a, const TileView *b, uint32_t accumulate);

void megamoe_dev_set_flag(uint32_t source, uint32_t target, uint32_t event);
void megamoe_dev_wait_flag(uint32_t source, uint32_t target, uint32_t event);
void megamoe_dev_pipe_barrier(uint32_t pipe);
void megamoe_dev_dsb();
void megamoe_dev_dcci(uint64_t address, uint32_t whole);
uint64_t megamoe_dev_sys_cnt();
void megamoe_dev_sync_all(uint32_t kind);
void megamoe_dev_notify(__gm__ int32_t *signal, int32_t value, uint32_t add);
void megamoe_dev_wait(__gm__ int32_t *signal, int32_t value, uint32_t compare);
uint32_t megamoe_dev_test(__gm__ int32_t *signal, int32_t value, uint32_t compare);
void megamoe_dev_cross_set(uint32_t pipe, uint32_t flag);
void megamoe_dev_cross_wait(uint32_t flag);
}

namespace megamoe::device {

inline CoreInfo core() {
  CoreInfo info;
  megamoe_dev_core(&info);
  return info;
}

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, int8_t>) {
    return DType::I8;
  } else if constexpr (std::is_same_v<T, uint8_t>) {
    return DType::U8;
  } else if constexpr (std::is_same_v<T, int16_t>) {
    return DType::I16;
  } else if constexpr (std::is_same_v<T, uint16_t>) {
    return DType::U16;
  } else if constexpr (std::is_same_v<T, int32_t>) {
    return DType::I32;
  } else if constexpr (std::is_same_v<T, uint32_t>) {
    return DType::U32;
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return DType::I64;
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return DType::U64;
  } else if constexpr (std::is_same_v<T, half>) {
    return DType::F16;
  } else if constexpr (std::is_same_v<T, bfloat16_t>) {
    return DType::Bf16;
  } else {
    static_assert(std::is_same_v<T, float>, "no tile holds elements of this type");
    return DType::F32;
  }
}

// The bits of a scalar operand, in the low part of a word.
template <typename T>
uint64_t bits_of(T value) {
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(value));
  return bits;
}

}  // namespace megamoe::device
