// The depthwise convolution of one row of tokens, and the gradient of the taps of a 5x5 one.
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

// G outputs of L channels, of a kernel of kSide x kSide. rows[dy] points at the first token that the first output sees;
// each input is loaded once per kernel row and used by every output that sees it.
template <int L, int G, int kSide, int kStride>
SMF_INLINE void depthwise_tile(const float* const rows[kSide], long at, int channels, const float* taps, Vec<L> start,
                               bool clipped, float* out) {
  Vec<L> sums[G];
  for (int g = 0; g < G; ++g) sums[g] = start;
#pragma GCC unroll 1
  for (int dy = 0; dy < kSide; ++dy) {
    Vec<L> tap[kSide];
    for (int dx = 0; dx < kSide; ++dx) tap[dx] = load<L>(taps + (dy * kSide + dx) * channels);
    const float* row = rows[dy] + at;
#pragma GCC unroll 24
    for (int i = 0; i < (G - 1) * kStride + kSide; ++i) {
      const Vec<L> x = load<L>(row + long(i) * channels);
#pragma GCC unroll 8
      for (int dx = 0; dx < kSide; ++dx)
        if (i - dx >= 0 && (i - dx) % kStride == 0 && (i - dx) / kStride < G) sums[(i - dx) / kStride] += x * tap[dx];
    }
  }
  for (int g = 0; g < G; ++g) store<L>(out + long(g) * channels, clipped ? relu6<L>(sums[g]) : sums[g]);
}

// One output row: out[x] = bias + sum over taps of rows[dy][stride x + dx], `columns` tokens without gaps. rows[dy]
// begins at the first token that the first output sees.
template <int kSide = 5, int kStride = 1>
SMF_INLINE void depthwise_row(const float* const rows[kSide], int columns, int channels, const Depthwise& conv,
                              float* out, bool clipped = false) {
  for_lanes(channels, [&](int c, auto shape) {
    constexpr int L = shape.lanes;
    const Vec<L> start = conv.bias ? load<L>(conv.bias + c) : Vec<L>{};
    const float* taps = conv.weight + c;
    int x = 0;
    const auto tile_at = [&](auto tokens) {
      depthwise_tile<L, tokens.columns, kSide, kStride>(rows, long(x) * kStride * channels + c, channels, taps, start,
                                                        clipped, out + long(x) * channels + c);
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
