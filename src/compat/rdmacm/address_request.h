#pragma once

// The request of rdma_resolve_addrinfo(3) on an id, until the program fetches its result. A thread
// of this process resolves names, the daemon resolves services.

#include <memory>
#include <mutex>

#include "compat/rdmacm/abi.h"

namespace weft::compat {

struct Id;

struct FreeInformation {
  void operator()(rdma_addrinfo* information) const { rdma_freeaddrinfo(information); }
};
/// A list as from rdma_getaddrinfo(3).
using Information = std::unique_ptr<rdma_addrinfo, FreeInformation>;

/// Shared by the id and the resolver thread, which may outlive the id. Any thread, with the lock
/// held. The thread holds it while it posts to the id's channel, which keeps id and channel alive
/// meanwhile.
struct AddressQuestion {
  std::mutex lock;
  Id* id{};        // null: destroyed, the result is not wanted
  bool is_open{};  // requested, and the result not fetched
  Information answer;
};

/// Handles the event of a result and makes it available to rdma_query_addrinfo(3). `is_of_names`:
/// the resolver thread has stored it already. Returns 0, or -1 after refuse(), which ends the
/// request.
[[nodiscard]] int take_addresses(Id& id, bool is_of_names);
/// The request failed.
void give_up_addresses(Id& id);

/// A deep copy; null after refuse().
[[nodiscard]] Information copy_of(const rdma_addrinfo& hints);

/// Queries SA for a service from each port of the host in turn, as rdma_getaddrinfo(3) does with
/// RAI_SA. Returns 0, or -1 after refuse().
[[nodiscard]] int look_for_service(const char* service, rdma_addrinfo** out);

}  // namespace weft::compat
