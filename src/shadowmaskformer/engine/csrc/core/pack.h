// From weights as PyTorch lays them out to blocks as the kernels read them.
//
// Constants are multiplied into the weights here, once, instead of into every token:
//   - the norm's weight and bias into Q, K and V: they then read n = (x - mean) / std;
//   - 1 / sqrt(depth of a head) into Q;
//   - log2(e) into Q and the position bias, so that the softmax is taken in powers of two.
#pragma once

#include "core/blocks.h"

namespace smf {

constexpr float kLog2E = 1.44269504f;
// What Q is multiplied by.
float query_scale(int channels, int heads);

// The bias of every (key, query) pair from the bias of every offset: table ((2 window - 1)**2, heads), offsets query
// minus key, row by row; out (heads, window**2, padded_tokens(window)), multiplied by log2(e).
void expand_position_bias(const float* table, int heads, int window, float* out);
// The gradient of the table from that of the pairs: adds to `dtable`.
void collect_position_bias(const float* dpairs, int heads, int window, float* dtable);

class Packer {
 public:
  // Takes memory from `arena`. The ..._bytes() functions say how much.
  Packer(Arena& arena, PackFunction pack);

  static std::size_t vector_bytes(int count);
  const float* vector(const float* values, int count);

  static std::size_t matrix_bytes(int outputs, int inputs);
  // Outputs are padded to a multiple of 8 with zeros.
  Matrix matrix(const float* weight, const float* bias, int outputs, int inputs);
  // A convolution's weight, (outputs, inputs, side, side), to a matrix whose inputs are ordered (row, column, channel).
  // Tokens may be longer than their channels: they have `stored` floats, of which the last ones count for nothing.
  Matrix convolution(const float* weight, const float* bias, int outputs, int inputs, int side, int stored);
  // The weight transposed, without a bias: inputs become outputs.
  Matrix transposed(const float* weight, int outputs, int inputs);

  // A kernel of side x side. Channels are padded to a multiple of 8 with zeros.
  static std::size_t depthwise_bytes(int channels, int side = 5);
  Depthwise depthwise(const float* weight, const float* bias, int channels, int side = 5);

  static std::size_t conv_block_bytes(int channels, int hidden);
  ConvBlock conv_block(int channels, int hidden, const ConvBlockTensors<const float>& weights);
  // Of `shape.tokens` only the channels matter.
  static std::size_t attention_block_bytes(const AttentionShape& shape);
  AttentionBlock attention_block(const AttentionShape& shape, const AttentionBlockTensors<const float>& weights);

  // The blocks that gradients flow back through: every matrix transposed, the kernel of the convolution turned round,
  // no biases. They take as many bytes.
  ConvBlock transposed(int channels, int hidden, const ConvBlockTensors<const float>& weights);
  AttentionBlock transposed(const AttentionShape& shape, const AttentionBlockTensors<const float>& weights);

 private:
  Mlp mlp(int channels, int hidden, const MlpTensors<const float>& weights);
  Mlp transposed(int channels, int hidden, const MlpTensors<const float>& weights);
  Depthwise turned(const float* weight, int channels);

  Arena& arena_;
  PackFunction pack_;
};

}  // namespace smf
