// A worker's scratch memory, cut into arrays.
#pragma once

#include <cstddef>
#include <cstring>

#include "kernels/simd.h"

namespace smf {
namespace SMF_ISA {

// Hands out consecutive arrays of one block, each on a cache line. With a null block it only counts, so that a struct of
// arrays can say how much it needs.
class Slices {
 public:
  explicit Slices(float* block) : block_(block), used_(0) {}
  SMF_INLINE float* take(std::size_t count) {
    float* slice = block_ ? block_ + used_ : nullptr;
    used_ += (count + 15) / 16 * 16;
    return slice;
  }
  SMF_INLINE std::size_t used() const { return used_; }

 private:
  float* block_;
  std::size_t used_;
};

SMF_INLINE void zero(float* to, std::size_t count) { std::memset(to, 0, count * sizeof(float)); }
SMF_INLINE void copy(float* to, const float* from, std::size_t count) { std::memcpy(to, from, count * sizeof(float)); }

}  // namespace SMF_ISA
}  // namespace smf
