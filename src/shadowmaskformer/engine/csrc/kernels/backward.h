// What the backward passes of both blocks share: gradients of a layer and of the MLP, and their sums over the parts of
// a picture.
//
// Work is split into as many parts as there are threads, by token count alone; every part adds its weight gradients
// into arrays of its own, and the arrays are summed in order. So a gradient depends on the number of threads, to the
// last bit, but never on which thread was faster.
#pragma once

#include "core/pack.h"
#include "core/threads.h"
#include "kernels/depthwise.h"
#include "kernels/pieces.h"

namespace smf {
namespace SMF_ISA {

constexpr int kTaps = 25;

// dw (outputs, inputs) += dy^T x over `tokens`.
SMF_INLINE void add_weight_gradient(int outputs, int inputs, int tokens, const float* dy, long dy_row, const float* x,
                                    long x_row, float* dw) {
  gemm<Finish::plain, true>(outputs, inputs, tokens, dy, dy_row, plain(x, x_row), {nullptr, dw, inputs}, dw, inputs);
}

// sums (columns) += the sum of `tokens` rows.
SMF_INLINE void add_column_sums(int columns, int tokens, const float* x, long x_row, float* sums) {
  for_lanes(columns, [&](int c, auto shape) {
    constexpr int L = shape.lanes;
    Vec<L> even = load<L>(sums + c), odd{};
    int t = 0;
    for (; t + 2 <= tokens; t += 2) {
      even += load<L>(x + t * x_row + c);
      odd += load<L>(x + (t + 1) * x_row + c);
    }
    if (t < tokens) even += load<L>(x + t * x_row + c);
    store<L>(sums + c, even + odd);
  });
}

// The MLP's gradients need all hidden channels of a tile at once, unlike mlp_residual().
//
// Rows of hidden activations lie this far apart: 384 floats would fall on few sets of the first-level cache.
SMF_INLINE long hidden_row(int hidden) { return hidden + 16; }
// Most tokens of a tile: its hidden activations take about 96 KB, so that they and their gradient stay in the
// second-level cache.
SMF_INLINE int most_tokens(int hidden) { return larger(16, 24576 / hidden / 4 * 4); }
SMF_INLINE std::size_t hidden_floats(int hidden) { return most_tokens(hidden) * hidden_row(hidden); }

// dy1 = dy + ((dy W2) where h > 0) W0 with h = relu(y1 W0^T + b0), all (tokens, channels) without gaps. `h` and `dh` are
// scratch of hidden_floats(); weight gradients are added unless `gradients` is null.
SMF_INLINE void mlp_backward(const Mlp& mlp, const Mlp& transposed, int tokens, const float* y1, const float* dy, float* h,
                             float* dh, float* dy1, const MlpTensors<float>* gradients) {
  const int channels = mlp.first.inputs, hidden = mlp.first.outputs;
  const long h_row = hidden_row(hidden);
  // Tiles of about equal size.
  const int tiles = (tokens + most_tokens(hidden) - 1) / most_tokens(hidden);
  const int step = ((tokens + tiles - 1) / tiles + 3) / 4 * 4;
  for (int first = 0; first < tokens; first += step) {
    const int count = smaller(step, tokens - first);
    const long at = long(first) * channels;
    linear<Finish::relu>(count, y1 + at, channels, mlp.first, h, h_row);
    gemm<Finish::gate>(count, hidden, channels, dy + at, channels, packed(transposed.second),
                       {nullptr, nullptr, 0, h, h_row}, dh, h_row);
    linear(count, dh, h_row, transposed.first, dy1 + at, channels, dy + at, channels);
    if (!gradients) continue;
    add_weight_gradient(channels, hidden, count, dy + at, channels, h, h_row, gradients->mlp2_w);
    add_column_sums(channels, count, dy + at, channels, gradients->mlp2_b);
    add_weight_gradient(hidden, channels, count, dh, h_row, y1 + at, channels, gradients->mlp0_w);
    add_column_sums(hidden, count, dh, h_row, gradients->mlp0_b);
  }
}

// Gradients of taps, (25, channels), to those of the weight, (channels, 1, 5, 5).
SMF_INLINE void unpack_taps(const float* taps, int channels, float* weight) {
  for (int tap = 0; tap < kTaps; ++tap)
    for (int c = 0; c < channels; ++c) weight[c * kTaps + tap] = taps[tap * channels + c];
}

SMF_INLINE MlpTensors<float> take_mlp(Slices& slices, int channels, int hidden) {
  MlpTensors<float> mlp;
  mlp.mlp0_w = slices.take(long(hidden) * channels);
  mlp.mlp0_b = slices.take(hidden);
  mlp.mlp2_w = slices.take(long(hidden) * channels);
  mlp.mlp2_b = slices.take(channels);
  return mlp;
}

// out (count) = the sum of `parts` arrays that lie `stride` floats apart, in order; `out` may be the first.
SMF_INLINE void sum_parts(const float* first, long stride, int parts, long count, float* out) {
  if (out != first) copy(out, first, count);
  for (int part = 1; part < parts; ++part)
    for (long i = 0; i < count; ++i) out[i] += first[part * stride + i];
}

SMF_INLINE void sum_mlp(const MlpTensors<float>& first, long stride, int parts, int channels, int hidden,
                        const MlpTensors<float>& out) {
  sum_parts(first.mlp0_w, stride, parts, long(hidden) * channels, out.mlp0_w);
  sum_parts(first.mlp0_b, stride, parts, hidden, out.mlp0_b);
  sum_parts(first.mlp2_w, stride, parts, long(hidden) * channels, out.mlp2_w);
  sum_parts(first.mlp2_b, stride, parts, channels, out.mlp2_b);
}

// Calls body(sample, first row, last row + 1) for the rows of part `part` of `parts`, sample by sample.
template <class Body>
SMF_INLINE void for_rows_of_part(const TokenShape& shape, int part, int parts, const Body& body) {
  const long total = long(shape.batch) * shape.height;
  long row = total * part / parts;
  const long end = total * (part + 1) / parts;
  while (row < end) {
    const int sample = int(row / shape.height), first = int(row % shape.height);
    const int last = int(smaller<long>(shape.height, first + (end - row)));
    body(sample, first, last);
    row += last - first;
  }
}

}  // namespace SMF_ISA
}  // namespace smf
