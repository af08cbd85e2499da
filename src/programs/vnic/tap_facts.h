#pragma once

// What the host has made of an interface since: its flags, its address, and to which groups it
// listens.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/unique_fd.h"
#include "wire/mac_address.h"

namespace weft::programs::vnic {

struct TapFacts {
  bool is_up{};
  bool is_promiscuous{};  ///< as a bridge or tcpdump makes it
  wire::MacAddress mac{};
  std::vector<wire::MacAddress> groups{};
  bool operator==(const TapFacts&) const = default;
};

/// By rtnetlink and /proc/net/dev_mcast; none: there is no such interface.
[[nodiscard]] std::optional<TapFacts> facts_of_tap(const std::string& name);

}  // namespace weft::programs::vnic
