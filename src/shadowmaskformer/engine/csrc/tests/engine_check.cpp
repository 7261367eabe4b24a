// Runs the engine without Python, to be built under a sanitizer:
//
//     cmake -S src/shadowmaskformer/engine -B build/address -DSMF_PYTHON=OFF -DSMF_SANITIZE=address
//     cmake --build build/address && build/address/engine_check
//
// A small network with every kind of block, at sizes that leave something over everywhere, from several threads at
// once; every result is compared bit by bit with that of one thread alone. The same for a list of steps with every kind
// of step, and of operation that several steps become. Then a training step of each kind of block, whose sums over
// threads may differ in the last digits. Prints "ok" and returns 0 if nothing was found.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <thread>

#include "core/isa.h"
#include "core/network.h"
#include "core/step_network.h"
#include "core/threads.h"
#include "core/training.h"

namespace {

// Random parameters, whatever the network asks for.
class RandomParameters {
 public:
  const float* operator()(const smf::Shape& shape) {
    std::size_t count = 1;
    for (std::size_t side : shape) count *= side;
    memory_.push_back(std::make_unique<float[]>(count));  // one block each, so that reading past any of them is seen
    std::normal_distribution<float> normal(0.0f, 0.08f);
    for (std::size_t i = 0; i < count; ++i) memory_.back()[i] = normal(random_);
    return memory_.back().get();
  }

 private:
  std::vector<std::unique_ptr<float[]>> memory_;
  std::mt19937 random_{1};
};

// A picture in a block of its own size.
std::unique_ptr<float[]> picture(int height, int width, int channels) {
  const std::size_t count = std::size_t(height) * width * channels;
  auto pixels = std::make_unique<float[]>(count);
  std::mt19937 random(height * 100 + width);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  for (std::size_t i = 0; i < count; ++i) pixels[i] = uniform(random);
  return pixels;
}

// `count`: floats of the result.
template <class AnyNetwork>
bool same_from_all_threads(const AnyNetwork& network, int height, int width, std::size_t count) {
  const auto pixels = picture(height, width, network.channels());
  const auto alone = std::make_unique<float[]>(count);
  network.forward(1, height, width, pixels.get(), alone.get(), 1);
  bool same[3];
  std::thread callers[3];
  for (int caller = 0; caller < 3; ++caller)
    callers[caller] = std::thread([&, caller] {
      const auto head = std::make_unique<float[]>(count);
      network.forward(1, height, width, pixels.get(), head.get(), caller + 1);
      same[caller] = std::equal(head.get(), head.get() + count, alone.get());
    });
  for (std::thread& caller : callers) caller.join();
  return same[0] && same[1] && same[2];
}

bool same_from_all_threads(const smf::Network& network, int height, int width) {
  return same_from_all_threads(network, height, width, std::size_t(height) * width * network.head_channels());
}

bool same_from_all_threads(const smf::StepNetwork& network, int height, int width) {
  const smf::StepNetwork::Size size = network.head_size(height, width);
  return same_from_all_threads(network, height, width, std::size_t(size.height) * size.width * network.head_channels());
}

// Inverted bottlenecks of every side and stride, and what joins them; maps of 40 and 20 channels, 1 channel out.
std::vector<smf::Step> steps_of_every_kind() {
  std::vector<smf::Step> steps;
  const auto add = [&](const smf::Step& step) {
    steps.push_back(step);
    return int(steps.size()) - 1;
  };
  int at = add({"conv", {smf::kSource}, 40, "stem", 3, 2, false, true});
  for (int side : {3, 5, 7})
    for (int stride : {1, 2}) {
      const std::string name = std::to_string(side) + std::to_string(stride);
      const int wide = add({"conv", {at}, 168, "expand" + name, 1, 1, false, true});
      const int mixed = add({"conv", {wide}, 168, "mix" + name, side, stride, true, true});
      const int narrow = add({"conv", {mixed}, 40, "project" + name});
      at = stride == 1 ? add({"add", {at, narrow}, 40}) : narrow;
    }
  at = add({"conv", {at}, 20, "narrow"});
  at = add({"add", {at, add({"conv", {add({"mean", {at}, 20})}, 20, "context"})}, 20});
  at = add({"add", {add({"enlarge", {at}, 20}), add({"enlarge", {at}, 20})}, 20});
  at = add({"conv", {at}, 20, "alone", 5, 1, true, false});
  add({"conv", {at}, 1, "head", 3});
  return steps;
}

// Arrays of a training step: each in a block of its own size, so that reading or writing past any of them is seen.
class Arrays {
 public:
  float* random(std::size_t count) {
    float* values = empty(count);
    std::normal_distribution<float> normal(0.0f, 0.08f);
    for (std::size_t i = 0; i < count; ++i) values[i] = normal(random_);
    return values;
  }
  float* empty(std::size_t count) {
    blocks_.push_back({std::make_unique<float[]>(count), count});
    return blocks_.back().first.get();
  }
  // Largest difference, relative to the largest value of its array; NaN if a value is.
  double distance(const Arrays& other) const {
    double worst = 0;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      double largest = 1e-6, apart = 0;
      for (std::size_t i = 0; i < blocks_[b].second; ++i) {
        largest = std::max(largest, double(std::abs(blocks_[b].first[i])));
        apart = std::max(apart, double(std::abs(blocks_[b].first[i] - other.blocks_[b].first[i])));
        if (std::isnan(blocks_[b].first[i])) return NAN;
      }
      worst = std::max(worst, apart / largest);
    }
    return worst;
  }

 private:
  std::vector<std::pair<std::unique_ptr<float[]>, std::size_t>> blocks_;
  std::mt19937 random_{2};
};

template <class T, class Make>
smf::MlpTensors<T> mlp_tensors(int channels, int hidden, Make make) {
  return {make(hidden * channels), make(hidden), make(channels * hidden), make(channels)};
}

template <class T, class Make>
smf::ConvBlockTensors<T> conv_tensors(int channels, int hidden, Make make) {
  const int C = channels;
  return {make(C * C), make(C), make(C * 25), make(C), make(C * C), make(C), mlp_tensors<T>(C, hidden, make)};
}

template <class T, class Make>
smf::AttentionBlockTensors<T> attention_tensors(const smf::AttentionShape& shape, bool convolves, Make make) {
  const int C = shape.tokens.channels, offsets = (2 * shape.window - 1) * (2 * shape.window - 1);
  smf::AttentionBlockTensors<T> block;
  for (T** each : {&block.norm_w, &block.norm_b, &block.meta1_w, &block.meta1_b, &block.meta2_w, &block.meta2_b})
    *each = make(C);
  block.qkv_w = make(3 * C * C);
  block.qkv_b = make(3 * C);
  block.conv_w = convolves ? make(C * 25) : nullptr;
  block.conv_b = convolves ? make(C) : nullptr;
  block.bias_table = make(offsets * shape.heads);
  block.proj_w = make(C * C);
  block.proj_b = make(C);
  block.mlp = mlp_tensors<T>(C, shape.hidden, make);
  return block;
}

Arrays train_conv_block(int threads) {
  smf::set_num_threads(threads);
  const smf::TokenShape shape{2, 13, 11, 24};
  const int hidden = 48, tokens = shape.batch * shape.height * shape.width * shape.channels;
  Arrays given, found;
  const auto weights =
      conv_tensors<const float>(shape.channels, hidden, [&](int count) { return given.random(count); });
  const float *x = given.random(tokens), *dy = given.random(tokens);
  const auto gradients = conv_tensors<float>(shape.channels, hidden, [&](int count) { return found.empty(count); });
  smf::conv_block_forward(shape, hidden, x, weights, found.empty(tokens));
  smf::conv_block_backward(shape, hidden, x, dy, weights, found.empty(tokens), gradients);
  return found;
}

Arrays train_attention_block(int threads, bool convolves, int shift) {
  smf::set_num_threads(threads);
  const smf::AttentionShape shape{{2, 13, 11, 24}, 48, 2, 10, shift};
  const int tokens = shape.tokens.batch * shape.tokens.height * shape.tokens.width * shape.tokens.channels;
  Arrays given, found;
  const auto weights =
      attention_tensors<const float>(shape, convolves, [&](int count) { return given.random(count); });
  const float *x = given.random(tokens), *dy = given.random(tokens);
  const auto gradients = attention_tensors<float>(shape, convolves, [&](int count) { return found.empty(count); });
  smf::attention_block_forward(shape, x, weights, found.empty(tokens));
  smf::attention_block_backward(shape, x, dy, weights, found.empty(tokens), gradients);
  return found;
}

bool training_agrees() {
  bool agrees = train_conv_block(1).distance(train_conv_block(3)) < 1e-5;
  for (bool convolves : {false, true})
    for (int shift : {0, 5})
      agrees &= train_attention_block(1, convolves, shift).distance(train_attention_block(3, convolves, shift)) < 1e-5;
  return agrees;
}

}  // namespace

int main() {
  struct Kind {
    int window;
    bool attention_conv;
    int channels, head_channels;
  };
  for (const Kind& kind : {Kind{10, false, 3, 4}, Kind{10, true, 10, 1}, Kind{3, true, 3, 9}}) {
    const smf::NetworkConfig config{{2, 2, 3, 1, 1},         {24, 48, 96, 48, 24}, {2, 4, 6, 1, 1}, {2, 4, 4, 2, 2},
                                    {0.5, 0.5, 0.7, 0, 1.0}, kind.window,          kind.attention_conv,
                                    kind.channels,           kind.head_channels};
    RandomParameters parameters;
    const smf::Network network(
        config, smf::ParameterSource([&](const std::string&, const smf::Shape& shape) { return parameters(shape); }));
    const int sizes[][2] = {{1, 1}, {7, 33}, {31, 9}, {40, 70}};
    for (const auto& size : sizes)
      if (!same_from_all_threads(network, size[0], size[1])) {
        std::printf("%dx%d: several threads give another result than one\n", size[0], size[1]);
        return 1;
      }
  }
  RandomParameters parameters;
  const smf::StepNetwork steps(
      steps_of_every_kind(), 6,
      smf::ParameterSource([&](const std::string&, const smf::Shape& shape) { return parameters(shape); }));
  // In the larger picture the first maps are too large for the cache, so they are made row by row.
  const int sizes[][2] = {{16, 16}, {16, 48}, {80, 176}};
  for (const auto& size : sizes)
    if (!same_from_all_threads(steps, size[0], size[1])) {
      std::printf("steps, %dx%d: several threads give another result than one\n", size[0], size[1]);
      return 1;
    }
  if (!training_agrees()) {
    std::printf("a training step of several threads gives another result than of one\n");
    return 1;
  }
  std::printf("ok (%s)\n", smf::isa_name(smf::active_isa()));
  return 0;
}
