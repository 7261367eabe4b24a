// A network's parameters by name, as PyTorch lays them out.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace smf {

using Shape = std::vector<std::size_t>;

// A parameter as PyTorch lays it out, row by row.
struct Parameter {
  const float* data;
  Shape shape;
};
using Parameters = std::unordered_map<std::string, Parameter>;  // by their name in the module's state_dict()

// Yields a parameter's numbers by its name. Only a network's constructor knows which names and shapes there are.
using ParameterSource = std::function<const float*(const std::string& name, const Shape& shape)>;

// A source that reads the table, which must outlive it, and throws std::invalid_argument if a parameter is missing or
// has another shape than it is asked for.
ParameterSource checked(const Parameters& parameters);

}  // namespace smf
