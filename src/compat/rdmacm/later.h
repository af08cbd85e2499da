#pragma once

// Declarations of RDMACM_1.4 (rdma-core 61) and 1.5 (rdma-core 65) that Debian 12's headers lack.
// The new event numbers are not enumerators here, and an enumeration must not hold a value without
// one ([dcl.enum]), so they are read and written as numbers.

#include <sys/epoll.h>

#include <cstdint>
#include <cstring>

#include "compat/rdmacm/abi.h"

namespace weft::compat {

inline constexpr int kAddrinfoResolved = 16;  // RDMA_CM_EVENT_ADDRINFO_RESOLVED
inline constexpr int kAddrinfoError = 17;     // RDMA_CM_EVENT_ADDRINFO_ERROR
inline constexpr int kUserEvent = 18;         // RDMA_CM_EVENT_USER

inline constexpr int kFromSa = 0x10;   // RAI_SA
inline constexpr int kFromDns = 0x20;  // RAI_DNS

static_assert(sizeof(rdma_cm_event_type) == sizeof(int));

[[nodiscard]] inline int number_of(const rdma_cm_event_type& type) {
  int number{};
  std::memcpy(&number, &type, sizeof number);
  return number;
}
inline void set_number(rdma_cm_event_type& type, int number) {
  std::memcpy(&type, &number, sizeof number);
}

}  // namespace weft::compat

extern "C" {

int rdma_resolve_addrinfo(rdma_cm_id* id, const char* node, const char* service,
                          const rdma_addrinfo* hints);
int rdma_query_addrinfo(rdma_cm_id* id, rdma_addrinfo** info);
int rdma_write_cm_event(rdma_cm_id* id, rdma_cm_event_type event, int status, std::uint64_t arg);

int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, epoll_event* event);
int repoll_wait(int epfd, epoll_event* events, int maxevents, int timeout);

}  // extern "C"
