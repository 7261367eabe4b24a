#include "core/parameters.h"

#include <stdexcept>

namespace smf {
namespace {

std::string shape_text(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

}  // namespace

ParameterSource checked(const Parameters& parameters) {
  return [&](const std::string& name, const Shape& shape) {
    const auto found = parameters.find(name);
    if (found == parameters.end())
      throw std::invalid_argument("weights lack '" + name + "'; use weights made for this configuration");
    if (found->second.shape != shape)
      throw std::invalid_argument("weight '" + name + "' is " + shape_text(found->second.shape) + ", expected " +
                                  shape_text(shape) + "; use weights made for this configuration");
    return found->second.data;
  };
}

}  // namespace smf
