#pragma once

// The XRC domains that files name (hca/xrc_relay.h): which processes have which one open. Pure; one
// thread.

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "base/result.h"
#include "node/fabric.h"

namespace weft::node {

class XrcDomains {
 public:
  /// Policy: of one process.
  static constexpr std::size_t kMaxOfProcess = 256;

  /// A domain is one HCA's, by the file that names it there.
  struct Name {
    fabric::NodeIndex host;
    std::uint32_t hca{};
    std::uint64_t device{};  // of the file, st_dev
    std::uint64_t inode{};
    auto operator<=>(const Name&) const = default;
  };
  struct Opened {
    std::uint32_t domain{};
    bool is_new{};
  };

  /// As ibv_open_xrcd(3): `creates` one that there is not yet, and only such a one if exclusive.
  [[nodiscard]] Result<Opened> open(ProcessId process, const Name& name, bool creates,
                                    bool is_exclusive);
  /// True: nobody has it open any more, and it is forgotten.
  bool close(ProcessId process, std::uint32_t domain);

  [[nodiscard]] bool has(ProcessId process, std::uint32_t domain) const;
  [[nodiscard]] std::vector<ProcessId> members(std::uint32_t domain) const;
  [[nodiscard]] std::vector<std::uint32_t> of(ProcessId process) const;

 private:
  struct Domain {
    Name name;
    std::set<ProcessId> members;
  };
  std::map<std::uint32_t, Domain> domains_;
  std::map<Name, std::uint32_t> numbers_;
  std::uint32_t newest_{};
};

}  // namespace weft::node
