// What kernels call in checked mode. They are compiled for it with an instrumentation of loads and stores; its calls, and
// those of the tile API, are renamed to the functions below, which know where in the kernel they were called.
#include "pto/pto-inst.hpp"

extern "C" {

void megamoe_chk_at(uint64_t return_address);
void megamoe_chk_access(uint64_t address, uint64_t len, uint32_t is_write, uint64_t return_address);

}

#define HERE reinterpret_cast<uint64_t>(__builtin_return_address(0))

#define MEGAMOE_ACCESS(NAME, LEN, IS_WRITE)                                        \
  extern "C" void megamoe_chk_##NAME(void *address) {                              \
    megamoe_chk_access(reinterpret_cast<uint64_t>(address), LEN, IS_WRITE, HERE);  \
  }
#define MEGAMOE_ACCESSES(LEN)                   \
  MEGAMOE_ACCESS(read##LEN, LEN, 0)             \
  MEGAMOE_ACCESS(write##LEN, LEN, 1)            \
  MEGAMOE_ACCESS(unaligned_read##LEN, LEN, 0)   \
  MEGAMOE_ACCESS(unaligned_write##LEN, LEN, 1)
MEGAMOE_ACCESSES(1)
MEGAMOE_ACCESSES(2)
MEGAMOE_ACCESSES(4)
MEGAMOE_ACCESSES(8)
MEGAMOE_ACCESSES(16)

extern "C" void megamoe_chk_read_range(void *address, uint64_t len) {
  megamoe_chk_access(reinterpret_cast<uint64_t>(address), len, 0, HERE);
}

extern "C" void megamoe_chk_write_range(void *address, uint64_t len) {
  megamoe_chk_access(reinterpret_cast<uint64_t>(address), len, 1, HERE);
}

extern "C" void megamoe_chk_func_entry(void *) {}
extern "C" void megamoe_chk_func_exit() {}
extern "C" void megamoe_chk_init() {}

// An instruction: notes where it is, then does it.
#define MEGAMOE_INSTRUCTION(NAME, PARAMETERS, ARGUMENTS)       \
  extern "C" void megamoe_chk_dev_##NAME PARAMETERS {          \
    megamoe_chk_at(HERE);                                      \
    megamoe_dev_##NAME ARGUMENTS;                              \
  }

MEGAMOE_INSTRUCTION(load, (const TileView *tile, const GmView *gm), (tile, gm))
MEGAMOE_INSTRUCTION(store, (const GmView *gm, const TileView *tile, uint32_t add), (gm, tile, add))
MEGAMOE_INSTRUCTION(store_acc,
                    (const GmView *gm, const TileView *acc, uint32_t kind, uint64_t scalar, const TileView *scales),
                    (gm, acc, kind, scalar, scales))
MEGAMOE_INSTRUCTION(move, (const TileView *target, const TileView *source), (target, source))
MEGAMOE_INSTRUCTION(binary, (uint32_t op, const TileView *target, const TileView *a, const TileView *b),
                    (op, target, a, b))
MEGAMOE_INSTRUCTION(scalar,
                    (uint32_t op, uint32_t first, const TileView *target, const TileView *source, uint32_t bits),
                    (op, first, target, source, bits))
MEGAMOE_INSTRUCTION(unary, (uint32_t op, const TileView *target, const TileView *source), (op, target, source))
MEGAMOE_INSTRUCTION(fill, (const TileView *target, uint64_t bits), (target, bits))
MEGAMOE_INSTRUCTION(convert, (const TileView *target, const TileView *source, uint32_t round, uint32_t saturate),
                    (target, source, round, saturate))
MEGAMOE_INSTRUCTION(row_max, (const TileView *target, const TileView *source, const TileView *tmp),
                    (target, source, tmp))
MEGAMOE_INSTRUCTION(sort32, (const TileView *target, const TileView *source, const TileView *index),
                    (target, source, index))
MEGAMOE_INSTRUCTION(merge_blocks, (const TileView *target, const TileView *source, uint32_t len), (target, source, len))
MEGAMOE_INSTRUCTION(merge,
                    (const TileView *target, const TileView *sources, uint32_t count, uint32_t early, uint16_t *taken),
                    (target, sources, count, early, taken))
MEGAMOE_INSTRUCTION(gather, (const TileView *target, const TileView *source, uint32_t first, uint32_t step),
                    (target, source, first, step))
MEGAMOE_INSTRUCTION(extract, (const TileView *target, const TileView *source, uint32_t row, uint32_t col),
                    (target, source, row, col))
MEGAMOE_INSTRUCTION(matmul, (const TileView *c, const TileView *a, const TileView *b, uint32_t accumulate),
                    (c, a, b, accumulate))
MEGAMOE_INSTRUCTION(set_flag, (uint32_t source, uint32_t target, uint32_t event), (source, target, event))
MEGAMOE_INSTRUCTION(wait_flag, (uint32_t source, uint32_t target, uint32_t event), (source, target, event))
MEGAMOE_INSTRUCTION(pipe_barrier, (uint32_t pipe), (pipe))
MEGAMOE_INSTRUCTION(dsb, (), ())
MEGAMOE_INSTRUCTION(dcci, (uint64_t address, uint32_t whole), (address, whole))
MEGAMOE_INSTRUCTION(sync_all, (uint32_t kind), (kind))
MEGAMOE_INSTRUCTION(notify, (__gm__ int32_t *signal, int32_t value, uint32_t add), (signal, value, add))
MEGAMOE_INSTRUCTION(wait, (__gm__ int32_t *signal, int32_t value, uint32_t compare), (signal, value, compare))
MEGAMOE_INSTRUCTION(cross_set, (uint32_t pipe, uint32_t flag), (pipe, flag))
MEGAMOE_INSTRUCTION(cross_wait, (uint32_t flag), (flag))

extern "C" uint32_t megamoe_chk_dev_test(__gm__ int32_t *signal, int32_t value, uint32_t compare) {
  megamoe_chk_at(HERE);
  return megamoe_dev_test(signal, value, compare);
}
