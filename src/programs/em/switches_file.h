#pragma once

// The file of virtual switches that `weft em` reads (TOML), whose ports are named by hosts; and
// what an Ethernet Manager is to make of it. Pure.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "ulp/opa_vnic/manager/config.h"

namespace weft::programs::em {

/// What `MemberConfig::port` is of a host: a hash of its name, so that it is the same in every
/// file.
[[nodiscard]] Guid guid_of_host(std::string_view name);

/// A file's virtual switches.
struct SwitchesFile {
  std::vector<opa_vnic::SwitchConfig> switches;
  std::map<std::string, Guid, std::less<>> hosts;
  bool operator==(const SwitchesFile&) const = default;

  /// Empty: no host of the file.
  [[nodiscard]] std::string host_of(Guid port) const;
};

/// Fails with what is wrong, and on which line.
[[nodiscard]] Result<SwitchesFile> parse_switches(std::string_view text);
[[nodiscard]] Result<SwitchesFile> read_switches(const std::string& path);

}  // namespace weft::programs::em
