// The two blocks for training: forward, and backward that recomputes from the block's input.
//
// Tokens are (batch, height, width, channels), contiguous. Channels and hidden are multiples of 24. Gradients are
// written, not added to. All functions use num_threads() threads.
#pragma once

#include "core/tensors.h"

namespace smf {

void conv_block_forward(const TokenShape& shape, int hidden, const float* x,
                        const ConvBlockTensors<const float>& weights, float* y);
void conv_block_backward(const TokenShape& shape, int hidden, const float* x, const float* dy,
                         const ConvBlockTensors<const float>& weights, float* dx,
                         const ConvBlockTensors<float>& gradients);
void attention_block_forward(const AttentionShape& shape, const float* x,
                             const AttentionBlockTensors<const float>& weights, float* y);
void attention_block_backward(const AttentionShape& shape, const float* x, const float* dy,
                              const AttentionBlockTensors<const float>& weights, float* dx,
                              const AttentionBlockTensors<float>& gradients);

}  // namespace smf
