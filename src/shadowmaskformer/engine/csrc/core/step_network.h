// A convolutional network that a list of steps describes; knows neither Python nor PyTorch. network/steps.py describes
// the same list for PyTorch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/parameters.h"

namespace smf {

// One step: makes a map from earlier ones. See network/steps.py for what the fields mean.
struct Step {
  std::string op;           // conv, add, enlarge, mean
  std::vector<int> inputs;  // numbers of earlier steps, or kSource
  int channels;
  std::string name = {};
  int side = 1, stride = 1;
  bool depthwise = false, clipped = false;
};

constexpr int kSource = -1;  // the network's input

class StepNetwork {
 public:
  // Asks `parameter` once for each parameter, and copies and packs them. Throws std::invalid_argument if a step does
  // not fit the earlier ones. channels: of the network's input.
  StepNetwork(const std::vector<Step>& steps, int channels, const ParameterSource& parameter);
  ~StepNetwork();
  StepNetwork(const StepNetwork&) = delete;
  StepNetwork& operator=(const StepNetwork&) = delete;

  // Channels of the input and of the last step's map.
  int channels() const;
  int head_channels() const;
  // What both sides of the input must be multiples of.
  int multiple() const;

  // Sides of the last step's map. Throws std::invalid_argument if the input's are no multiples of multiple().
  struct Size {
    int height, width;
  };
  Size head_size(int height, int width) const;

  // The last step's map.
  //
  // x: (batch, height, width, channels()). head: (batch, head_size(), head_channels()), written. May be called from
  // several threads at once. threads: how many this call may use, 0 for num_threads().
  void forward(int batch, int height, int width, const float* x, float* head, int threads) const;

  // Bytes of scratch memory that forward() takes for one picture of this size.
  std::size_t scratch_bytes(int height, int width, int threads) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace smf
