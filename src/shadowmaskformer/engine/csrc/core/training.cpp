#include "core/training.h"

#include "core/blocks.h"
#include "core/pack.h"
#include "core/threads.h"

namespace smf {

// Forward is the network's own forward pass of a block: pack the weights, then picture by picture.

void conv_block_forward(const TokenShape& shape, int hidden, const float* x,
                        const ConvBlockTensors<const float>& weights, float* y) {
  const BlockKernels& kernels = SMF_SELECT(block_kernels);
  const int height = shape.height, width = shape.width, threads = num_threads();
  ArenaLease packed(shared_arenas(), Packer::conv_block_bytes(shape.channels, hidden));
  const ConvBlock block = Packer(packed.arena(), kernels.pack).conv_block(shape.channels, hidden, weights);
  ArenaLease scratch(shared_arenas(), kernels.conv_block_scratch(block, height, width, threads));
  const std::size_t picture = std::size_t(height) * width * shape.channels;
  for (int i = 0; i < shape.batch; ++i)
    kernels.conv_block(block, height, width, x + i * picture, y + i * picture, nullptr, scratch.arena(), threads);
}

void attention_block_forward(const AttentionShape& shape, const float* x,
                             const AttentionBlockTensors<const float>& weights, float* y) {
  const BlockKernels& kernels = SMF_SELECT(block_kernels);
  const int height = shape.tokens.height, width = shape.tokens.width, threads = num_threads();
  ArenaLease packed(shared_arenas(), Packer::attention_block_bytes(shape));
  const AttentionBlock block = Packer(packed.arena(), kernels.pack).attention_block(shape, weights);
  ArenaLease scratch(shared_arenas(), kernels.attention_block_scratch(block, height, width, threads));
  const std::size_t picture = std::size_t(height) * width * shape.tokens.channels;
  for (int i = 0; i < shape.tokens.batch; ++i)
    kernels.attention_block(block, height, width, x + i * picture, kernels.moments(x + i * picture, picture, threads),
                            y + i * picture, nullptr, scratch.arena(), threads);
}

void conv_block_backward(const TokenShape& shape, int hidden, const float* x, const float* dy,
                         const ConvBlockTensors<const float>& weights, float* dx,
                         const ConvBlockTensors<float>& gradients) {
  SMF_SELECT(block_kernels).conv_block_backward(shape, hidden, x, dy, weights, dx, gradients);
}

void attention_block_backward(const AttentionShape& shape, const float* x, const float* dy,
                              const AttentionBlockTensors<const float>& weights, float* dx,
                              const AttentionBlockTensors<float>& gradients) {
  SMF_SELECT(block_kernels).attention_block_backward(shape, x, dy, weights, dx, gradients);
}

}  // namespace smf
