// Scalar types, qualifiers and enumerations of the tile API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

// Address spaces and function kinds of the NPU's compiler: one space and one kind here.
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __global__
#define __aicore__
#define AICORE
#define PTO_INTERNAL inline
#define PTO_INST inline

// An instruction is part of the kernel's own code: in checked mode its call tells where in the kernel it is.
#ifdef MEGAMOE_CHECKED
#define PTO_INSTRUCTION [[gnu::always_inline]] inline
#else
#define PTO_INSTRUCTION inline
#endif

extern "C" {
uint16_t megamoe_dev_half_from_float(float value);
float megamoe_dev_half_to_float(uint16_t bits);
uint16_t megamoe_dev_bf16_from_float(float value);
}

// IEEE half. A type of its own: no other 16-bit type converts to it by accident.
struct half {
  uint16_t bits;
  half() = default;
  explicit half(float value) : bits(megamoe_dev_half_from_float(value)) {}
  explicit operator float() const { return megamoe_dev_half_to_float(bits); }
};

// bfloat16, likewise.
struct bfloat16_t {
  uint16_t bits;
  bfloat16_t() = default;
  explicit bfloat16_t(float value) : bits(megamoe_dev_bf16_from_float(value)) {}
  explicit operator float() const {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    __builtin_memcpy(&value, &wide, sizeof(value));
    return value;
  }
};
static_assert(sizeof(half) == 2 && sizeof(bfloat16_t) == 2);
static_assert(!std::is_same_v<half, bfloat16_t>);

namespace pto {

constexpr int DYNAMIC = -1;

enum class TileType { Vec, Mat, Left, Right, Acc, Bias, Scaling };
enum class BLayout { RowMajor = 0, ColMajor = 1 };
enum class SLayout { NoneBox = 0, RowMajor = 1, ColMajor = 2 };
enum class Layout { ND, DN, NZ };
enum class PadValue : uint64_t { Null = 0 };
enum class CompactMode { Null, Normal };
enum class RoundMode : uint8_t {
  CAST_NONE = 0,
  CAST_RINT = 1,
  CAST_ROUND = 2,
  CAST_FLOOR = 3,
  CAST_CEIL = 4,
  CAST_TRUNC = 5,
  CAST_ODD = 6,
};
enum class SaturationMode : uint8_t { ON = 0, OFF = 1 };
enum class AtomicType : uint8_t { AtomicNone = 0, AtomicAdd = 1 };
enum class MaskPattern : uint8_t {
  P0101 = 1,
  P1010 = 2,
  P0001 = 3,
  P0010 = 4,
  P0100 = 5,
  P1000 = 6,
  P1111 = 7,
};
enum class SyncCoreType : uint8_t { AIVOnly = 0, AICOnly = 1, Mix = 2 };

// What an instruction returns for others to wait on. Kernels here order pipes by flags.
struct RecordEvent {};

struct TileConfig {
  static constexpr int alignedSize = 32;
  static constexpr int fractalABSize = 512;
  static constexpr int fractalCSize = 1024;
};

struct MrgSortExecutedNumList {
  uint16_t mrgSortList0;
  uint16_t mrgSortList1;
  uint16_t mrgSortList2;
  uint16_t mrgSortList3;
};

}  // namespace pto
