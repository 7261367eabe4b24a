// The Python module `shadowmaskformer.engine._native`: the only file, with binding_training.cpp, that knows Python.
#include <nanobind/nanobind.h>

#include "isa.h"
#include "threads.h"

namespace nb = nanobind;

// Defined in binding_training.cpp: the forward and backward operators that training uses.
__attribute__((weak)) void bind_training(nb::module_& module);

NB_MODULE(_native, module) {
  module.def("isa", [] { return smf::isa_name(smf::active_isa()); }, "Instruction set in use.");
  module.def("num_threads", &smf::num_threads, "Threads that a call may use.");
  module.def("set_num_threads", &smf::set_num_threads, nb::arg("count"), "Set the threads that later calls may use.");
  if (bind_training) bind_training(module);
}
