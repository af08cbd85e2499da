#include "compat/rdmacm/rsockets/socket.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "compat/rdmacm/refusals.h"
#include "compat/rdmacm/translate.h"

namespace weft::rsockets {

int RegisteredMemory::make(ibv_pd* pd, std::size_t bytes, int access) {
  memory_ = std::make_unique<std::byte[]>(bytes);
  region_ = ibv_reg_mr(pd, memory_.get(), bytes, access);
  return region_ == nullptr ? -1 : 0;
}

void RegisteredMemory::reset() {
  if (region_ != nullptr) {
    ibv_dereg_mr(region_);
    region_ = nullptr;
  }
  memory_.reset();
}

std::uint64_t RegisteredMemory::address() const {
  std::uint64_t value{};
  const std::byte* const start = memory_.get();
  std::memcpy(&value, &start, sizeof start);
  return value;
}

int create_queues(rdma_cm_id& cm, std::uint32_t entries) {
  cm.recv_cq_channel = ibv_create_comp_channel(cm.verbs);
  if (cm.recv_cq_channel == nullptr) {
    return -1;
  }
  const int fd = cm.recv_cq_channel->fd;
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  cm.recv_cq = ibv_create_cq(cm.verbs, static_cast<int>(entries), &cm, cm.recv_cq_channel, 0);
  if (cm.recv_cq == nullptr) {
    return -1;
  }
  cm.send_cq = cm.recv_cq;
  cm.send_cq_channel = cm.recv_cq_channel;
  return 0;
}

int copy_address(const sockaddr_storage& from, sockaddr* to, socklen_t* bytes) {
  const socklen_t length =
      compat::length_of(static_cast<const sockaddr*>(static_cast<const void*>(&from)));
  if (length == 0) {
    return compat::refuse(ENOTCONN, "the socket has no such address yet");
  }
  if (to != nullptr && bytes != nullptr) {
    std::memcpy(to, &from, std::min(*bytes, length));
    *bytes = length;
  }
  return 0;
}

// --- only streams have these

int Socket::listen(int) {
  return compat::refuse(EOPNOTSUPP, "a datagram socket hears everybody: it does not listen");
}

std::shared_ptr<Socket> Socket::accept() {
  compat::refuse(EOPNOTSUPP, "nobody connects to a datagram socket");
  return nullptr;
}

off_t Socket::map(void*, std::size_t, int, off_t) {
  return compat::refuse(EOPNOTSUPP, "streams alone map memory");
}

int Socket::unmap(const void*, std::size_t) {
  return compat::refuse(EOPNOTSUPP, "streams alone map memory");
}

ssize_t Socket::write_at(const std::byte*, std::size_t, off_t, int) {
  return compat::refuse(EOPNOTSUPP, "streams alone map memory");
}

}  // namespace weft::rsockets
