// Products of tokens with a weight matrix: out[t][n] = act(bias[n] + more[t][n] + sum_k x[t][k] * weight[n][k]).
//
// Weights are packed once into panels of columns that lie one after the other, each [k][columns of the panel], so that
// the tile of simd.h reads them in order. Panels are as wide as the tile: 3 vectors, then single vectors for what is
// left. A panel of the widest layer here (96 steps x 24 columns, 9 KiB) stays in the first-level cache while all tokens
// of a call pass by.
#pragma once

#include "core/blocks.h"
#include "kernels/simd.h"

namespace smf {
namespace SMF_ISA {

// Columns of the panel that starts with `left` columns to go.
SMF_INLINE int panel_columns(int left) {
  if (kWide == 16 && left >= 48) return 48;
  return left >= 24 ? 24 : 8;
}

// Packs a weight (outputs, inputs), element (n, k) at weight[n * row + k * column]; see packed_size().
inline void pack(const float* weight, int outputs, int inputs, long row, long column, float* packed) {
  const int padded = (outputs + 7) / 8 * 8;
  for (int n = 0; n < padded;) {
    const int columns = panel_columns(padded - n);
    for (int k = 0; k < inputs; ++k)
      for (int c = 0; c < columns; ++c)
        *packed++ = n + c < outputs ? weight[(n + c) * row + k * column] : 0.0f;
    n += columns;
  }
}

// `steps` inputs from `first_step` on (x points at the first of them), so that a wide layer can be added up in parts.
// start (row stride start_row, 0 for a bias) and more (may be null) are what the sums begin with; out may be either.
template <Finish finish>
__attribute__((noinline)) void matmul_part(int tokens, const float* x, long x_row, const Matrix& m, int first_step,
                                           int steps, const float* start, long start_row, const float* more,
                                           long more_row, float* out, long out_row) {
  const float* packed = m.packed;
  for (int n = 0; n < m.outputs;) {
    const int columns = panel_columns(m.outputs - n);
    const float* b = packed + long(first_step) * columns;
    const float* extra = more ? more + n : more;
    if (kWide == 16 && columns == 48)
      panel<kWide, 3, finish>(tokens, steps, x, x_row, 1, b, columns, start + n, start_row, extra, more_row, out + n,
                              out_row);
    else if (columns == 24)
      panel<8, 3, finish>(tokens, steps, x, x_row, 1, b, columns, start + n, start_row, extra, more_row, out + n,
                          out_row);
    else
      panel<8, 1, finish>(tokens, steps, x, x_row, 1, b, columns, start + n, start_row, extra, more_row, out + n,
                          out_row);
    packed += long(m.inputs) * columns;
    n += columns;
  }
}

// The whole product: out = act(bias + more + x * weight).
template <Finish finish>
SMF_INLINE void matmul(int tokens, const float* x, long x_row, const Matrix& m, const float* more, long more_row,
                       float* out, long out_row) {
  matmul_part<finish>(tokens, x, x_row, m, 0, m.inputs, m.bias, 0, more, more_row, out, out_row);
}

}  // namespace SMF_ISA
}  // namespace smf
