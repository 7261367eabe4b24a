// The U of the paper: embed, three stages down, two up, head; see model.py for the same in PyTorch.
//
// Memory     Two token maps per resolution, which the blocks of a stage use in turn. The encoder's result rests in one
//            of them until the decoder has fused it. With the scratch of the largest kernel this is all that a call
//            needs: 0.1 GB at 480x640.
// Threads    Every kernel splits its own map; kernels follow one another.
#include "core/network.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "core/arena.h"
#include "core/blocks.h"
#include "core/pack.h"
#include "core/threads.h"

namespace smf {

namespace {

constexpr int kBiasHidden = 256;

// Either kind of block.
struct Block {
  bool attends;
  ConvBlock conv;
  AttentionBlock attention;
};

struct Fusion {
  Matrix skip;
  const float* skip_weight;  // (C, C), as it came
  const float* first;   // (hidden, C)
  const float* second;  // (2 C, hidden)
  int hidden;
};

// A side that only the weights know: side `axis` of a convolution's weight. 1 for a weight that is missing or no
// convolution's; the check of its shape then says what is wrong.
int convolution_side(const Parameters& parameters, const char* name, int axis) {
  const auto found = parameters.find(name);
  if (found == parameters.end() || found->second.shape.size() != 4) return 1;
  return std::max(1, int(found->second.shape[axis]));
}

NetworkConfig with_ends(NetworkConfig config, const Parameters& parameters) {
  config.channels = convolution_side(parameters, "embed.weight", 1);
  config.head_channels = convolution_side(parameters, "head.weight", 0);
  return config;
}

}  // namespace

struct Network::Impl {
  NetworkConfig config;
  const BlockKernels* blocks;
  const LinkKernels* links;
  std::vector<std::unique_ptr<Arena>> storage;
  const ParameterSource* source;  // only while constructing

  Matrix embed, head;
  Matrix down[2], up[2][2];
  Fusion fusions[2];
  std::vector<Block> stages[kStages];
  mutable ArenaPool arenas;

  // --- packing -----------------------------------------------------------------------------------------------------

  // Packs into memory of its own, which lives as long as the network.
  Packer packer(std::size_t bytes) {
    storage.push_back(std::make_unique<Arena>());
    storage.back()->reserve(bytes);
    return Packer(*storage.back(), blocks->pack);
  }

  const float* parameter(const std::string& name, const Shape& shape) { return (*source)(name, shape); }

  const float* copied(const float* values, int count) {
    return packer(Packer::vector_bytes(count)).vector(values, count);
  }

  Matrix packed(const float* weight, const float* bias, int outputs, int inputs) {
    return packer(Packer::matrix_bytes(outputs, inputs)).matrix(weight, bias, outputs, inputs);
  }

  Matrix convolution(const std::string& name, std::size_t outputs, std::size_t inputs, std::size_t side) {
    const float* weight = parameter(name + ".weight", {outputs, inputs, side, side});
    const float* bias = parameter(name + ".bias", {outputs});
    return packer(Packer::matrix_bytes(int(outputs), int(inputs * side * side)))
        .convolution(weight, bias, int(outputs), int(inputs), int(side), int(inputs));
  }

  // One matrix for each row of a 2x2 square. PixelShuffle's outputs are ordered (channel, row, column).
  void upsampling(const std::string& name, int outputs, int inputs, Matrix rows[2]) {
    const float* weight = parameter(name + ".weight", {std::size_t(4 * outputs), std::size_t(inputs)});
    const float* bias = parameter(name + ".bias", {std::size_t(4 * outputs)});
    std::vector<float> ordered(std::size_t(2) * outputs * inputs), ordered_bias(std::size_t(2) * outputs);
    for (int row = 0; row < 2; ++row) {
      for (int column = 0; column < 2; ++column)
        for (int c = 0; c < outputs; ++c) {
          const int from = c * 4 + row * 2 + column, to = column * outputs + c;
          std::copy_n(weight + std::size_t(from) * inputs, inputs, ordered.data() + std::size_t(to) * inputs);
          ordered_bias[to] = bias[from];
        }
      rows[row] = packed(ordered.data(), ordered_bias.data(), 2 * outputs, inputs);
    }
  }

  // What each of the (2 window - 1)**2 offsets adds to the scores: the bias MLP runs on them once.
  std::vector<float> position_table(const std::string& name, std::size_t heads, int window) {
    const float* w1 = parameter(name + ".0.weight", {kBiasHidden, 2});
    const float* b1 = parameter(name + ".0.bias", {kBiasHidden});
    const float* w2 = parameter(name + ".2.weight", {heads, kBiasHidden});
    const float* b2 = parameter(name + ".2.bias", {heads});
    std::vector<float> table;
    const auto spaced = [](int offset) { return std::copysign(std::log1p(std::abs(float(offset))), float(offset)); };
    for (int row = 1 - window; row < window; ++row)
      for (int column = 1 - window; column < window; ++column)
        for (std::size_t head = 0; head < heads; ++head) {
          double total = b2[head];
          for (int h = 0; h < kBiasHidden; ++h)
            total += w2[head * kBiasHidden + h] *
                     std::max(0.0f, w1[2 * h] * spaced(row) + w1[2 * h + 1] * spaced(column) + b1[h]);
          table.push_back(float(total));
        }
    return table;
  }

  Block block(const std::string& name, int stage, int index) {
    const std::size_t C = config.widths[stage], hidden = C * config.mlp_ratios[stage];
    const auto weight = [&](const char* layer, const Shape& shape) { return parameter(name + layer, shape); };
    const auto mlp = [&]() -> MlpTensors<const float> {
      return {weight("mlp.0.weight", {hidden, C}), weight("mlp.0.bias", {hidden}), weight("mlp.2.weight", {C, hidden}),
              weight("mlp.2.bias", {C})};
    };
    Block b{};
    b.attends = index >= config.depths[stage] - config.attention_shares[stage] * config.depths[stage];
    if (!b.attends) {
      const ConvBlockTensors<const float> w{
          weight("v.weight", {C, C}),    weight("v.bias", {C}),    weight("conv.weight", {C, 1, 5, 5}),
          weight("conv.bias", {C}),      weight("proj.weight", {C, C}), weight("proj.bias", {C}),
          mlp()};
      b.conv = packer(Packer::conv_block_bytes(int(C), int(hidden))).conv_block(int(C), int(hidden), w);
      return b;
    }
    const AttentionShape shape{{0, 0, 0, int(C)}, int(hidden), config.heads[stage], config.window,
                               index % 2 ? config.window / 2 : 0};
    const std::vector<float> table = position_table(name + "position.mlp", shape.heads, shape.window);
    const AttentionBlockTensors<const float> w{
        weight("norm.weight", {C}),
        weight("norm.bias", {C}),
        weight("norm.meta1.weight", {C, 1}),
        weight("norm.meta1.bias", {C}),
        weight("norm.meta2.weight", {C, 1}),
        weight("norm.meta2.bias", {C}),
        weight("qkv.weight", {3 * C, C}),
        weight("qkv.bias", {3 * C}),
        config.attention_conv ? weight("conv.weight", {C, 1, 5, 5}) : nullptr,
        config.attention_conv ? weight("conv.bias", {C}) : nullptr,
        table.data(),
        weight("proj.weight", {C, C}),
        weight("proj.bias", {C}),
        mlp()};
    b.attention = packer(Packer::attention_block_bytes(shape)).attention_block(shape, w);
    return b;
  }

  Fusion fusion(int index, int channels) {
    const std::string number = std::to_string(index), name = "fuse." + number + ".mlp.";
    const int hidden = std::max(channels / 8, 4);
    Fusion f;
    const std::size_t c = channels;
    const float* skip = parameter("skip." + number + ".weight", {c, c});
    f.skip = packed(skip, parameter("skip." + number + ".bias", {c}), channels, channels);
    f.skip_weight = copied(skip, c * c);
    f.hidden = hidden;
    f.first = copied(parameter(name + "0.weight", {std::size_t(hidden), c}), hidden * c);
    f.second = copied(parameter(name + "2.weight", {2 * c, std::size_t(hidden)}), 2 * hidden * c);
    return f;
  }

  // --- running -----------------------------------------------------------------------------------------------------

  std::size_t kernel_scratch(int height, int width, int threads) const {
    std::size_t most =
        std::max(links->conv3x3_scratch(embed, width, threads), links->conv3x3_scratch(head, width, threads));
    for (int stage = 0; stage < kStages; ++stage) {
      const int shrink = stage == 2 ? 4 : stage % 2 ? 2 : 1, h = height / shrink, w = width / shrink;
      for (const Block& b : stages[stage])
        most = std::max(most, b.attends ? blocks->attention_block_scratch(b.attention, h, w, threads)
                                        : blocks->conv_block_scratch(b.conv, h, w, threads));
    }
    for (int stage : {3, 4})
      most = std::max({most, links->channel_sums_scratch(config.widths[stage]),
                       links->fuse_scratch(config.widths[stage], threads)});
    return most;
  }

  // Runs a stage from `x` to `spare` and back; returns the one that holds the result.
  float* run_stage(int stage, int height, int width, float* x, float* spare, Arena& arena, int threads) const {
    Moments moments{0, 0, 0};
    const std::vector<Block>& all = stages[stage];
    if (all[0].attends) moments = blocks->moments(x, std::size_t(height) * width * config.widths[stage], threads);
    for (std::size_t i = 0; i < all.size(); ++i) {
      Moments next;
      Moments* wanted = i + 1 < all.size() && all[i + 1].attends ? &next : nullptr;
      if (all[i].attends)
        blocks->attention_block(all[i].attention, height, width, x, moments, spare, wanted, arena, threads);
      else
        blocks->conv_block(all[i].conv, height, width, x, spare, wanted, arena, threads);
      if (wanted) moments = next;
      std::swap(x, spare);
    }
    return x;
  }

  // x = SK(x, skip(encoder)) + x. The average that SK looks at is linear in the encoder's, so the skip is computed only
  // once, on its way into the sum.
  void run_fusion(const Fusion& f, std::size_t tokens, const float* encoder, float* x, Arena& arena,
                  int threads) const {
    const int C = f.skip.outputs;
    std::vector<double> x_sums(C), encoder_sums(C);
    links->channel_sums(tokens, C, x, x_sums.data(), arena, threads);
    links->channel_sums(tokens, C, encoder, encoder_sums.data(), arena, threads);
    std::vector<double> mean(C), hidden(f.hidden);
    for (int n = 0; n < C; ++n) {
      double skip = 0;
      for (int k = 0; k < C; ++k) skip += f.skip_weight[n * C + k] * encoder_sums[k];
      mean[n] = (x_sums[n] + skip) / double(tokens) + f.skip.bias[n];
    }
    for (int h = 0; h < f.hidden; ++h) {
      double total = 0;
      for (int c = 0; c < C; ++c) total += f.first[h * C + c] * mean[c];
      hidden[h] = std::max(0.0, total);
    }
    std::vector<float> gain_x(C + 16), gain_skip(C + 16);
    for (int c = 0; c < C; ++c) {
      double difference = 0;  // softmax over two
      for (int h = 0; h < f.hidden; ++h)
        difference += (f.second[(C + c) * f.hidden + h] - f.second[c * f.hidden + h]) * hidden[h];
      const double weight = 1 / (1 + std::exp(difference));
      gain_x[c] = float(weight + 1);
      gain_skip[c] = float(1 - weight);
    }
    links->fuse(f.skip, tokens, encoder, gain_x.data(), gain_skip.data(), x, arena, threads);
  }

  void run(int height, int width, const float* projected, float* head_out, Arena& arena, int threads) const {
    const int H = (height + 3) / 4 * 4, W = (width + 3) / 4 * 4;
    const int* C = config.widths;
    const std::size_t tokens = std::size_t(H) * W;
    float *full = arena.floats(tokens * C[0]), *full_spare = arena.floats(tokens * C[0]);
    float *half = arena.floats(tokens / 4 * C[1]), *half_spare = arena.floats(tokens / 4 * C[1]);
    float *quarter = arena.floats(tokens / 16 * C[2]), *quarter_spare = arena.floats(tokens / 16 * C[2]);
    // Runs a stage in place: the first of the two maps holds its input, then its result.
    const auto stage = [&](int index, int shrink, float*& x, float*& spare) {
      float* result = run_stage(index, H / shrink, W / shrink, x, spare, arena, threads);
      if (result != x) std::swap(x, spare);
    };

    links->conv3x3(embed, height, width, config.channels, projected, H, W, C[0], full, arena, threads);
    stage(0, 1, full, full_spare);
    links->downsample(down[0], H, W, C[0], full, half, threads);
    stage(1, 2, half, half_spare);
    links->downsample(down[1], H / 2, W / 2, C[1], half, quarter, threads);
    stage(2, 4, quarter, quarter_spare);
    links->upsample(up[0], H / 4, W / 4, C[2], quarter, half_spare, threads);
    run_fusion(fusions[0], tokens / 4, half, half_spare, arena, threads);
    stage(3, 2, half_spare, half);
    links->upsample(up[1], H / 2, W / 2, C[3], half_spare, full_spare, threads);
    run_fusion(fusions[1], tokens, full, full_spare, arena, threads);
    stage(4, 1, full_spare, full);
    links->conv3x3(head, H, W, C[4], full_spare, height, width, config.head_channels, head_out, arena, threads);
  }
};

Network::Network(const NetworkConfig& config, const Parameters& parameters)
    : Network(with_ends(config, parameters), checked(parameters)) {}

Network::Network(const NetworkConfig& config, const ParameterSource& parameter) : impl_(new Impl) {
  Impl& impl = *impl_;
  impl.config = config;
  impl.blocks = &SMF_SELECT(block_kernels);
  impl.links = &SMF_SELECT(link_kernels);
  impl.source = &parameter;
  for (int width : config.widths)
    if (width < 8 || width % 8)
      throw std::invalid_argument("the native engine needs widths that are multiples of 8, got " +
                                  std::to_string(width) + "; use the torch or onnx runtime");
  const int* C = config.widths;
  impl.embed = impl.convolution("embed", C[0], config.channels, 3);
  impl.head = impl.convolution("head", config.head_channels, C[4], 3);
  for (int i : {0, 1}) {
    const std::string number = std::to_string(i);
    impl.down[i] = impl.convolution("down." + number, C[i + 1], C[i], 2);
    impl.upsampling("up." + number, C[i + 3], C[i + 2], impl.up[i]);
    impl.fusions[i] = impl.fusion(i, C[i + 3]);
  }
  for (int stage = 0; stage < kStages; ++stage)
    for (int index = 0; index < config.depths[stage]; ++index)
      impl.stages[stage].push_back(
          impl.block("stages." + std::to_string(stage) + "." + std::to_string(index) + ".", stage, index));
  impl.source = nullptr;
}

Network::~Network() = default;

std::size_t Network::scratch_bytes(int height, int width, int threads) const {
  const int H = (height + 3) / 4 * 4, W = (width + 3) / 4 * 4;
  const std::size_t tokens = std::size_t(H) * W;
  const int* C = impl_->config.widths;
  return 2 * (Arena::bytes(tokens * C[0]) + Arena::bytes(tokens / 4 * C[1]) + Arena::bytes(tokens / 16 * C[2])) +
         impl_->kernel_scratch(H, W, threads);
}

int Network::channels() const { return impl_->config.channels; }
int Network::head_channels() const { return impl_->config.head_channels; }

void Network::forward(int batch, int height, int width, const float* projected, float* head, int threads) const {
  if (batch < 1 || height < 1 || width < 1) return;
  if (threads < 1) threads = num_threads();
  ArenaLease lease(impl_->arenas, scratch_bytes(height, width, threads));
  const std::size_t pixels = std::size_t(height) * width;
  for (int i = 0; i < batch; ++i) {
    lease.arena().rewind(0);
    impl_->run(height, width, projected + i * pixels * channels(), head + i * pixels * head_channels(), lease.arena(),
               threads);
  }
}

}  // namespace smf
