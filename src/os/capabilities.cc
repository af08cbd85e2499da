#include "os/capabilities.h"

#include <linux/capability.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

namespace weft::os {

bool may_administer_network(pid_t pid) {
  // proc(5): a line "CapEff:" with the mask in hex.
  std::ifstream status{"/proc/" + std::to_string(pid) + "/status"};
  constexpr const char kName[] = "CapEff:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(kName)) {
      const std::uint64_t effective = std::strtoull(line.c_str() + sizeof kName - 1, nullptr, 16);
      return (effective >> CAP_NET_ADMIN & 1) != 0;
    }
  }
  return false;
}

}  // namespace weft::os
