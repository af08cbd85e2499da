// rsockets: programs and libraries that name them load, and every call says no.

#include <cerrno>
#include <cstdarg>

#include "compat/rdmacm/abi.h"
#include "compat/rdmacm/refusals.h"

namespace {

int refuse_rsockets() {
  return weft::compat::refuse(EOPNOTSUPP, "Weft has no rsockets: use RDMA connections or sockets");
}

}  // namespace

extern "C" {

WEFT_EXPORT int rsocket(int, int, int) { return refuse_rsockets(); }
WEFT_EXPORT int rbind(int, const sockaddr*, socklen_t) { return refuse_rsockets(); }
WEFT_EXPORT int rlisten(int, int) { return refuse_rsockets(); }
WEFT_EXPORT int raccept(int, sockaddr*, socklen_t*) { return refuse_rsockets(); }
WEFT_EXPORT int rconnect(int, const sockaddr*, socklen_t) { return refuse_rsockets(); }
WEFT_EXPORT int rshutdown(int, int) { return refuse_rsockets(); }
WEFT_EXPORT int rclose(int) { return refuse_rsockets(); }

WEFT_EXPORT ssize_t rrecv(int, void*, size_t, int) { return refuse_rsockets(); }
WEFT_EXPORT ssize_t rrecvfrom(int, void*, size_t, int, sockaddr*, socklen_t*) {
  return refuse_rsockets();
}
WEFT_EXPORT ssize_t rrecvmsg(int, msghdr*, int) { return refuse_rsockets(); }
WEFT_EXPORT ssize_t rsend(int, const void*, size_t, int) { return refuse_rsockets(); }
WEFT_EXPORT ssize_t rsendto(int, const void*, size_t, int, const sockaddr*, socklen_t) {
  return refuse_rsockets();
}
WEFT_EXPORT ssize_t rsendmsg(int, const msghdr*, int) { return refuse_rsockets(); }
WEFT_EXPORT ssize_t rread(int, void*, size_t) { return refuse_rsockets(); }
WEFT_EXPORT ssize_t rreadv(int, const iovec*, int) { return refuse_rsockets(); }
WEFT_EXPORT ssize_t rwrite(int, const void*, size_t) { return refuse_rsockets(); }
WEFT_EXPORT ssize_t rwritev(int, const iovec*, int) { return refuse_rsockets(); }

WEFT_EXPORT int rgetpeername(int, sockaddr*, socklen_t*) { return refuse_rsockets(); }
WEFT_EXPORT int rgetsockname(int, sockaddr*, socklen_t*) { return refuse_rsockets(); }
WEFT_EXPORT int rsetsockopt(int, int, int, const void*, socklen_t) { return refuse_rsockets(); }
WEFT_EXPORT int rgetsockopt(int, int, int, void*, socklen_t*) { return refuse_rsockets(); }
WEFT_EXPORT int rfcntl(int, int, ...) { return refuse_rsockets(); }

WEFT_EXPORT off_t riomap(int, void*, size_t, int, int, off_t) { return refuse_rsockets(); }
WEFT_EXPORT int riounmap(int, void*, size_t) { return refuse_rsockets(); }
WEFT_EXPORT size_t riowrite(int, const void*, size_t, off_t, int) {
  return static_cast<size_t>(refuse_rsockets());
}

/// Programs wait for ordinary descriptors with these as well.
WEFT_EXPORT int rpoll(pollfd* descriptors, nfds_t count, int timeout) {
  return poll(descriptors, count, timeout);
}
WEFT_EXPORT int rselect(int count, fd_set* readable, fd_set* writable, fd_set* exceptional,
                        timeval* timeout) {
  return select(count, readable, writable, exceptional, timeout);
}

}  // extern "C"
