// The two kinds of block of the network, as the kernels see them: packed weights, and functions per instruction set.
//
// Token maps are (height, width, channels) float32, channels last and without gaps, one sample at a time. Output and
// input maps must not overlap. Channels are multiples of 8 (of 24 for full speed).
#pragma once

#include <cstddef>

#include "core/arena.h"
#include "core/isa.h"

namespace smf {

// A weight (outputs, inputs) packed by BlockKernels::pack, with its bias. `outputs` is a multiple of 8.
struct Matrix {
  int inputs;
  int outputs;
  const float* packed;
  const float* bias;
};

// Depthwise 5x5: weight is (25, channels), tap after tap; bias (channels).
struct Depthwise {
  const float* weight;
  const float* bias;
};

// x + W2 relu(W1 x + b1) + b2
struct Mlp {
  Matrix first;
  Matrix second;
};

// y = x + proj(dw(v(x))), then y + mlp(y)
struct ConvBlock {
  int channels;
  Matrix v;
  Depthwise conv;
  Matrix proj;
  Mlp mlp;
};

// y = x + rescale * proj(attention(n) [+ dw(v(n))]) + rebias with n = scale * x + shift per channel, then y + mlp(y).
struct AttentionBlock {
  int channels;
  int heads;
  int window;
  int shift;          // of the windows, towards the top left
  Matrix qk;          // rows Q then K; the Q rows (and their bias) multiplied by log2(e) / sqrt(channels / heads)
  Matrix v;
  const float* bias;  // (heads, key, query padded to a multiple of 8), see expand_position_bias
  bool convolves;
  Depthwise conv;
  Matrix proj;
  Mlp mlp;
  // Rescaled layer norm, (channels) each.
  const float* norm_weight;
  const float* norm_bias;
  const float* meta1_weight;
  const float* meta1_bias;
  const float* meta2_weight;
  const float* meta2_bias;
};

// Mean and sum of squared distances from it, over `count` numbers; combined in a fixed order whatever the threads.
struct Moments {
  double count;
  double mean;
  double squares;
};
constexpr double kNormEpsilon = 1e-5;

struct BlockKernels {
  // Packs (outputs, inputs), element (n, k) at weight[n * row + k * column], into packed_size() floats.
  void (*pack)(const float* weight, int outputs, int inputs, long row, long column, float* packed);

  // Bytes of arena that the function after it takes.
  std::size_t (*conv_block_scratch)(const ConvBlock&, int height, int width, int threads);
  // If `moments` is not null it receives those of `out`.
  void (*conv_block)(const ConvBlock&, int height, int width, const float* x, float* out, Moments* moments, Arena&,
                     int threads);

  std::size_t (*attention_block_scratch)(const AttentionBlock&, int height, int width, int threads);
  // `norm` are the moments of `x`; `moments`, if not null, receives those of `out`.
  void (*attention_block)(const AttentionBlock&, int height, int width, const float* x, const Moments& norm, float* out,
                          Moments* moments, Arena&, int threads);

  // Moments of a whole map of `count` floats, a multiple of 8.
  Moments (*moments)(const float* x, std::size_t count);
};

// What joins the stages. Sizes are of the input map.
struct LinkKernels {
  // 3x3 convolution, zeros outside (height, width), to (out_height, out_width), which may be larger or smaller. The
  // weight's inputs are ordered (row, column, channel). `outputs` of the weight's outputs are written per token.
  std::size_t (*conv3x3_scratch)(const Matrix&, int out_width, int threads);
  void (*conv3x3)(const Matrix&, int height, int width, int channels, const float* x, int out_height, int out_width,
                  int outputs, float* out, Arena&, int threads);
  // 2x2 convolution of stride 2, even sizes; inputs ordered (row, column, channel).
  void (*downsample)(const Matrix&, int height, int width, int channels, const float* x, float* out, int threads);
  // A token becomes 2x2: `rows` holds one weight per row of the square, outputs ordered (column, channel).
  void (*upsample)(const Matrix rows[2], int height, int width, int channels, const float* x, float* out, int threads);
  // Sum of each channel over all tokens.
  std::size_t (*channel_sums_scratch)(int channels);
  void (*channel_sums)(std::size_t tokens, int channels, const float* x, double* sums, Arena&, int threads);
  // x = gain_x * x + gain_skip * (skip(encoder)), gains per channel.
  std::size_t (*fuse_scratch)(int channels, int threads);
  void (*fuse)(const Matrix& skip, std::size_t tokens, const float* encoder, const float* gain_x,
               const float* gain_skip, float* x, Arena&, int threads);
};

constexpr std::size_t packed_size(int outputs, int inputs) { return std::size_t((outputs + 7) / 8 * 8) * inputs; }

// The bias of every (key, query) pair from the bias of every offset: table ((2 window - 1)**2, heads), offsets query
// minus key, row by row; out (heads, window**2, padded_tokens(window)), multiplied by log2(e): the softmax is taken in
// powers of two.
void expand_position_bias(const float* table, int heads, int window, float* out);
constexpr int padded_tokens(int window) { return (window * window + 7) / 8 * 8; }

constexpr double kLog2E = 1.4426950408889634;

// Adds the moments of a further part to `total`.
void combine(Moments& total, const Moments& part);

}  // namespace smf

SMF_DECLARE(BlockKernels, block_kernels)
SMF_DECLARE(LinkKernels, link_kernels)
