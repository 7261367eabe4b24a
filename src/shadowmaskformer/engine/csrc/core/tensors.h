// The weights of the two blocks as PyTorch lays them out: Linear (out, in), depthwise convolution (channels, 1, 5, 5).
// With T = float the same structs hold their gradients.
#pragma once

namespace smf {

struct TokenShape {
  int batch, height, width, channels;
};

// y + mlp2(relu(mlp0(y)))
template <class T>
struct MlpTensors {
  T *mlp0_w, *mlp0_b;  // (hidden, channels), (hidden)
  T *mlp2_w, *mlp2_b;  // (channels, hidden), (channels)
};

template <class T>
struct ConvBlockTensors {
  T *v_w, *v_b;        // (channels, channels), (channels)
  T *conv_w, *conv_b;  // (channels, 1, 5, 5), (channels)
  T *proj_w, *proj_b;  // (channels, channels), (channels)
  MlpTensors<T> mlp;
};

template <class T>
struct AttentionBlockTensors {
  T *norm_w, *norm_b;                        // (channels) each
  T *meta1_w, *meta1_b, *meta2_w, *meta2_b;  // (channels) each
  T *qkv_w, *qkv_b;                          // (3·channels, channels), (3·channels); rows ordered Q, K, V
  T *conv_w, *conv_b;                        // as above, or null: no convolution branch
  T* bias_table;                             // ((2·window − 1)², heads)
  T *proj_w, *proj_b;                        // (channels, channels), (channels)
  MlpTensors<T> mlp;
};

struct AttentionShape {
  TokenShape tokens;
  int hidden, heads, window, shift;
};

using ConvBlockBackward = void (*)(const TokenShape& shape, int hidden, const float* x, const float* dy,
                                   const ConvBlockTensors<const float>& weights, float* dx,
                                   const ConvBlockTensors<float>& gradients);
using AttentionBlockBackward = void (*)(const AttentionShape& shape, const float* x, const float* dy,
                                        const AttentionBlockTensors<const float>& weights, float* dx,
                                        const AttentionBlockTensors<float>& gradients);

}  // namespace smf
