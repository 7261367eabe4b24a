#include "core/pack.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace smf {
namespace {

constexpr int kTaps = 25;

int padded(int count) { return (count + 7) / 8 * 8; }

std::size_t mlp_bytes(int channels, int hidden) {
  return Packer::matrix_bytes(hidden, channels) + Packer::matrix_bytes(channels, hidden);
}

std::size_t position_size(const AttentionShape& shape) {
  return std::size_t(shape.heads) * shape.window * shape.window * padded_tokens(shape.window);
}

// Calls body(offset in the table, pair) for every pair of a key and a query.
template <class Body>
void for_position_pairs(int heads, int window, const Body& body) {
  const int reach = 2 * window - 1, padding = padded_tokens(window) - window * window;
  long pair = 0;
  for (int head = 0; head < heads; ++head)
    for (int key_row = 0; key_row < window; ++key_row)
      for (int key_column = 0; key_column < window; ++key_column, pair += padding)
        for (int row = window - 1 - key_row; row < 2 * window - 1 - key_row; ++row) {
          const long first = long(row * reach + window - 1 - key_column) * heads + head;
          for (int column = 0; column < window; ++column) body(first + long(column) * heads, pair++);
        }
}

// Q, K and V with the constants multiplied in.
struct Folded {
  std::vector<float> weight, bias;  // (3 channels, channels), (3 channels)
};

Folded fold(const AttentionShape& shape, const AttentionBlockTensors<const float>& w) {
  const int C = shape.tokens.channels;
  Folded folded{std::vector<float>(3L * C * C), std::vector<float>(3L * C)};
  for (int j = 0; j < 3 * C; ++j) {
    const float scale = j < C ? query_scale(C, shape.heads) : 1.0f;
    const float* row = w.qkv_w + long(j) * C;
    float sums[8] = {};  // side by side, so that they are vectors
    for (int c = 0; c < C; c += 8)
      for (int i = 0; i < 8; ++i) {
        sums[i] += row[c + i] * w.norm_b[c + i];
        folded.weight[long(j) * C + c + i] = row[c + i] * w.norm_w[c + i] * scale;
      }
    double total = w.qkv_b[j];
    for (float sum : sums) total += sum;
    folded.bias[j] = float(scale * total);
  }
  return folded;
}

}  // namespace

float query_scale(int channels, int heads) { return float(kLog2E / std::sqrt(double(channels / heads))); }

void expand_position_bias(const float* table, int heads, int window, float* out) {
  std::fill_n(out, std::size_t(heads) * window * window * padded_tokens(window), 0.0f);
  for_position_pairs(heads, window, [&](long offset, long pair) { out[pair] = kLog2E * table[offset]; });
}

void collect_position_bias(const float* dpairs, int heads, int window, float* dtable) {
  for_position_pairs(heads, window, [&](long offset, long pair) { dtable[offset] += kLog2E * dpairs[pair]; });
}

Packer::Packer(Arena& arena, PackFunction pack) : arena_(arena), pack_(pack) {}

std::size_t Packer::vector_bytes(int count) { return Arena::bytes(padded(count)); }

const float* Packer::vector(const float* values, int count) {
  float* to = arena_.floats(padded(count));
  std::copy_n(values, count, to);
  std::fill(to + count, to + padded(count), 0.0f);
  return to;
}

std::size_t Packer::matrix_bytes(int outputs, int inputs) {
  return Arena::bytes(packed_size(outputs, inputs)) + vector_bytes(outputs);
}

Matrix Packer::matrix(const float* weight, const float* bias, int outputs, int inputs) {
  float* to = arena_.floats(packed_size(outputs, inputs));
  pack_(weight, outputs, inputs, inputs, 1, to);
  return {inputs, padded(outputs), to, vector(bias, outputs)};
}

Matrix Packer::convolution(const float* weight, const float* bias, int outputs, int inputs, int side, int stored) {
  const std::size_t taps = std::size_t(side) * side;
  std::vector<float> ordered(outputs * taps * stored);
  for (std::size_t n = 0; n < std::size_t(outputs); ++n)
    for (int c = 0; c < inputs; ++c)
      for (std::size_t tap = 0; tap < taps; ++tap)
        ordered[(n * taps + tap) * stored + c] = weight[(n * inputs + c) * taps + tap];
  return matrix(ordered.data(), bias, outputs, int(taps * stored));
}

Matrix Packer::transposed(const float* weight, int outputs, int inputs) {
  float* to = arena_.floats(packed_size(inputs, outputs));
  pack_(weight, inputs, outputs, 1, inputs, to);
  return {outputs, padded(inputs), to, nullptr};
}

std::size_t Packer::depthwise_bytes(int channels, int side) {
  return Arena::bytes(std::size_t(side) * side * padded(channels)) + vector_bytes(channels);
}

Depthwise Packer::depthwise(const float* weight, const float* bias, int channels, int side) {
  const int count = side * side, stored = padded(channels);
  float* taps = arena_.floats(std::size_t(count) * stored);
  for (int tap = 0; tap < count; ++tap)
    for (int c = 0; c < stored; ++c) taps[tap * stored + c] = c < channels ? weight[c * count + tap] : 0.0f;
  return {taps, vector(bias, channels)};
}

Depthwise Packer::turned(const float* weight, int channels) {
  float* taps = arena_.floats(std::size_t(kTaps) * channels);
  for (int tap = 0; tap < kTaps; ++tap)
    for (int c = 0; c < channels; ++c) taps[tap * channels + c] = weight[c * kTaps + kTaps - 1 - tap];
  return {taps, nullptr};
}

Mlp Packer::mlp(int channels, int hidden, const MlpTensors<const float>& w) {
  return {matrix(w.mlp0_w, w.mlp0_b, hidden, channels), matrix(w.mlp2_w, w.mlp2_b, channels, hidden)};
}

Mlp Packer::transposed(int channels, int hidden, const MlpTensors<const float>& w) {
  return {transposed(w.mlp0_w, hidden, channels), transposed(w.mlp2_w, channels, hidden)};
}

std::size_t Packer::conv_block_bytes(int channels, int hidden) {
  return 2 * matrix_bytes(channels, channels) + depthwise_bytes(channels) + mlp_bytes(channels, hidden);
}

ConvBlock Packer::conv_block(int channels, int hidden, const ConvBlockTensors<const float>& w) {
  return {channels, matrix(w.v_w, w.v_b, channels, channels), depthwise(w.conv_w, w.conv_b, channels),
          matrix(w.proj_w, w.proj_b, channels, channels), mlp(channels, hidden, w.mlp)};
}

ConvBlock Packer::transposed(int channels, int hidden, const ConvBlockTensors<const float>& w) {
  return {channels, transposed(w.v_w, channels, channels), turned(w.conv_w, channels),
          transposed(w.proj_w, channels, channels), transposed(channels, hidden, w.mlp)};
}

std::size_t Packer::attention_block_bytes(const AttentionShape& shape) {
  const int C = shape.tokens.channels;
  return matrix_bytes(2 * C, C) + 2 * matrix_bytes(C, C) + mlp_bytes(C, shape.hidden) + depthwise_bytes(C) +
         Arena::bytes(position_size(shape)) + 4 * vector_bytes(C);
}

AttentionBlock Packer::attention_block(const AttentionShape& shape, const AttentionBlockTensors<const float>& w) {
  const int C = shape.tokens.channels;
  const long square = long(C) * C;
  const Folded qkv = fold(shape, w);
  AttentionBlock block{};
  block.channels = C;
  block.heads = shape.heads;
  block.window = shape.window;
  block.shift = shape.shift;
  block.qk = matrix(qkv.weight.data(), qkv.bias.data(), 2 * C, C);
  block.v = matrix(qkv.weight.data() + 2 * square, qkv.bias.data() + 2 * C, C, C);
  float* bias = arena_.floats(position_size(shape));
  expand_position_bias(w.bias_table, shape.heads, shape.window, bias);
  block.bias = bias;
  block.convolves = w.conv_w != nullptr;
  if (block.convolves) block.conv = depthwise(w.conv_w, w.conv_b, C);
  block.proj = matrix(w.proj_w, w.proj_b, C, C);
  block.mlp = mlp(C, shape.hidden, w.mlp);
  block.meta1_weight = vector(w.meta1_w, C);
  block.meta1_bias = vector(w.meta1_b, C);
  block.meta2_weight = vector(w.meta2_w, C);
  block.meta2_bias = vector(w.meta2_b, C);
  return block;
}

AttentionBlock Packer::transposed(const AttentionShape& shape, const AttentionBlockTensors<const float>& w) {
  const int C = shape.tokens.channels;
  const long square = long(C) * C;
  const Folded qkv = fold(shape, w);
  AttentionBlock block{};
  block.channels = C;
  block.qk = transposed(qkv.weight.data(), 2 * C, C);
  block.v = transposed(qkv.weight.data() + 2 * square, C, C);
  block.convolves = w.conv_w != nullptr;
  if (block.convolves) block.conv = turned(w.conv_w, C);
  block.proj = transposed(w.proj_w, C, C);
  block.mlp = transposed(C, shape.hidden, w.mlp);
  return block;
}

}  // namespace smf
