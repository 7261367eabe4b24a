// The engine's matrix product: out = finish(bias + add + A B).
//
// Columns of B lie on the vector lanes, and one float of A is broadcast per row and step. A tile keeps kRows x 3 vectors
// of sums in registers and loads 3 vectors of B per step: with 4 rows that is 12 multiply-adds for 7 loads in exactly the
// 16 registers of AVX2, so the multiply-adds are the limit. Columns come in panels of 24 (3 vectors of 8; with AVX-512
// also 48), which is why the network's widths, multiples of 24, leave nothing over. Other multiples of 8 work with
// narrower last panels.
//
// With tokens as rows of channels and W a layer's weight (outputs, inputs), the network needs
//
//     Y  = X W^T     A = X              B = Matrix
//     dX = dY W      A = dY             B = Matrix of W transposed
//     dW = dY^T X    A = dY transposed  B = X as it lies in memory
//
// A Matrix is packed: its panels lie one after the other, each (step, column of the panel), so that a tile reads B in
// order. A panel of the widest layer here (384 steps x 24 columns) is read from the second-level cache once per tile.
#pragma once

#include "core/blocks.h"
#include "kernels/simd.h"

namespace smf {
namespace SMF_ISA {

// relu6: results are held to [0, 6]. gate: they become 0 where Terms::gate is not positive.
enum class Finish { plain, relu, relu6, gate };

// What the sums start with, and the gate. Any pointer may be null.
struct Terms {
  const float* bias = nullptr;  // (columns)
  const float* add = nullptr;   // (rows, columns), rows `add_row` floats apart; may be the result itself
  long add_row = 0;
  const float* gate = nullptr;  // as `add`
  long gate_row = 0;
};

SMF_INLINE Terms shifted(const Terms& t, long row, long column) {
  return {t.bias ? t.bias + column : nullptr, t.add ? t.add + row * t.add_row + column : nullptr, t.add_row,
          t.gate ? t.gate + row * t.gate_row + column : nullptr, t.gate_row};
}

// One tile: R rows x V vectors of L columns. `highest`, if not null, are V vectors that are raised to the largest result
// of each column.
template <int L, int V, int R, Finish finish>
SMF_INLINE void tile(int steps, const float* a, long a_row, long a_step, const float* b, long b_row, const Terms& terms,
                     float* out, long out_row, Vec<L>* highest) {
  Vec<L> sums[R][V];
  if (terms.add) {
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) sums[r][v] = load<L>(terms.add + r * terms.add_row + v * L);
    if (terms.bias)
      for (int r = 0; r < R; ++r)
        for (int v = 0; v < V; ++v) sums[r][v] += load<L>(terms.bias + v * L);
  } else {
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) sums[r][v] = terms.bias ? load<L>(terms.bias + v * L) : Vec<L>{};
  }
  for (int k = 0; k < steps; ++k) {
    Vec<L> column[V];
    for (int v = 0; v < V; ++v) column[v] = load<L>(b + v * L);
    for (int r = 0; r < R; ++r) {
      const Vec<L> x = splat<L>(a[r * a_row]);
      for (int v = 0; v < V; ++v) sums[r][v] += x * column[v];
    }
    a += a_step;
    b += b_row;
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) {
      Vec<L> y = sums[r][v];
      if (finish == Finish::relu) y = max<L>(y, Vec<L>{});
      if (finish == Finish::relu6) y = relu6<L>(y);
      if (finish == Finish::gate) y = load<L>(terms.gate + r * terms.gate_row + v * L) > 0.0f ? y : Vec<L>{};
      if (highest) highest[v] = max<L>(highest[v], y);
      store<L>(out + r * out_row + v * L, y);
    }
}

// Rows of a tile: as many as leave the registers room for B.
constexpr int tile_rows(int vectors) { return vectors == 3 ? kRows : vectors == 2 ? kRows * 3 / 2 : kRows * 2; }

// All rows of one panel of V vectors. The last rows run in tiles of half the height, and so on.
template <int L, int V, Finish finish, int R = tile_rows(V)>
SMF_INLINE void panel(int rows, int steps, const float* a, long a_row, long a_step, const float* b, long b_row,
                      const Terms& terms, float* out, long out_row, Vec<L>* highest = nullptr) {
  int row = 0;
  for (; row + R <= rows; row += R)
    tile<L, V, R, finish>(steps, a + row * a_row, a_row, a_step, b, b_row, shifted(terms, row, 0), out + row * out_row,
                          out_row, highest);
  if constexpr (R > 1)
    if (row < rows)
      panel<L, V, finish, R / 2>(rows - row, steps, a + row * a_row, a_row, a_step, b, b_row, shifted(terms, row, 0),
                                 out + row * out_row, out_row, highest);
}

// The shape of a panel, for for_panels().
template <int L, int V>
struct PanelShape {
  static constexpr int lanes = L, vectors = V, columns = L * V;
};

// Calls body(first column, PanelShape) for the panels that cover `columns`, a multiple of 8. The only place that knows
// how wide panels are.
template <class Body>
SMF_INLINE void for_panels(int columns, const Body& body) {
  int n = 0;
  if (kWide == 16)
    for (; columns - n >= 48; n += 48) body(n, PanelShape<kWide, 3>{});
  for (; columns - n >= 24; n += 24) body(n, PanelShape<8, 3>{});
  for (; columns - n >= 16; n += 16) body(n, PanelShape<kWide, 16 / kWide>{});
  if (n < columns) body(n, PanelShape<8, 1>{});
}

constexpr int kWidestPanel = 3 * kWide;

// Packs a weight (outputs, inputs), element (n, k) at weight[n * row + k * column]; see packed_size().
inline void pack(const float* weight, int outputs, int inputs, long row, long column, float* packed) {
  for_panels((outputs + 7) / 8 * 8, [&](int n, auto shape) {
    for (int k = 0; k < inputs; ++k)
      for (int c = n; c < n + shape.columns; ++c) *packed++ = c < outputs ? weight[c * row + k * column] : 0.0f;
  });
}

// B of a product: a packed weight from one of its steps on, or any matrix whose rows are `row` floats apart.
struct Operand {
  const float* data;
  long row;     // 0 if packed
  long inputs;  // of the packed weight
  int first;    // step of it
};
SMF_INLINE Operand plain(const float* data, long row) { return {data, row, 0, 0}; }
SMF_INLINE Operand packed(const Matrix& m, int first = 0) { return {m.packed, 0, m.inputs, first}; }

// out (rows, columns) = finish(terms + A B) over `steps`. A is (rows, steps) with rows `a_row` apart or, transposed,
// (steps, rows). Columns are a multiple of 8.
template <Finish finish, bool transposed = false>
__attribute__((noinline)) void gemm(int rows, int columns, int steps, const float* a, long a_row, const Operand& b,
                                    const Terms& terms, float* out, long out_row) {
  for_panels(columns, [&](int n, auto shape) {
    const float* from = b.row ? b.data + n : b.data + n * b.inputs + long(b.first) * shape.columns;
    panel<shape.lanes, shape.vectors, finish>(rows, steps, a, transposed ? 1 : a_row, transposed ? a_row : 1, from,
                                              b.row ? b.row : shape.columns, shifted(terms, 0, n), out + n, out_row);
  });
}

// out = finish(bias + x W^T + add) for `tokens` rows of x.
template <Finish finish = Finish::plain>
SMF_INLINE void linear(int tokens, const float* x, long x_row, const Matrix& m, float* out, long out_row,
                       const float* add = nullptr, long add_row = 0) {
  gemm<finish>(tokens, m.outputs, m.inputs, x, x_row, packed(m), {m.bias, add, add_row}, out, out_row);
}

}  // namespace SMF_ISA
}  // namespace smf
