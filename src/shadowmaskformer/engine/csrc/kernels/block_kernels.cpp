// The table of block kernels of one instruction set.
#include "core/threads.h"
#include "kernels/pieces.h"

namespace smf {
namespace SMF_ISA {

std::size_t conv_block_scratch(const ConvBlock&, int height, int width, int threads);
void conv_block(const ConvBlock&, int height, int width, const float* x, float* out, Moments* moments, Arena&,
                int threads);
void conv_block_backward(const TokenShape& shape, int hidden, const float* x, const float* dy,
                         const ConvBlockTensors<const float>& weights, float* dx,
                         const ConvBlockTensors<float>& gradients);
std::size_t attention_block_scratch(const AttentionBlock&, int height, int width, int threads);
void attention_block(const AttentionBlock&, int height, int width, const float* x, const Moments& norm, float* out,
                     Moments* moments, Arena&, int threads);
void attention_block_backward(const AttentionShape& shape, const float* x, const float* dy,
                              const AttentionBlockTensors<const float>& weights, float* dx,
                              const AttentionBlockTensors<float>& gradients);

// The cut into parts does not depend on the threads, so any number gives the same bits.
Moments moments_of_map(const float* x, std::size_t count, int threads) {
  constexpr std::size_t kRun = 4096;  // short enough for sums in float
  constexpr int kParts = 32;
  const std::size_t runs = (count + kRun - 1) / kRun;
  Moments parts[kParts];
  parallel(threads, kParts, [&](int part, int) {
    parts[part] = Moments{0, 0, 0};
    for (std::size_t run = runs * part / kParts; run < runs * (part + 1) / kParts; ++run)
      combine(parts[part], moments_of(x + run * kRun, long(smaller(count - run * kRun, kRun))));
  });
  Moments total{0, 0, 0};
  for (const Moments& part : parts) combine(total, part);
  return total;
}

namespace {

#if defined(SMF_ISA_scalar)
// The plain loops read weights as they are, (outputs, inputs).
void pack_weight(const float* weight, int outputs, int inputs, long row, long column, float* packed) {
  for (int n = 0; n < (outputs + 7) / 8 * 8; ++n)
    for (int k = 0; k < inputs; ++k) *packed++ = n < outputs ? weight[n * row + k * column] : 0.0f;
}
#else
constexpr PackFunction pack_weight = pack;
#endif

}  // namespace

extern const BlockKernels block_kernels = {pack_weight,     conv_block_scratch, conv_block,          attention_block_scratch,
                                           attention_block, moments_of_map,     conv_block_backward, attention_block_backward};

}  // namespace SMF_ISA
}  // namespace smf
