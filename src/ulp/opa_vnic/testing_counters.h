#pragma once

// What a virtual port has counted, for tests.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "ulp/opa_vnic/virtual_port.h"

namespace weft::opa_vnic::testing {

/// The error counters that are not zero, by their names in the format.
[[nodiscard]] inline std::map<std::string, std::uint64_t> errors_of(const VirtualPort& port) {
  struct Collect {
    std::map<std::string, std::uint64_t>& into;
    void number(std::string_view name, unsigned width, std::uint64_t value) {
      if (width == 64 && value != 0) {
        into.emplace(name, value);
      }
    }
    void octets(std::string_view, ByteSpan) {}
  };
  std::map<std::string, std::uint64_t> errors;
  wire::visit(port.error_counters(), Collect{errors});
  return errors;
}

}  // namespace weft::opa_vnic::testing
