// The whole network's forward pass from a plain table of weights; knows neither Python nor PyTorch.
#pragma once

#include <memory>

#include "core/parameters.h"

namespace smf {

constexpr int kStages = 5;

// The network's shape: what the forward pass needs of ModelConfig in config.py, and what only the weights know.
struct NetworkConfig {
  int depths[kStages];
  int widths[kStages];
  int heads[kStages];
  int mlp_ratios[kStages];
  double attention_shares[kStages];
  int window;
  bool attention_conv;
  int channels = 3;       // that the first convolution reads
  int head_channels = 4;  // that the last one writes
};

class Network {
 public:
  // Asks `parameter` once for each parameter, and copies and packs them. Throws std::invalid_argument if a width is not a
  // multiple of 8.
  Network(const NetworkConfig& config, const ParameterSource& parameter);
  // The same from a table, which also says how many channels the ends of the network have. Throws std::invalid_argument
  // if a parameter is missing or has another shape than the configuration says.
  Network(const NetworkConfig& config, const Parameters& parameters);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Channels that the first convolution reads and the last one writes.
  int channels() const;
  int head_channels() const;

  // The last convolution's result for an embedded picture.
  //
  // projected: (batch, height, width, channels()). head: (batch, height, width, head_channels()), written.
  // Any size from 1x1 on; padded inside with zeros to multiples of 4. May be called from several threads at once.
  // threads: how many this call may use, 0 for num_threads().
  void forward(int batch, int height, int width, const float* projected, float* head, int threads) const;

  // Bytes of scratch memory that forward() takes for one picture of this size.
  std::size_t scratch_bytes(int height, int width, int threads) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace smf
