// What kernels of the corpus share: short names for tiles and global memory, and who does what.
#pragma once

#include "examples/args.h"
#include "megamoe/entry.h"

#include "kernel_operator.h"

namespace corpus {

using namespace pto;
using Args = megamoe::CorpusArgs;

template <typename T>
using Line = Tile<TileType::Vec, T, 1, 2048, BLayout::RowMajor, 1, DYNAMIC>;
template <typename T>
using Gm = GlobalTensor<T, Shape<1, 1, 1, 1, DYNAMIC>, Stride<1, 1, 1, 1, 1>>;

constexpr uint32_t kLen = 64;                     // values of a line
constexpr uint32_t kLine = kLen * sizeof(float);  // its bytes

AICORE inline const Args &args_of(__gm__ uint8_t *raw) { return *reinterpret_cast<const __gm__ Args *>(raw); }

template <typename T = float>
AICORE inline Line<T> line(uint32_t address, uint32_t len = kLen) {
  Line<T> tile(len);
  TASSIGN(tile, address);
  return tile;
}

template <typename T>
AICORE inline Gm<T> gm(__gm__ T *data, uint32_t len = kLen) {
  return Gm<T>(data, Shape<1, 1, 1, 1, DYNAMIC>(len));
}

AICORE inline void load(uint32_t address, __gm__ float *from, uint32_t len = kLen) {
  Line<float> tile = line(address, len);
  Gm<float> source = gm(from, len);
  TLOAD(tile, source);
}

AICORE inline void store(uint32_t address, __gm__ float *to, uint32_t len = kLen) {
  Line<float> tile = line(address, len);
  Gm<float> target = gm(to, len);
  TSTORE(target, tile);
}

AICORE inline void scale(uint32_t to, uint32_t from, uint32_t len = kLen) {
  Line<float> target = line(to, len), source = line(from, len);
  TMULS(target, source, 2.0f);
}

AICORE inline void fill(uint32_t address, uint32_t len = kLen) {
  Line<float> tile = line(address, len);
  TEXPANDS(tile, 1.0f);
}

AICORE inline void flag(pipe_t from, pipe_t to, int id = 0) {
  set_flag(from, to, id);
  wait_flag(from, to, id);
}

AICORE inline void notify(__gm__ int32_t *word, int32_t value = 1) {
  comm::Signal signal(word);
  comm::TNOTIFY(signal, value, comm::NotifyOp::Set);
}

AICORE inline void wait(__gm__ int32_t *word, int32_t value = 1) {
  comm::Signal signal(word);
  comm::TWAIT(signal, value, comm::WaitCmp::GE);
}

AICORE inline void publish() {
  pipe_barrier(PIPE_ALL);
  dsb(DSB_DDR);
}

template <typename T>
AICORE inline void refresh(__gm__ T *word) {
  dcci(word, cache_line_t::SINGLE_CACHE_LINE, dcci_dst_t::CACHELINE_OUT);
}

// Vector cores of the launch, from 0.
AICORE inline int64_t me() { return get_block_idx() * get_subblockdim() + get_subblockid(); }

// A line into UB at 0, ready for the vector pipe.
AICORE inline void loaded(const Args &args) {
  load(0, args.input);
  flag(PIPE_MTE2, PIPE_V);
}

// Matrix cores: a [32, 64] x [64, 32] product of int8.
using L1Left = Tile<TileType::Mat, int8_t, 32, 64, BLayout::ColMajor, DYNAMIC, DYNAMIC, SLayout::RowMajor>;
using L1Right = Tile<TileType::Mat, int8_t, 64, 32, BLayout::ColMajor, DYNAMIC, DYNAMIC, SLayout::RowMajor>;
using Left = TileLeft<int8_t, 32, 64, DYNAMIC, DYNAMIC>;
using Right = TileRight<int8_t, 64, 32, DYNAMIC, DYNAMIC>;
using Acc = TileAcc<int32_t, 32, 32, DYNAMIC, DYNAMIC>;
using Rows = GlobalTensor<int8_t, Shape<1, 1, 1, DYNAMIC, DYNAMIC>, Stride<1, 1, 1, DYNAMIC, 1>>;
using Fractals = GlobalTensor<int8_t, Shape<1, DYNAMIC, DYNAMIC, 16, 32>, Stride<1, DYNAMIC, 512, 32, 1>, Layout::NZ>;
using Ints = GlobalTensor<int32_t, Shape<1, 1, 1, DYNAMIC, DYNAMIC>, Stride<1, 1, 1, DYNAMIC, 1>>;

// The steps of a product, so that kernels can leave out what orders them.
struct Product {
  const Args &args;
  L1Left l1_left{32, 64};
  L1Right l1_right{64, 32};
  Left left{32, 64};
  Right right{64, 32};
  Acc acc{32, 32};

  AICORE explicit Product(const Args &given) : args(given) {
    TASSIGN(l1_left, 0);
    TASSIGN(l1_right, 4096);
    TASSIGN(left, 0);
    TASSIGN(right, 0);
    TASSIGN(acc, 0);
  }
  AICORE void load() {
    Rows a(args.bytes, Shape<1, 1, 1, DYNAMIC, DYNAMIC>(32, 64), Stride<1, 1, 1, DYNAMIC, 1>(64));
    Fractals b(args.bytes + 8192, Shape<1, DYNAMIC, DYNAMIC, 16, 32>(1, 4), Stride<1, DYNAMIC, 512, 32, 1>(2048));
    TLOAD(l1_left, a);
    TLOAD(l1_right, b);
  }
  AICORE void extract() {
    TEXTRACT(left, l1_left, 0, 0);
    TEXTRACT(right, l1_right, 0, 0);
  }
  AICORE void multiply() { TMATMUL(acc, left, right); }
  AICORE void store() {
    Ints c(reinterpret_cast<__gm__ int32_t *>(args.output), Shape<1, 1, 1, DYNAMIC, DYNAMIC>(32, 32),
           Stride<1, 1, 1, DYNAMIC, 1>(32));
    TSTORE(c, acc);
  }
};

}  // namespace corpus
