#include "core/isa.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace smf {
namespace {

bool supported(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == Isa::avx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#endif
  return isa == Isa::scalar || isa == Isa::baseline;
}

Isa choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
#endif
  constexpr Isa best_first[] = {Isa::avx512, Isa::avx2, Isa::baseline, Isa::scalar};
  const char* wish = std::getenv("SHADOWMASKFORMER_ISA");
  for (Isa isa : best_first)
    if (supported(isa) && (!wish || !*wish || std::string(wish) == isa_name(isa))) return isa;
  throw std::invalid_argument("SHADOWMASKFORMER_ISA is '" + std::string(wish) +
                              "', which this processor lacks; unset it, or use scalar, baseline, avx2 or avx512");
}

}  // namespace

Isa active_isa() {
  static const Isa chosen = choose();
  return chosen;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::avx512: return "avx512";
    case Isa::avx2: return "avx2";
    case Isa::baseline: return "baseline";
    case Isa::scalar: return "scalar";
  }
  return "";
}

}  // namespace smf
