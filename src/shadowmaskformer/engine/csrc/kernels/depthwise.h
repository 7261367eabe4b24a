// The depthwise 5x5 convolution of one row of tokens, and the gradient of its taps.
#pragma once

#include "core/blocks.h"
#include "kernels/gemm.h"

namespace smf {
namespace SMF_ISA {

// Tokens that a tile holds in registers: 8 sums, 5 taps and 1 input of the 16 registers of AVX2.
constexpr int kColumns = kRows >= 4 ? 8 : 4;

// Calls body(first channel, its lanes as a PanelShape of one vector) for vectors that cover `channels`.
template <class Body>
SMF_INLINE void for_lanes(int channels, const Body& body) {
  int c = 0;
  if (kWide == 16)
    for (; c + 16 <= channels; c += 16) body(c, PanelShape<kWide, 1>{});
  for (; c < channels; c += 8) body(c, PanelShape<8, 1>{});
}

// G outputs of L channels. rows[dy] points at the token two to the left of the first output; each input is loaded once
// per kernel row and used up to five times.
template <int L, int G>
SMF_INLINE void depthwise_tile(const float* const rows[5], long at, int channels, const float* taps, Vec<L> start,
                               float* out) {
  Vec<L> sums[G];
  for (int g = 0; g < G; ++g) sums[g] = start;
#pragma GCC unroll 1
  for (int dy = 0; dy < 5; ++dy) {
    Vec<L> tap[5];
    for (int dx = 0; dx < 5; ++dx) tap[dx] = load<L>(taps + (dy * 5 + dx) * channels);
    const float* row = rows[dy] + at;
#pragma GCC unroll 12
    for (int i = 0; i < G + 4; ++i) {
      const Vec<L> x = load<L>(row + long(i) * channels);
#pragma GCC unroll 5
      for (int dx = 0; dx < 5; ++dx)
        if (i - dx >= 0 && i - dx < G) sums[i - dx] += x * tap[dx];
    }
  }
  for (int g = 0; g < G; ++g) store<L>(out + long(g) * channels, sums[g]);
}

// One output row: out[x] = bias + sum over taps of rows[dy][x + dx], `columns` tokens without gaps. rows[dy] begins two
// tokens to the left of the output.
SMF_INLINE void depthwise_row(const float* const rows[5], int columns, int channels, const Depthwise& conv, float* out) {
  for_lanes(channels, [&](int c, auto shape) {
    constexpr int L = shape.lanes;
    const Vec<L> start = conv.bias ? load<L>(conv.bias + c) : Vec<L>{};
    const float* taps = conv.weight + c;
    int x = 0;
    const auto tile_at = [&](auto tokens) {
      const long at = long(x) * channels + c;
      depthwise_tile<L, tokens.columns>(rows, at, channels, taps, start, out + at);
      x += tokens.columns;
    };
    while (x + kColumns <= columns) tile_at(PanelShape<1, kColumns>{});
    while (x + 2 <= columns) tile_at(PanelShape<1, 2>{});
    if (x < columns) tile_at(PanelShape<1, 1>{});
  });
}

// kRowCount kernel rows of add_tap_gradient().
template <int L, int kRowCount>
SMF_INLINE void add_tap_rows(const float* const* rows, long c, const float* du, int channels, int columns,
                             float* dtaps) {
  Vec<L> sums[kRowCount][5];
  for (int dy = 0; dy < kRowCount; ++dy)
    for (int dx = 0; dx < 5; ++dx) sums[dy][dx] = load<L>(dtaps + (dy * 5 + dx) * channels);
  int p = 0;
  for (; p + 4 <= columns; p += 4) {
    Vec<L> g[4];
    for (int i = 0; i < 4; ++i) g[i] = load<L>(du + long(p + i) * channels);
#pragma GCC unroll 5
    for (int dy = 0; dy < kRowCount; ++dy)
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        const Vec<L> x = load<L>(rows[dy] + c + long(p + i) * channels);
#pragma GCC unroll 5
        for (int dx = 0; dx < 5; ++dx)
          if (i - dx >= 0 && i - dx < 4) sums[dy][dx] += g[i - dx] * x;
      }
  }
  for (; p < columns; ++p) {
    const Vec<L> g = load<L>(du + long(p) * channels);
    for (int dy = 0; dy < kRowCount; ++dy)
      for (int dx = 0; dx < 5; ++dx) sums[dy][dx] += g * load<L>(rows[dy] + c + long(p + dx) * channels);
  }
  for (int dy = 0; dy < kRowCount; ++dy)
    for (int dx = 0; dx < 5; ++dx) store<L>(dtaps + (dy * 5 + dx) * channels, sums[dy][dx]);
}

// dtaps (25, channels) += du[x] rows[dy][x + dx] over a row of tokens. Two kernel rows at a time: ten sums, four of du
// and one input are the 16 registers of AVX2.
SMF_INLINE void add_tap_gradient(const float* const rows[5], const float* du, int channels, int columns, float* dtaps) {
  for_lanes(channels, [&](int c, auto shape) {
    constexpr int L = shape.lanes;
    add_tap_rows<L, 2>(rows, c, du + c, channels, columns, dtaps + c);
    add_tap_rows<L, 2>(rows + 2, c, du + c, channels, columns, dtaps + 10 * channels + c);
    add_tap_rows<L, 1>(rows + 4, c, du + c, channels, columns, dtaps + 20 * channels + c);
  });
}

}  // namespace SMF_ISA
}  // namespace smf
