// What the two blocks share in training: the MLP on a tile of tokens, the depthwise convolution on a row, and the sums
// of weight gradients over the parts of a picture.
//
// Work is split into as many parts as there are threads, by token count alone; every part adds its weight gradients
// into arrays of its own, and the arrays are summed in order. So a gradient depends on the number of threads, to the
// last bit, but never on which thread was faster.
#pragma once

#include <algorithm>
#include <cstring>

#include "core/arena.h"
#include "core/threads.h"
#include "core/training.h"
#include "kernels/training_gemm.h"

namespace smf {
namespace SMF_ISA {

constexpr int kTaps = 25;

// Scratch rows of `hidden` floats lie this far apart: 384 floats would fall on few sets of the first-level cache.
SMF_INLINE long padded_row(int width) { return width + kLanes; }

// Most tokens of a tile: its hidden activations take about 96 KB, so that they and their gradient stay in the
// second-level cache.
SMF_INLINE int tile_tokens(int hidden) { return std::max(16, 24576 / hidden / 4 * 4); }
// Tokens of each tile when `tokens` are cut into tiles of about equal size.
SMF_INLINE int even_tile(int tokens, int hidden) {
  const int most = tile_tokens(hidden), tiles = (tokens + most - 1) / most;
  return ((tokens + tiles - 1) / tiles + 3) / 4 * 4;
}

struct PackedLinear {
  float* forward;   // B of Y = X·Wᵀ
  float* backward;  // B of dX = dY·W
  int out, in;

  static std::size_t bytes(int out, int in) { return 2 * Arena::bytes(std::size_t(out) * in); }
  void pack(Arena& arena, const float* weight, int out_width, int in_width) {
    out = out_width;
    in = in_width;
    forward = arena.floats(std::size_t(out) * in);
    backward = arena.floats(std::size_t(out) * in);
    pack_transposed(weight, out, in, forward);
    pack_plain(weight, out, in, backward);
  }
};

struct PackedMlp {
  PackedLinear first, second;
  const float *bias0, *bias2;
  int channels, hidden;

  static std::size_t bytes(int channels, int hidden) { return 2 * PackedLinear::bytes(hidden, channels); }
  void pack(Arena& arena, const MlpTensors<const float>& weights, int channel_count, int hidden_width) {
    channels = channel_count;
    hidden = hidden_width;
    first.pack(arena, weights.mlp0_w, hidden, channels);
    second.pack(arena, weights.mlp2_w, channels, hidden);
    bias0 = weights.mlp0_b;
    bias2 = weights.mlp2_b;
  }
};

// h = relu(y1·W0ᵀ + b0), rows padded_row(hidden) apart.
SMF_INLINE void mlp_hidden(const PackedMlp& mlp, int tokens, const float* y1, long y1_row, float* h) {
  Terms terms{};
  terms.bias = mlp.bias0;
  gemm<false, After::relu>(tokens, mlp.hidden, mlp.channels, y1, y1_row, packed(mlp.first.forward, mlp.channels), h,
                           padded_row(mlp.hidden), terms);
}

// y = y1 + h·W2ᵀ + b2. `h` is scratch, (tokens, padded_row(hidden)).
SMF_INLINE void mlp_forward(const PackedMlp& mlp, int tokens, const float* y1, long y1_row, float* h, float* y,
                            long y_row) {
  mlp_hidden(mlp, tokens, y1, y1_row, h);
  Terms terms{};
  terms.init = y1;
  terms.init_row = y1_row;
  terms.bias = mlp.bias2;
  gemm(tokens, mlp.channels, mlp.hidden, h, padded_row(mlp.hidden), packed(mlp.second.forward, mlp.hidden), y, y_row,
       terms);
}

// dy1 = dy + ((dy·W2) where h > 0)·W0. `h` and `dh` are scratch; weight gradients are added unless `gradients` is null.
SMF_INLINE void mlp_backward(const PackedMlp& mlp, int tokens, const float* y1, long y1_row, const float* dy,
                             long dy_row, float* h, float* dh, float* dy1, long dy1_row,
                             const MlpTensors<float>* gradients) {
  const int channels = mlp.channels, hidden = mlp.hidden;
  const long h_row = padded_row(hidden);
  mlp_hidden(mlp, tokens, y1, y1_row, h);
  Terms gate{};
  gate.gate = h;
  gate.gate_row = h_row;
  gemm<false, After::gate>(tokens, hidden, channels, dy, dy_row, packed(mlp.second.backward, channels), dh, h_row,
                           gate);
  Terms residual{};
  residual.init = dy;
  residual.init_row = dy_row;
  gemm(tokens, channels, hidden, dh, h_row, packed(mlp.first.backward, hidden), dy1, dy1_row, residual);
  if (!gradients) return;
  add_weight_gradient(channels, hidden, tokens, dy, dy_row, h, h_row, gradients->mlp2_w);
  add_column_sums(channels, tokens, dy, dy_row, gradients->mlp2_b);
  add_weight_gradient(hidden, channels, tokens, dh, h_row, y1, y1_row, gradients->mlp0_w);
  add_column_sums(hidden, tokens, dh, h_row, gradients->mlp0_b);
}

// Depthwise weights (channels, 5, 5) as (25, channels); `flipped` for the gradient with respect to the input.
SMF_INLINE void pack_taps(const float* weight, int channels, bool flipped, float* taps) {
  for (int tap = 0; tap < kTaps; ++tap)
    for (int c = 0; c < channels; ++c) taps[tap * channels + c] = weight[c * kTaps + (flipped ? kTaps - 1 - tap : tap)];
}
// And back: (25, channels) to (channels, 5, 5).
SMF_INLINE void unpack_taps(const float* taps, int channels, float* weight) {
  for (int tap = 0; tap < kTaps; ++tap)
    for (int c = 0; c < channels; ++c) weight[c * kTaps + tap] = taps[tap * channels + c];
}

// kPixels neighbours of one vector of channels: each input is loaded once per kernel row and used up to five times.
template <int kPixels>
SMF_INLINE void convolve_pixels(const float* const rows[5], const float* taps, int channels, Lane8 start, long at,
                                float* out, long out_pixel) {
  Lane8 sum[kPixels];
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) sum[p] = start;
#pragma GCC unroll 1
  for (int ky = 0; ky < 5; ++ky) {
    Lane8 tap[5];
#pragma GCC unroll 8
    for (int kx = 0; kx < 5; ++kx) tap[kx] = load<kLanes>(taps + (ky * 5 + kx) * channels);
    const float* in = rows[ky] + at;
#pragma GCC unroll 16
    for (int i = 0; i < kPixels + 4; ++i) {
      const Lane8 value = load<kLanes>(in + i * channels);
#pragma GCC unroll 8
      for (int kx = 0; kx < 5; ++kx)
        if (i - kx >= 0 && i - kx < kPixels) sum[i - kx] += tap[kx] * value;
    }
  }
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) store<kLanes>(out + p * out_pixel, sum[p]);
}

// One row of the 5×5 depthwise convolution. `rows` are the five input rows, each beginning two pixels left of the
// output; `bias` may be null.
SMF_INLINE void convolve_row(const float* const rows[5], const float* taps, const float* bias, int channels, int width,
                             float* out, long out_pixel) {
  for (int c = 0; c < channels; c += kLanes) {
    const Lane8 start = bias ? load<kLanes>(bias + c) : Lane8{};
    int p = 0;
    for (; p + 8 <= width; p += 8)
      convolve_pixels<8>(rows, taps + c, channels, start, long(p) * channels + c, out + p * out_pixel + c, out_pixel);
    for (; p + 2 <= width; p += 2)
      convolve_pixels<2>(rows, taps + c, channels, start, long(p) * channels + c, out + p * out_pixel + c, out_pixel);
    if (p < width)
      convolve_pixels<1>(rows, taps + c, channels, start, long(p) * channels + c, out + p * out_pixel + c, out_pixel);
  }
}

// dtaps (25, channels) += du[p]·v[p + offset] over a row of `width` pixels; `rows` are the five rows of v as above.
template <int kKernelRows>
SMF_INLINE void add_tap_gradient_rows(const float* const* rows, const float* du, long du_pixel, int channels, int width,
                                      float* dtaps) {
  Lane8 sum[kKernelRows][5];
#pragma GCC unroll 8
  for (int ky = 0; ky < kKernelRows; ++ky)
#pragma GCC unroll 8
    for (int kx = 0; kx < 5; ++kx) sum[ky][kx] = load<kLanes>(dtaps + (ky * 5 + kx) * channels);
  int p = 0;
  for (; p + 4 <= width; p += 4) {
    Lane8 g[4];
#pragma GCC unroll 8
    for (int i = 0; i < 4; ++i) g[i] = load<kLanes>(du + (p + i) * du_pixel);
#pragma GCC unroll 8
    for (int ky = 0; ky < kKernelRows; ++ky)
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        const Lane8 value = load<kLanes>(rows[ky] + long(p + i) * channels);
#pragma GCC unroll 8
        for (int kx = 0; kx < 5; ++kx)
          if (i - kx >= 0 && i - kx < 4) sum[ky][kx] += g[i - kx] * value;
      }
  }
  for (; p < width; ++p) {
    const Lane8 g = load<kLanes>(du + p * du_pixel);
#pragma GCC unroll 8
    for (int ky = 0; ky < kKernelRows; ++ky)
#pragma GCC unroll 8
      for (int kx = 0; kx < 5; ++kx) sum[ky][kx] += g * load<kLanes>(rows[ky] + long(p + kx) * channels);
  }
#pragma GCC unroll 8
  for (int ky = 0; ky < kKernelRows; ++ky)
#pragma GCC unroll 8
    for (int kx = 0; kx < 5; ++kx) store<kLanes>(dtaps + (ky * 5 + kx) * channels, sum[ky][kx]);
}

SMF_INLINE void add_tap_gradient(const float* const rows[5], const float* du, long du_pixel, int channels, int width,
                                 float* dtaps) {
  for (int c = 0; c < channels; c += kLanes) {
    const float* at[5] = {rows[0] + c, rows[1] + c, rows[2] + c, rows[3] + c, rows[4] + c};
    add_tap_gradient_rows<2>(at, du + c, du_pixel, channels, width, dtaps + c);
    add_tap_gradient_rows<2>(at + 2, du + c, du_pixel, channels, width, dtaps + 10 * channels + c);
    add_tap_gradient_rows<1>(at + 4, du + c, du_pixel, channels, width, dtaps + 20 * channels + c);
  }
}

// Hands out consecutive arrays of one block, each on a cache line; with a null block it only counts.
class Slices {
 public:
  explicit Slices(float* block) : block_(block), used_(0) {}
  float* take(long count) {
    float* slice = block_ ? block_ + used_ : nullptr;
    used_ += (count + 15) / 16 * 16;
    return slice;
  }
  long used() const { return used_; }

 private:
  float* block_;
  long used_;
};

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
  if (out != first) std::memcpy(out, first, count * sizeof(float));
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
    const int last = int(std::min<long>(shape.height, first + (end - row)));
    body(sample, first, last);
    row += last - first;
  }
}

}  // namespace SMF_ISA
}  // namespace smf
