// Global memory as tensors of five dimensions, outermost first, strides in elements.
#pragma once

#include "pto/host/device.hpp"

namespace pto {

namespace host {

// Five extents, of which some are known at compile time. The others are given in their order.
template <int64_t N1, int64_t N2, int64_t N3, int64_t N4, int64_t N5>
struct Extents {
  static constexpr int64_t kStatic[5] = {N1, N2, N3, N4, N5};
  static constexpr int kNumDynamic = (N1 == DYNAMIC) + (N2 == DYNAMIC) + (N3 == DYNAMIC) + (N4 == DYNAMIC) + (N5 == DYNAMIC);

  template <typename... Ints>
  explicit Extents(Ints... given) {
    static_assert(sizeof...(given) == 0 || sizeof...(given) == kNumDynamic || sizeof...(given) == 5,
                  "one value for each dynamic extent, or all five");
    const int64_t values[] = {static_cast<int64_t>(given)..., 0};
    int next = 0;
    for (int dim = 0; dim < 5; ++dim) {
      const bool all = sizeof...(given) == 5;
      const bool taken = all || (kStatic[dim] == DYNAMIC && sizeof...(given) > 0);
      extent[dim] = taken ? values[next++] : (kStatic[dim] == DYNAMIC ? 1 : kStatic[dim]);
    }
  }

  int64_t extent[5];
};

}  // namespace host

template <int64_t N1 = DYNAMIC, int64_t N2 = DYNAMIC, int64_t N3 = DYNAMIC, int64_t N4 = DYNAMIC, int64_t N5 = DYNAMIC>
struct Shape : host::Extents<N1, N2, N3, N4, N5> {
  using host::Extents<N1, N2, N3, N4, N5>::Extents;
};

template <int64_t N1 = DYNAMIC, int64_t N2 = DYNAMIC, int64_t N3 = DYNAMIC, int64_t N4 = DYNAMIC, int64_t N5 = DYNAMIC>
struct Stride : host::Extents<N1, N2, N3, N4, N5> {
  using host::Extents<N1, N2, N3, N4, N5>::Extents;
};

template <typename Element_, typename Shape_, typename Stride_, Layout Layout_ = Layout::ND>
struct GlobalTensor {
  using Shape = Shape_;
  using Stride = Stride_;
  using RawDType = Element_;
  using DType = __gm__ Element_;
  static constexpr Layout layout = Layout_;

  explicit GlobalTensor(DType *data, const Shape &shape = Shape(), const Stride &stride = Stride())
      : data_(data), shape_(shape), stride_(stride) {}

  DType *data() const { return data_; }
  int64_t GetShape(int dim) const { return shape_.extent[dim]; }
  int64_t GetStride(int dim) const { return stride_.extent[dim]; }

  GmView view() const {
    GmView view;
    view.data = reinterpret_cast<uint64_t>(data_);
    for (int dim = 0; dim < 5; ++dim) {
      view.shape[dim] = shape_.extent[dim];
      view.stride[dim] = stride_.extent[dim];
    }
    view.dtype = static_cast<uint32_t>(megamoe::device::dtype_of<Element_>());
    view.layout = static_cast<uint32_t>(Layout_);
    return view;
  }

  void assign(DType *data) { data_ = data; }

 private:
  DType *data_;
  Shape shape_;
  Stride stride_;
};

}  // namespace pto
