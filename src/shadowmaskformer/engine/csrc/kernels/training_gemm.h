// Small matrix products on tiles that stay in cache: C = init + bias + A·B.
//
// Everything the backward pass multiplies fits one kernel. Vectors of eight lanes run along the columns of B and C;
// an element of A is broadcast to them. With activations as rows of channels,
//   Y  = X·Wᵀ    A = X,           B = Wᵀ packed with pack_transposed
//   dX = dY·W    A = dY,          B = W packed with pack_plain
//   dW = dYᵀ·X   A = dY (Trans),  B = X as it lies in memory
//
// A register tile holds 4×24, 6×16 or 8×8 results: twelve accumulators, the three vectors of B and one of A fill the
// sixteen registers of AVX2. All widths of the network are multiples of 24, so 4×24 is the common case. Packed
// weights lie as panels of 24 columns, contiguous, so that a panel never conflicts with itself in the first-level cache.
#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/simd.h"

namespace smf {
namespace SMF_ISA {

constexpr int kLanes = 8;
constexpr int kPanel = 24;
using Lane8 = Vec<kLanes>;

SMF_INLINE Lane8 zero_unless(VecOf<kLanes>::integer keep, Lane8 value) {
  return (Lane8)(keep & (VecOf<kLanes>::integer)value);
}

// B of a product: rows `row` floats apart; every panel of 24 columns starts `panel` floats after the one before.
struct Operand {
  const float* data;
  long row;
  long panel;
};
SMF_INLINE Operand plain(const float* data, long row) { return {data, row, kPanel}; }
SMF_INLINE Operand packed(const float* data, long depth) { return {data, kPanel, depth * kPanel}; }

enum class After { nothing, relu, gate };

// What is added to the product, and what happens to the sum. Any pointer may be null.
struct Terms {
  const float* init;  // (rows, columns), `init_row` floats apart; may be the result itself
  long init_row;
  const float* bias;  // (columns)
  const float* gate;  // After::gate: results where this (rows, columns) is not positive become 0
  long gate_row;
};

template <int kRows, int kVecs, bool kTrans, After kAfter>
SMF_INLINE void gemm_tile(int depth, const float* a, long lda, const float* b, long ldb, float* c, long ldc,
                             const float* init, long init_row, const float* bias, const float* gate, long gate_row) {
  Lane8 sum[kRows][kVecs];
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) {
    const Lane8 start = bias ? load<kLanes>(bias + v * kLanes) : Lane8{};
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sum[r][v] = start;
  }
  if (init)
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) sum[r][v] += load<kLanes>(init + r * init_row + v * kLanes);
  const long row_step = kTrans ? 1 : lda, depth_step = kTrans ? lda : 1;
  for (int k = 0; k < depth; ++k) {
    Lane8 column[kVecs];
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) column[v] = load<kLanes>(b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Lane8 value = splat<kLanes>(a[r * row_step]);
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) sum[r][v] += value * column[v];
    }
    a += depth_step;
    b += ldb;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      Lane8 value = sum[r][v];
      if (kAfter == After::relu) value = max<kLanes>(value, Lane8{});
      if (kAfter == After::gate) value = zero_unless(load<kLanes>(gate + r * gate_row + v * kLanes) > 0.0f, value);
      store<kLanes>(c + r * ldc + v * kLanes, value);
    }
}

// One panel of columns: full register tiles, then one tile of the rows that remain.
template <int kVecs, bool kTrans, After kAfter>
static void gemm_panel(int rows, int depth, const float* a, long lda, const float* b, long ldb, float* c, long ldc,
                       const Terms& terms, int column) {
  constexpr int kTile = kVecs == 3 ? 4 : kVecs == 2 ? 6 : 8;
  const float* init = terms.init ? terms.init + column : nullptr;
  const float* bias = terms.bias ? terms.bias + column : nullptr;
  const float* gate = terms.gate ? terms.gate + column : nullptr;
  const long a_step = kTrans ? 1 : lda;
  auto tile = [&](auto count, int row) {
    gemm_tile<decltype(count)::value, kVecs, kTrans, kAfter>(
        depth, a + row * a_step, lda, b, ldb, c + row * ldc, ldc, init ? init + row * terms.init_row : nullptr,
        terms.init_row, bias, gate ? gate + row * terms.gate_row : nullptr, terms.gate_row);
  };
  int row = 0;
  for (; row + kTile <= rows; row += kTile) tile(std::integral_constant<int, kTile>{}, row);
  switch (rows - row) {
    case 1: return tile(std::integral_constant<int, 1>{}, row);
    case 2: return tile(std::integral_constant<int, 2>{}, row);
    case 3: return tile(std::integral_constant<int, 3>{}, row);
    case 4: return tile(std::integral_constant<int, kTile <= 4 ? 1 : 4>{}, row);
    case 5: return tile(std::integral_constant<int, kTile <= 5 ? 1 : 5>{}, row);
    case 6: return tile(std::integral_constant<int, kTile <= 6 ? 1 : 6>{}, row);
    case 7: return tile(std::integral_constant<int, kTile <= 7 ? 1 : 7>{}, row);
    default: return;
  }
}

// C (rows × columns) = terms.init + terms.bias + A·B, over `depth`. Columns must be a multiple of kLanes. A is
// (rows, depth) with rows `lda` apart, or with kTrans (depth, rows) with rows of that `lda` apart.
template <bool kTrans = false, After kAfter = After::nothing>
static void gemm(int rows, int columns, int depth, const float* a, long lda, const Operand& b, float* c, long ldc,
                 const Terms& terms = {}) {
  int column = 0;
  for (; columns - column >= 24 && columns - column != 32; column += 24)
    gemm_panel<3, kTrans, kAfter>(rows, depth, a, lda, b.data + column / kPanel * b.panel, b.row, c + column, ldc,
                                  terms, column);
  for (; columns - column >= 16; column += 16)
    gemm_panel<2, kTrans, kAfter>(rows, depth, a, lda, b.data + column, b.row, c + column, ldc, terms, column);
  if (columns > column)
    gemm_panel<1, kTrans, kAfter>(rows, depth, a, lda, b.data + column, b.row, c + column, ldc, terms, column);
}

// dW (out × in) += dYᵀ·X over `tokens`.
SMF_INLINE void add_weight_gradient(int out, int in, int tokens, const float* dy, long dy_row, const float* x,
                                       long x_row, float* dw) {
  Terms terms{};
  terms.init = dw;
  terms.init_row = in;
  gemm<true>(out, in, tokens, dy, dy_row, plain(x, x_row), dw, in, terms);
}

// sums (columns) += the sum of `tokens` rows.
SMF_INLINE void add_column_sums(int columns, int tokens, const float* x, long x_row, float* sums) {
  for (int c = 0; c < columns; c += kLanes) {
    Lane8 even = load<kLanes>(sums + c), odd{};
    int t = 0;
    for (; t + 2 <= tokens; t += 2) {
      even += load<kLanes>(x + t * x_row + c);
      odd += load<kLanes>(x + (t + 1) * x_row + c);
    }
    if (t < tokens) even += load<kLanes>(x + t * x_row + c);
    store<kLanes>(sums + c, even + odd);
  }
}

// Wᵀ of a torch weight (out, in) as panels of 24 outputs: B of Y = X·Wᵀ.
SMF_INLINE void pack_transposed(const float* weight, int out, int in, float* panels) {
  for (int panel = 0; panel < out; panel += kPanel)
    for (int i = 0; i < in; ++i)
      for (int o = 0; o < kPanel; ++o) *panels++ = weight[(panel + o) * in + i];
}

// W itself as panels of 24 inputs: B of dX = dY·W.
SMF_INLINE void pack_plain(const float* weight, int out, int in, float* panels) {
  for (int panel = 0; panel < in; panel += kPanel)
    for (int o = 0; o < out; ++o, panels += kPanel) std::memcpy(panels, weight + o * in + panel, kPanel * sizeof(float));
}

}  // namespace SMF_ISA
}  // namespace smf
