#include "core/blocks.h"

#include <cmath>

namespace smf {

void combine(Moments& total, const Moments& part) {
  if (part.count == 0) return;
  const double count = total.count + part.count, delta = part.mean - total.mean;
  total.squares += part.squares + delta * delta * total.count * part.count / count;
  total.mean += delta * part.count / count;
  total.count = count;
}

Norm make_norm(const AttentionBlock& block, const Moments& moments, float* rescale, float* rebias) {
  constexpr double kEpsilon = 1e-5;
  const float mean = float(moments.mean), std = float(std::sqrt(moments.squares / moments.count + kEpsilon));
  for (int c = 0; c < block.channels; ++c) {
    rescale[c] = block.meta1_weight[c] * std + block.meta1_bias[c];
    rebias[c] = block.meta2_weight[c] * mean + block.meta2_bias[c];
  }
  return {mean, std, rescale, rebias};
}

}  // namespace smf
