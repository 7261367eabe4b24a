// The two kinds of block of the network, as the kernels see them: packed weights, and functions per instruction set.
// pack.h makes them from the weights of tensors.h.
//
// Token maps are (height, width, channels) float32, channels last and without gaps, one sample at a time. Output and
// input maps must not overlap. Channels are multiples of 8 (of 24 for full speed).
#pragma once

#include <cstddef>

#include "core/arena.h"
#include "core/isa.h"
#include "core/tensors.h"

namespace smf {

using PackFunction = void (*)(const float* weight, int outputs, int inputs, long row, long column, float* packed);

// A weight (outputs, inputs) packed by a PackFunction, with its bias or null. `outputs` is a multiple of 8.
struct Matrix {
  int inputs;
  int outputs;
  const float* packed;
  const float* bias;
};

// Floats of a packed weight.
constexpr std::size_t packed_size(int outputs, int inputs) { return std::size_t((outputs + 7) / 8 * 8) * inputs; }
// Tokens of a window, rounded up to whole vectors.
constexpr int padded_tokens(int window) { return (window * window + 7) / 8 * 8; }

// Depthwise convolution, 5x5 in the blocks: weight is (taps, channels), tap after tap; bias (channels) or null.
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

// y = x + rescale * proj(attention(n) [+ dw(v(n))]) + rebias with n = (x - mean) / std over the whole map, rescale linear
// in std and rebias in mean (the rescaled layer norm); then y + mlp(y). The norm's weight and bias are part of qk and v.
struct AttentionBlock {
  int channels;
  int heads;
  int window;
  int shift;          // of the windows, towards the top left
  Matrix qk;          // rows Q then K; the Q rows (and their bias) multiplied by query_scale()
  Matrix v;
  const float* bias;  // (heads, key, padded_tokens()), see expand_position_bias
  bool convolves;
  Depthwise conv;
  Matrix proj;
  Mlp mlp;
  // Of rescale and rebias, (channels) each.
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
// Adds the moments of a further part to `total`.
void combine(Moments& total, const Moments& part);

// The layer norm of one map.
struct Norm {
  float mean, std;
  float *rescale, *rebias;  // (channels) each
};
// From the moments of the map; `rescale` and `rebias` are arrays to write to.
Norm make_norm(const AttentionBlock& block, const Moments& moments, float* rescale, float* rebias);

struct BlockKernels {
  // Packs (outputs, inputs), element (n, k) at weight[n * row + k * column], into packed_size() floats.
  PackFunction pack;

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
  Moments (*moments)(const float* x, std::size_t count, int threads);

  // See training.h.
  ConvBlockBackward conv_block_backward;
  AttentionBlockBackward attention_block_backward;
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

}  // namespace smf

SMF_DECLARE(BlockKernels, block_kernels)
SMF_DECLARE(LinkKernels, link_kernels)
