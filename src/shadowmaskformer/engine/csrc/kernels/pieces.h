// Pieces that both blocks share, on tokens that are in cache already: MLP, layer norm, moments.
#pragma once

#include "kernels/gemm.h"
#include "kernels/scratch.h"

namespace smf {
namespace SMF_ISA {

// Hidden channels that an MLP handles at a time: the slice of hidden tokens stays in the first-level cache, and so does
// each panel of both weights. A multiple of every panel width.
constexpr int kHiddenSlice = 96;

// Floats of scratch that mlp_residual() takes.
SMF_INLINE std::size_t mlp_scratch(const Mlp& mlp, int tokens) {
  return std::size_t(tokens) * smaller(mlp.first.outputs, kHiddenSlice);
}

// out = y + mlp(y), both (tokens, channels) without gaps; `hidden` is scratch.
SMF_INLINE void mlp_residual(const Mlp& mlp, int tokens, const float* y, float* hidden, float* out) {
  const int width = mlp.first.outputs, channels = mlp.first.inputs;
  for (int begin = 0; begin < width; begin += kHiddenSlice) {
    const int slice = smaller(width - begin, kHiddenSlice);
    const Matrix first{channels, slice, mlp.first.packed + long(begin) * channels, mlp.first.bias + begin};
    linear<Finish::relu>(tokens, y, channels, first, hidden, slice);
    const Terms terms = begin == 0 ? Terms{mlp.second.bias, y, channels} : Terms{nullptr, out, channels};
    gemm<Finish::plain>(tokens, channels, slice, hidden, slice, packed(mlp.second, begin), terms, out, channels);
  }
}

// normed = (x - mean) / std, `count` floats. The norm's weight and bias are part of the layer that follows (see Packer).
SMF_INLINE void normalise(const Norm& norm, long count, const float* x, float* normed) {
  const float scale = 1.0f / norm.std;
  for (long i = 0; i < count; i += 8) store<8>(normed + i, (load<8>(x + i) - norm.mean) * scale);
}

// y = x + rescale * o + rebias, (tokens, channels) without gaps; y may be o.
SMF_INLINE void add_rescaled(const Norm& norm, int tokens, int channels, const float* x, const float* o, float* y) {
  for (int t = 0; t < tokens; ++t, x += channels, o += channels, y += channels)
    for (int c = 0; c < channels; c += 8)
      store<8>(y + c,
               load<8>(x + c) + (load<8>(norm.rescale + c) * load<8>(o + c) + load<8>(norm.rebias + c)));
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

// Moments of a whole map (block_kernels.cpp).
Moments moments_of_map(const float* x, std::size_t count, int threads);

#if defined(SMF_ISA_scalar)
// The scalar blocks' product of one token with a weight, which their pack_weight() leaves as (outputs, inputs).
SMF_INLINE void scalar_linear(const Matrix& m, const float* x, float* out) {
  for (int n = 0; n < m.outputs; ++n) {
    float total = m.bias[n];
    for (int k = 0; k < m.inputs; ++k) total += m.packed[long(n) * m.inputs + k] * x[k];
    out[n] = total;
  }
}

// The scalar blocks' convolution: one channel at (row, column) of v (height, width, channels).
SMF_INLINE float scalar_depthwise(const Depthwise& conv, int height, int width, int channels, const float* v, int row,
                                  int column, int c) {
  float total = conv.bias[c];
  for (int dy = -2; dy <= 2; ++dy)
    for (int dx = -2; dx <= 2; ++dx)
      if (row + dy >= 0 && row + dy < height && column + dx >= 0 && column + dx < width)
        total += conv.weight[((dy + 2) * 5 + dx + 2) * channels + c] *
                 v[((long(row) + dy) * width + column + dx) * channels + c];
  return total;
}

// out = y + mlp(y) for one token; `hidden` is scratch.
SMF_INLINE void scalar_mlp_residual(const Mlp& mlp, const float* y, float* hidden, float* out) {
  scalar_linear(mlp.first, y, hidden);
  for (int h = 0; h < mlp.first.outputs; ++h) hidden[h] = hidden[h] > 0 ? hidden[h] : 0;
  scalar_linear(mlp.second, hidden, out);
  for (int c = 0; c < mlp.second.outputs; ++c) out[c] += y[c];
}
#endif

}  // namespace SMF_ISA
}  // namespace smf
