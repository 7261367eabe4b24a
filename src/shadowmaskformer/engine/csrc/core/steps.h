// The steps of a convolutional network as the kernels see them: packed weights, and functions per instruction set.
//
// Maps are (height, width, channels) float32, channels last and without gaps. Channels are padded with zeros to
// multiples of 8; only the network's input may have another number, and only dense convolutions read it then. A
// convolution of stride s makes a map of (height / s, width / s). It sees zeros outside: (side - s) / 2 of them above and
// left, and as many as it needs below and right. Results must not overlap what is read.
#pragma once

#include <cstddef>

#include "core/arena.h"
#include "core/blocks.h"
#include "core/isa.h"

namespace smf {

struct MapShape {
  int height, width, channels;
};

// What is added to every token of a result: a map, or one token for all (`row` 0), or nothing (null).
struct Addend {
  const float* tokens = nullptr;
  long row = 0;  // floats from one token to the next
};

// All inputs to all outputs. The weight's inputs are ordered (row, column, channel).
struct DenseConvolution {
  Matrix weight;
  int side, stride;
  bool clipped;  // to [0, 6]
};

// A depthwise convolution, alone or between two 1x1 convolutions that may be null.
struct SeparableConvolution {
  const DenseConvolution* expand;
  Depthwise taps;
  int channels, side, stride;  // side is 3, 5 or 7
  bool clipped;
  const DenseConvolution* project;
};

// Shapes are of the input map. The ..._scratch() functions return the bytes of arena that the next function takes.
struct StepKernels {
  // `add` is for convolutions that are not clipped.
  std::size_t (*dense_scratch)(const DenseConvolution&, const MapShape&, int threads);
  void (*dense)(const DenseConvolution&, const MapShape&, const float* x, const Addend& add, float* out, Arena&,
                int threads);
  // `add` is for those whose last convolution is `project`, not clipped.
  std::size_t (*separable_scratch)(const SeparableConvolution&, const MapShape&, int threads);
  void (*separable)(const SeparableConvolution&, const MapShape&, const float* x, const Addend& add, float* out, Arena&,
                    int threads);
  // x + add
  void (*add)(const MapShape&, const float* x, const Addend& add, float* out, int threads);
  // Twice the size, bilinear between the centres of pixels, the border continued.
  std::size_t (*enlarge_scratch)(const MapShape&, int threads);
  void (*enlarge)(const MapShape&, const float* x, float* out, Arena&, int threads);
};

}  // namespace smf

SMF_DECLARE(StepKernels, step_kernels)
