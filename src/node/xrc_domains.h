#pragma once

// XRC domains that are associated with files (hca/xrc_relay.h), and the processes that have them
// open. Pure, not thread-safe.

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "base/result.h"
#include "node/fabric.h"

namespace weft::node {

/// The shared XRC domains of all hosts.
class XrcDomains {
 public:
  /// Maximum per process; policy, not from the specification.
  static constexpr std::size_t kMaxOfProcess = 256;

  /// Identifies a domain: an HCA, and the file given to ibv_open_xrcd.
  struct Name {
    fabric::NodeIndex host;
    std::uint32_t hca{};
    std::uint64_t device{};  // st_dev of the file
    std::uint64_t inode{};
    auto operator<=>(const Name&) const = default;
  };
  struct Opened {
    std::uint32_t domain{};
    bool is_new{};
  };

  /// Opens a domain with the semantics of ibv_open_xrcd(3): `creates` and `is_exclusive` stand for
  /// O_CREAT and O_EXCL.
  [[nodiscard]] Result<Opened> open(ProcessId process, const Name& name, bool creates,
                                    bool is_exclusive);
  /// Returns true if this was the last process; the domain is then removed.
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
