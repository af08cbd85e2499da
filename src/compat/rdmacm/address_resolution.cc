// rdma_resolve_addrinfo(3) and rdma_query_addrinfo(3): asynchronous resolution of names, and of
// services that SA knows.

#include <netdb.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "compat/rdmacm/address_request.h"
#include "compat/rdmacm/ids.h"
#include "compat/rdmacm/later.h"
#include "compat/rdmacm/translate.h"

namespace weft::compat {
namespace {

/// Length of a ServiceName in octets (IBTA vol 1 §15.2.5.14).
constexpr std::size_t kMostNameBytes = 64;

// --- the request of an id

/// Starts a request, of which an id has one at a time. Returns 0, or -1 after refuse().
[[nodiscard]] int open_question(const Id& id) {
  const std::lock_guard guard{id.addresses->lock};
  if (id.addresses->is_open) {
    return refuse(
        EBUSY, "the id resolves addresses already, or rdma_query_addrinfo() has not fetched them");
  }
  id.addresses->is_open = true;
  return 0;
}

// --- names

/// Work of a resolver thread.
struct Lookup {
  std::shared_ptr<AddressQuestion> question;
  std::optional<std::string> node;
  std::optional<std::string> service;
  Information hints;
};

[[nodiscard]] const char* text(const std::optional<std::string>& given) {
  return given ? given->c_str() : nullptr;
}

/// The errno for an error of rdma_getaddrinfo().
[[nodiscard]] int error_number_of(int error) {
  switch (error) {
    case -1:
    case EAI_SYSTEM:
      return errno;
    case EAI_AGAIN:
      return EAGAIN;
    case EAI_MEMORY:
      return ENOMEM;
    case EAI_FAMILY:
      return EAFNOSUPPORT;
    case EAI_NONAME:
    case EAI_SERVICE:
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
      return ENOENT;
    default:
      return EINVAL;
  }
}

/// Runs on its own thread. The result is announced by an event from the daemon, since programs wait
/// for events there.
void look_up(const Lookup& lookup) {
  rdma_addrinfo* found = nullptr;
  const int error =
      rdma_getaddrinfo(text(lookup.node), text(lookup.service), lookup.hints.get(), &found);
  const int number = error == 0 ? 0 : error_number_of(error);
  Information answer{number == 0 ? found : nullptr};
  AddressQuestion& question = *lookup.question;
  const std::lock_guard guard{question.lock};
  if (question.id == nullptr) {
    return;
  }
  question.answer = std::move(answer);
  const uabi::WriteRdmaCmEvent event{.id = question.id->number,
                                     .uid = question.id->uid,
                                     .type = number == 0 ? verbs::RdmaCmEventType::AddrinfoResolved
                                                         : verbs::RdmaCmEventType::AddrinfoError,
                                     .status = -number,
                                     .argument = 1};
  // If the daemon is gone there are no events, and the program learns that otherwise.
  static_cast<void>(command(*question.id, event));
}

void* run_look_up(void* own) {
  const std::unique_ptr<Lookup> lookup{static_cast<Lookup*>(own)};
  look_up(*lookup);
  return nullptr;
}

/// Blocks signals, which are for the program's own threads. Returns 0, or -1 after refuse().
[[nodiscard]] int start(std::unique_ptr<Lookup> lookup) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int error = pthread_create(&thread, nullptr, run_look_up, lookup.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    return refuse(error, "there is no thread to look the name up");
  }
  pthread_detach(thread);
  static_cast<void>(lookup.release());  // owned by the thread
  return 0;
}

[[nodiscard]] int ask_for_name(const Id& id, const char* node, const char* service,
                               const rdma_addrinfo* hints) {
  if (node == nullptr && service == nullptr && hints == nullptr) {
    return refuse(EINVAL, "neither a name nor a service nor hints were given");
  }
  auto lookup = std::make_unique<Lookup>();
  lookup->question = id.addresses;
  if (node != nullptr) {
    lookup->node = node;
  }
  if (service != nullptr) {
    lookup->service = service;
  }
  if (hints != nullptr) {
    lookup->hints = copy_of(*hints);
    if (lookup->hints == nullptr) {
      return -1;
    }
  }
  return start(std::move(lookup));
}

// --- services

/// The ServiceID if all of the text is a number; else it is a name.
[[nodiscard]] std::optional<std::uint64_t> as_service_id(const char* service) {
  const int before = std::exchange(errno, 0);
  char* end = nullptr;
  const std::uint64_t number = std::strtoull(service, &end, 0);
  const bool is_number = errno == 0 && end != service && *end == '\0';
  errno = before;
  return is_number ? std::optional{number} : std::nullopt;
}

[[nodiscard]] int ask_for_service(const Id& id, const char* node, const char* service) {
  if (node != nullptr) {
    return refuse(ENOTSUP, "SA knows services, not hosts: with RAI_SA there is no node");
  }
  if (service == nullptr || *service == '\0' || std::strlen(service) > kMostNameBytes) {
    return refuse(EINVAL, "with RAI_SA the service is a ServiceID, or a name of 1 to 64 octets");
  }
  const auto service_id = as_service_id(service);
  return command(id, uabi::ResolveRdmaCmService{.id = id.number,
                                                .service_id = service_id.value_or(0),
                                                .name = service_id ? "" : service});
}

/// The address in SA's record: GID, partition and ServiceID. Null after refuse().
[[nodiscard]] Information address_of(const uabi::RdmaCmService& service) {
  Information made{static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo)))};
  auto* const address = static_cast<sockaddr_ib*>(std::calloc(1, sizeof(sockaddr_ib)));
  if (made == nullptr || address == nullptr) {
    std::free(address);
    refuse(ENOMEM, "no memory for address information");
    return nullptr;
  }
  address->sib_family = AF_IB;
  address->sib_pkey = htobe16(service.pkey.value());
  const ibv_gid gid = from_daemon(service.gid);
  std::memcpy(&address->sib_addr, &gid, sizeof address->sib_addr);
  address->sib_sid = htobe64(service.service_id);
  address->sib_sid_mask = std::numeric_limits<std::uint64_t>::max();
  made->ai_flags = kFromSa;
  made->ai_family = AF_IB;
  made->ai_port_space = RDMA_PS_IB;
  made->ai_dst_addr = static_cast<sockaddr*>(static_cast<void*>(address));
  made->ai_dst_len = sizeof *address;
  return made;
}

/// In SA's order; null after refuse().
[[nodiscard]] Information addresses_of_services(Id& id) {
  const auto told = ask<uabi::RdmaCmServices>(id, uabi::QueryRdmaCmServices{.id = id.number});
  if (!told || refresh(id) != 0) {
    return nullptr;
  }
  if (told->services.empty()) {
    refuse(ENOENT, "SA knows no such service");
    return nullptr;
  }
  Information all;
  for (auto service = told->services.rbegin(); service != told->services.rend(); ++service) {
    Information one = address_of(*service);
    if (one == nullptr) {
      return nullptr;
    }
    one->ai_next = all.release();
    all = std::move(one);
  }
  return all;
}

}  // namespace

int take_addresses(Id& id, bool is_of_names) {
  const std::lock_guard guard{id.addresses->lock};
  if (is_of_names) {
    return 0;
  }
  id.addresses->answer = addresses_of_services(id);
  id.addresses->is_open = id.addresses->answer != nullptr;
  return id.addresses->is_open ? 0 : -1;
}

void give_up_addresses(Id& id) {
  const std::lock_guard guard{id.addresses->lock};
  id.addresses->is_open = false;
  id.addresses->answer.reset();
}

}  // namespace weft::compat

using namespace weft;
using namespace weft::compat;

extern "C" {

WEFT_EXPORT int rdma_resolve_addrinfo(rdma_cm_id* cm, const char* node, const char* service,
                                      const rdma_addrinfo* hints) {
  if (cm == nullptr) {
    return refuse(EINVAL, "there is no id");
  }
  Id& id = id_of(cm);
  const int flags = hints == nullptr ? 0 : hints->ai_flags;
  if ((flags & kFromSa) != 0 && (flags & kFromDns) != 0) {
    return refuse(ENOTSUP, "RAI_SA and RAI_DNS exclude each other");
  }
  if (open_question(id) != 0) {
    return -1;
  }
  const int asked = (flags & kFromSa) != 0 ? ask_for_service(id, node, service)
                                           : ask_for_name(id, node, service, hints);
  if (asked != 0) {
    const int error = errno;
    give_up_addresses(id);
    errno = error;
    return -1;
  }
  return complete(id);
}

WEFT_EXPORT int rdma_query_addrinfo(rdma_cm_id* cm, rdma_addrinfo** out) {
  if (cm == nullptr || out == nullptr) {
    return refuse(EINVAL, "there is no id, or no place for its addresses");
  }
  AddressQuestion& question = *id_of(cm).addresses;
  const std::lock_guard guard{question.lock};
  if (!question.is_open || question.answer == nullptr) {
    return refuse(ENOENT, "the id has resolved no addresses that are not fetched already");
  }
  question.is_open = false;
  *out = question.answer.release();
  return 0;
}

}  // extern "C"
