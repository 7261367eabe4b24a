// Which instruction set runs, chosen once when the program starts.
//
// Kernel files are compiled once per set, inside the namespace smf::SMF_ISA, and export constants (function pointers
// or structs of them). A header declares such a constant for every set with SMF_DECLARE; SMF_SELECT(name) yields the
// one for the running processor.
//
// Headers that kernel files share must not define inline functions outside smf::SMF_ISA: the linker keeps one copy of
// an inline function, and it might keep the AVX-512 one for a processor that lacks it.
#pragma once

namespace smf {

enum class Isa { scalar, baseline, avx2, avx512 };

// The best set of this processor, or the one named by the environment variable SHADOWMASKFORMER_ISA.
// `baseline` is SSE2 on x86-64 and NEON on aarch64. Throws std::invalid_argument for a name this processor lacks.
Isa active_isa();
const char* isa_name(Isa isa);

}  // namespace smf

#if defined(__x86_64__)
#define SMF_DECLARE(Type, name)                          \
  namespace smf {                                        \
  namespace scalar { extern const Type name; }           \
  namespace baseline { extern const Type name; }         \
  namespace avx2 { extern const Type name; }             \
  namespace avx512 { extern const Type name; }           \
  }
#define SMF_SELECT(name)                                                  \
  (::smf::active_isa() == ::smf::Isa::avx512  ? ::smf::avx512::name       \
   : ::smf::active_isa() == ::smf::Isa::avx2  ? ::smf::avx2::name         \
   : ::smf::active_isa() == ::smf::Isa::baseline ? ::smf::baseline::name  \
                                              : ::smf::scalar::name)
#else
#define SMF_DECLARE(Type, name)                          \
  namespace smf {                                        \
  namespace scalar { extern const Type name; }           \
  namespace baseline { extern const Type name; }         \
  }
#define SMF_SELECT(name) \
  (::smf::active_isa() == ::smf::Isa::baseline ? ::smf::baseline::name : ::smf::scalar::name)
#endif
