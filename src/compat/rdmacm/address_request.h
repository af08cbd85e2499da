#pragma once

// What an id asked rdma_resolve_addrinfo(3) for, until its program has fetched the answer: names
// are looked up by a thread of this process, services by the daemon.

#include <memory>
#include <mutex>

#include "compat/rdmacm/abi.h"

namespace weft::compat {

struct Id;

struct FreeInformation {
  void operator()(rdma_addrinfo* information) const { rdma_freeaddrinfo(information); }
};
/// A list, as rdma_getaddrinfo(3) makes it.
using Information = std::unique_ptr<rdma_addrinfo, FreeInformation>;

/// Shared by the id and the thread that looks a name up, which may outlive it. Any thread, with the
/// lock; the thread holds it while it tells the id's channel, so that neither the id nor its
/// channel goes meanwhile.
struct AddressQuestion {
  std::mutex lock;
  Id* id{};        // null: destroyed, and nobody wants to know
  bool is_open{};  // asked, and the answer not fetched
  Information answer;
};

/// The event of an answer came: it is there for rdma_query_addrinfo(3). `is_of_names`: a thread of
/// this process has put it there already. 0, or -1 after refuse(), and the question is over.
[[nodiscard]] int take_addresses(Id& id, bool is_of_names);
/// The question failed.
void give_up_addresses(Id& id);

/// A copy with all that they point to; null after refuse().
[[nodiscard]] Information copy_of(const rdma_addrinfo& hints);

/// Asks SA for a service from each port of the host in turn, as rdma_getaddrinfo(3) does with
/// RAI_SA: 0, or -1 after refuse().
[[nodiscard]] int look_for_service(const char* service, rdma_addrinfo** out);

}  // namespace weft::compat
