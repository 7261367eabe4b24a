// Pieces that several fused blocks share, on tokens that are in cache already: depthwise 5x5, MLP, moments.
#pragma once

#include "kernels/matmul.h"

namespace smf {
namespace SMF_ISA {

// Hidden channels that an MLP handles at a time: the slice of hidden tokens stays in the first-level cache, and so does
// each panel of both weights.
constexpr int kHiddenSlice = 96;

// Columns that a depthwise tile holds in registers: 8 sums, 5 taps and 1 input of the 16 registers of AVX2.
constexpr int kColumns = kRows >= 4 ? 8 : 4;

// `columns` outputs of L channels of one row. rows[dy] points at the token two to the left of the first output; tokens
// are `step` floats apart, taps `channels` floats.
template <int L, int G>
SMF_INLINE void depthwise_tile(const float* const rows[5], long step, long channels, const float* weight,
                               const float* bias, float* out, long out_step) {
  Vec<L> sums[G];
  for (int g = 0; g < G; ++g) sums[g] = load<L>(bias);
  for (int dy = 0; dy < 5; ++dy) {
    Vec<L> taps[5];
    for (int dx = 0; dx < 5; ++dx) taps[dx] = load<L>(weight + (dy * 5 + dx) * channels);
    const float* row = rows[dy];
#pragma GCC unroll 12
    for (int i = 0; i < G + 4; ++i) {
      const Vec<L> x = load<L>(row + i * step);
#pragma GCC unroll 5
      for (int dx = 0; dx < 5; ++dx)
        if (i - dx >= 0 && i - dx < G) sums[i - dx] += x * taps[dx];
    }
  }
  for (int g = 0; g < G; ++g) store<L>(out + g * out_step, sums[g]);
}

template <int L>
SMF_INLINE void depthwise_lanes(const float* const rows[5], long step, int columns, long channels,
                                const float* weight, const float* bias, float* out, long out_step) {
  const float* at[5];
  for (int dy = 0; dy < 5; ++dy) at[dy] = rows[dy];
  int x = 0;
  for (; x + kColumns <= columns; x += kColumns) {
    depthwise_tile<L, kColumns>(at, step, channels, weight, bias, out + x * out_step, out_step);
    for (int dy = 0; dy < 5; ++dy) at[dy] += kColumns * step;
  }
  for (; x + 2 <= columns; x += 2) {
    depthwise_tile<L, 2>(at, step, channels, weight, bias, out + x * out_step, out_step);
    for (int dy = 0; dy < 5; ++dy) at[dy] += 2 * step;
  }
  if (x < columns) depthwise_tile<L, 1>(at, step, channels, weight, bias, out + x * out_step, out_step);
}

// One output row of the depthwise convolution: out[x] = bias + sum over taps of rows[dy][x + dx].
SMF_INLINE void depthwise_row(const float* const rows[5], int columns, int channels, const Depthwise& conv, float* out,
                              long out_step) {
  int c = 0;
  const float* at[5];
  for (; kWide == 16 && c + 16 <= channels; c += 16) {
    for (int dy = 0; dy < 5; ++dy) at[dy] = rows[dy] + c;
    depthwise_lanes<16>(at, channels, columns, channels, conv.weight + c, conv.bias + c, out + c, out_step);
  }
  for (; c < channels; c += 8) {
    for (int dy = 0; dy < 5; ++dy) at[dy] = rows[dy] + c;
    depthwise_lanes<8>(at, channels, columns, channels, conv.weight + c, conv.bias + c, out + c, out_step);
  }
}

// Floats of scratch that mlp() takes.
SMF_INLINE long mlp_scratch(const Mlp& mlp, int tokens) {
  return long(tokens) * (mlp.first.outputs < kHiddenSlice ? mlp.first.outputs : kHiddenSlice);
}

// out = y + mlp(y), both (tokens, channels) without gaps; `hidden` is scratch.
SMF_INLINE void mlp_residual(const Mlp& mlp, int tokens, int channels, const float* y, float* hidden, float* out) {
  const int width = mlp.first.outputs;
  for (int begin = 0; begin < width; begin += kHiddenSlice) {
    const int slice = width - begin < kHiddenSlice ? width - begin : kHiddenSlice;
    const Matrix first{mlp.first.inputs, slice, mlp.first.packed + long(begin) * mlp.first.inputs,
                       mlp.first.bias + begin};
    matmul<Finish::relu>(tokens, y, channels, first, nullptr, 0, hidden, slice);
    if (begin == 0)
      matmul_part<Finish::plain>(tokens, hidden, slice, mlp.second, 0, slice, mlp.second.bias, 0, y, channels, out,
                                 channels);
    else
      matmul_part<Finish::plain>(tokens, hidden, slice, mlp.second, begin, slice, out, channels, nullptr, 0, out,
                                 channels);
  }
}

// Moments of `count` floats, a multiple of 8, in two passes: exact even where the mean is far larger than the spread.
// `count` is a few thousand at most, so sums in float lose nothing that matters; parts are combined in double.
SMF_INLINE Moments moments_of(const float* x, long count) {
  Vec<8> sums[4] = {};
  long i = 0;
  for (; i + 32 <= count; i += 32)
    for (int v = 0; v < 4; ++v) sums[v] += load<8>(x + i + 8 * v);
  for (; i < count; i += 8) sums[0] += load<8>(x + i);
  const float mean = sum<8>((sums[0] + sums[1]) + (sums[2] + sums[3])) / float(count);
  Vec<8> squares[4] = {}, rest[4] = {};
  for (i = 0; i + 32 <= count; i += 32)
    for (int v = 0; v < 4; ++v) {
      const Vec<8> d = load<8>(x + i + 8 * v) - mean;
      rest[v] += d;
      squares[v] += d * d;
    }
  for (; i < count; i += 8) {
    const Vec<8> d = load<8>(x + i) - mean;
    rest[0] += d;
    squares[0] += d * d;
  }
  // The rounded mean is off by `rest` / count; correct both numbers for it.
  const double off = double(sum<8>((rest[0] + rest[1]) + (rest[2] + rest[3]))) / double(count);
  const double total = sum<8>((squares[0] + squares[1]) + (squares[2] + squares[3]));
  return Moments{double(count), double(mean) + off, total - double(count) * off * off};
}

}  // namespace SMF_ISA
}  // namespace smf
