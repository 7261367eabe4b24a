// Vectors of floats.
//
// Vec<L> is L floats: a compiler vector type, which GCC and Clang lower to SSE, AVX2, AVX-512 or NEON. Everything here
// lives in smf::SMF_ISA, because each kernel file is compiled once per instruction set (see isa.h).
#pragma once

#include <cstdint>

#ifndef SMF_ISA
#error "simd.h is for kernel files, which are compiled once per instruction set"
#endif

#define SMF_INLINE inline __attribute__((always_inline))

namespace smf {
namespace SMF_ISA {

#if defined(__AVX512F__)
constexpr int kWide = 16;  // lanes of the widest vector
constexpr int kRows = 8;   // 32 registers: 24 sums, 3 vectors of b
#elif defined(__aarch64__) || defined(__AVX__)
constexpr int kWide = 8;   // NEON: two registers of its 32
constexpr int kRows = 4;
#else
constexpr int kWide = 8;   // SSE2: two registers of its 16
constexpr int kRows = 2;
#endif

template <int L>
struct VecOf {
  typedef float type __attribute__((vector_size(L * 4)));
  typedef float unaligned __attribute__((vector_size(L * 4), aligned(4), may_alias));
  typedef std::int32_t integer __attribute__((vector_size(L * 4)));
};
template <int L>
using Vec = typename VecOf<L>::type;

template <int L>
SMF_INLINE Vec<L> load(const float* p) {
  return *reinterpret_cast<const typename VecOf<L>::unaligned*>(p);
}
template <int L>
SMF_INLINE void store(float* p, Vec<L> v) {
  *reinterpret_cast<typename VecOf<L>::unaligned*>(p) = v;
}
template <int L>
SMF_INLINE Vec<L> splat(float x) {
  return x - Vec<L>{};
}
template <int L>
SMF_INLINE Vec<L> max(Vec<L> a, Vec<L> b) {
  return a > b ? a : b;
}
template <int L>
SMF_INLINE Vec<L> relu6(Vec<L> v) {
  const Vec<L> floor = max<L>(v, Vec<L>{}), six = splat<L>(6.0f);
  return floor < six ? floor : six;
}
template <int L>
SMF_INLINE float sum(Vec<L> v) {
  float total = 0;
  for (int i = 0; i < L; ++i) total += v[i];
  return total;
}

// std::min and std::max are inline functions outside this namespace (see isa.h), hence these.
template <class T>
SMF_INLINE T smaller(T a, T b) {
  return b < a ? b : a;
}
template <class T>
SMF_INLINE T larger(T a, T b) {
  return a < b ? b : a;
}

// 2^x to 2e-7 relative for x in [-126, 127]; smaller x give 2^-126, never a denormal or NaN. For softmax, where x <= 0
// and a factor log2(e) is folded into what x is made of: that saves the reduction by multiples of ln 2.
template <int L>
SMF_INLINE Vec<L> exp2(Vec<L> x) {
  using I = typename VecOf<L>::integer;
  x = max<L>(x, splat<L>(-126.0f));
  // Adding 1.5 * 2^23 rounds x to an integer n, which then stands in the low bits of the float.
  const Vec<L> rounder = splat<L>(12582912.0f);
  const Vec<L> shifted = x + rounder;
  const Vec<L> r = x - (shifted - rounder);
  Vec<L> p = splat<L>(1.3276472e-03f);  // minimax polynomial of 2^r on [-1/2, 1/2]
  p = p * r + 9.675542e-03f;
  p = p * r + 5.550713e-02f;
  p = p * r + 2.402212e-01f;
  p = p * r + 6.9314694e-01f;
  p = p * r + 1.0000001e+00f;
  return (Vec<L>)((I)p + ((I)shifted << 23));  // times 2^n: add n to the exponent bits
}

// 8 x 8 floats: out[c][r] = in[r][c].
SMF_INLINE void transpose8(const float* in, long in_row, float* out, long out_row) {
  using V = Vec<8>;
  V a[8], b[8];
  for (int r = 0; r < 8; ++r) a[r] = load<8>(in + r * in_row);
  for (int r = 0; r < 8; r += 2) {
    b[r] = __builtin_shufflevector(a[r], a[r + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    b[r + 1] = __builtin_shufflevector(a[r], a[r + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int r = 0; r < 8; r += 4)
    for (int i = 0; i < 2; ++i) {
      a[r + i] = __builtin_shufflevector(b[r + i], b[r + i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      a[r + i + 2] = __builtin_shufflevector(b[r + i], b[r + i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    store<8>(out + i * out_row, __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11));
    store<8>(out + (i + 4) * out_row, __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15));
  }
}

// out (columns, rows) = in (rows, columns) transposed. Both are rounded up to multiples of 8.
SMF_INLINE void transpose(int rows, int columns, const float* in, long in_row, float* out, long out_row) {
  for (int r = 0; r < rows; r += 8)
    for (int c = 0; c < columns; c += 8) transpose8(in + r * in_row + c, in_row, out + c * out_row + r, out_row);
}

}  // namespace SMF_ISA
}  // namespace smf
