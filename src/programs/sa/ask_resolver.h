#pragma once

// Asks the resolver of this host, weft-resolver, by netlink: as the host's kernel does, in the form
// of the netlink proposal (wire/local_service/data_message.h), which has names and says "from what
// is known". ibacm answers nobody but the kernel (it sends to netlink address 0).

#include <optional>
#include <string>

#include "base/identifiers.h"
#include "base/result.h"
#include "os/netlink_socket.h"
#include "sa/path_cache.h"
#include "wire/local_service/data_message.h"

namespace weft::programs::sa_tool {

class AskResolver {
 public:
  /// NotFound: there is no resolver of Weft's on this host.
  [[nodiscard]] static Result<AskResolver> open();

  /// Whose GID has the name or IP address; none: the resolver does not know.
  [[nodiscard]] Result<std::optional<Gid>> gid_of(const std::string& name_or_address);

  struct Path {
    wire::PathRecord record;
    bool was_known{};  ///< otherwise the resolver has asked SA
  };
  /// None: the resolver has no such path.
  [[nodiscard]] Result<std::optional<Path>> path(const sa::PathQuery& wanted);

 private:
  AskResolver(os::NetlinkSocket socket, std::uint32_t resolver)
      : socket_(std::move(socket)), resolver_(resolver) {}
  [[nodiscard]] Result<wire::local_service::DataMessage> exchange(
      const wire::local_service::DataMessage& said);

  os::NetlinkSocket socket_;
  std::uint32_t resolver_{};
  std::uint32_t last_sequence_{};
};

}  // namespace weft::programs::sa_tool
