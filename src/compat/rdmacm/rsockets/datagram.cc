// Datagram sockets: the calls of programs, and the QP.

#include "compat/rdmacm/rsockets/datagram.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

#include "compat/rdmacm/ids.h"
#include "compat/rdmacm/refusals.h"
#include "compat/rdmacm/rsockets/datagram_address.h"
#include "compat/rdmacm/translate.h"
#include "os/clock.h"

namespace weft::rsockets {
namespace {

constexpr std::size_t kGrhBytes = 40;  // in front of each datagram that a UD QP receives
constexpr std::size_t kReceiveBytes = kGrhBytes + kDatagramSlotBytes;
constexpr std::uint64_t kIsSend = std::uint64_t{1}
                                  << 32;  // in a work request's wr_id; the rest is the slot
constexpr std::uint32_t kLeastDepth = 16;
constexpr std::uint32_t kSendsBetweenPolls = 16;  // policy
constexpr std::uint32_t kMaxDepth = 0x7FFF;

template <class Address>
[[nodiscard]] sockaddr* generic(Address& address) {
  return static_cast<sockaddr*>(static_cast<void*>(&address));
}

int refuse_too_long() {
  return compat::refuse(EMSGSIZE,
                        "a datagram of rsockets has 2032 octets at most, of AF_INET6 2020");
}

}  // namespace

// --- waiting

/// Consumes a notification of the completion channel.
void DatagramSocket::take_sign() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (cm_ != nullptr && ibv_get_cq_event(cm_->recv_cq_channel, &cq, &context) == 0) {
    ibv_ack_cq_events(cq, 1);
  }
}

/// Returns 0 when `condition` holds; -1 with EAGAIN if it does not and `waits` is false. The socket
/// is open and stays open.
template <class Condition>
int DatagramSocket::wait(Lock& lock, bool waits, Condition condition) {
  const Instant spin_until = os::now() + kSpin;
  take_completions();
  while (!condition()) {
    take_all();
    if (condition()) {
      return 0;
    }
    if (!waits) {
      errno = EAGAIN;
      return -1;
    }
    if (os::now() < spin_until) {
      continue;
    }
    ibv_req_notify_cq(cm_->recv_cq, 0);
    take_completions();  // completions that preceded the request
    if (condition()) {
      return 0;
    }
    pollfd signs[] = {
        {.fd = fd(),                     .events = POLLIN, .revents = 0},
        {.fd = cm_->recv_cq_channel->fd, .events = POLLIN, .revents = 0},
        {.fd = searches_->fd,            .events = POLLIN, .revents = 0}
    };
    lock.unlock();
    poll(signs, std::size(signs), kRepollMs);
    lock.lock();
    take_sign();
  }
  return 0;
}

DatagramSocket::DatagramSocket(os::UniqueFd udp, int family)
    : udp_(std::move(udp)),
      family_(family),
      endpoint_(family == AF_INET ? IpFamily::V4 : IpFamily::V6, address_book(), limits_) {}

DatagramSocket::~DatagramSocket() {
  const int error = errno;  // of the call that released the socket last
  for (std::size_t slot = 0; slot < objects_.size(); ++slot) {
    forget(static_cast<DatagramEndpoint::Slot>(slot));
  }
  close_id();
  errno = error;
}

/// Destroys the id with its QP.
void DatagramSocket::close_id() {
  if (cm_ != nullptr && cm_->qp != nullptr) {
    rdma_destroy_qp(cm_);
  }
  for (ibv_ah* const path : old_paths_) {
    ibv_destroy_ah(path);
  }
  old_paths_.clear();
  send_memory_.reset();
  receive_memory_.reset();
  if (searches_ != nullptr) {
    rdma_destroy_event_channel(std::exchange(searches_, nullptr));
  }
  if (cm_ != nullptr) {
    rdma_destroy_id(std::exchange(cm_, nullptr));
  }
}

/// An AF_INET6 socket also accepts addresses of AF_INET, as in Linux.
std::optional<DatagramName> DatagramSocket::read(const sockaddr* address) const {
  auto name = read_name(address);
  if (!name || (family_ == AF_INET && address->sa_family != AF_INET)) {
    compat::refuse(EAFNOSUPPORT, "the address is of another family than the datagram rsocket");
    return std::nullopt;
  }
  return name;
}

void DatagramSocket::tell(const DatagramName& from, Sender sender) const {
  if (sender.address != nullptr && sender.bytes != nullptr) {
    const sockaddr_storage address = for_socket_of(family_, from);
    const socklen_t bytes = compat::length_of(compat::generic(address));
    std::memcpy(sender.address, &address, std::min(*sender.bytes, bytes));
    *sender.bytes = bytes;
  }
}

// --- opening

int DatagramSocket::create_queue_pair() {
  const auto fit = [&](std::uint32_t depth, std::uint32_t bytes) {
    const std::uint32_t most = std::min(compat::id_of(cm_).device->max_qp_wr, kMaxDepth);
    const auto slots = static_cast<std::uint32_t>(bytes / kDatagramSlotBytes);
    return std::clamp(std::min(depth, slots), kLeastDepth, most);
  };
  options_.send_depth = fit(options_.send_depth, options_.send_bytes);
  options_.receive_depth = fit(options_.receive_depth, options_.receive_bytes);
  if (create_queues(*cm_, options_.send_depth + options_.receive_depth) != 0) {
    return -1;
  }
  ibv_qp_init_attr wish{};
  wish.qp_type = IBV_QPT_UD;
  wish.sq_sig_all = 1;
  wish.send_cq = wish.recv_cq = cm_->recv_cq;
  wish.cap.max_send_wr = options_.send_depth;
  wish.cap.max_recv_wr = options_.receive_depth;
  wish.cap.max_send_sge = wish.cap.max_recv_sge = 1;
  if (rdma_create_qp(cm_, nullptr, &wish) != 0 ||
      send_memory_.make(cm_->pd, options_.send_depth * kDatagramSlotBytes,
                        IBV_ACCESS_LOCAL_WRITE) != 0 ||
      receive_memory_.make(cm_->pd, options_.receive_depth * kReceiveBytes,
                           IBV_ACCESS_LOCAL_WRITE) != 0) {
    return -1;
  }
  free_sends_.resize(options_.send_depth);
  std::iota(free_sends_.begin(), free_sends_.end(), 0U);
  for (std::uint32_t slot = 0; slot < options_.receive_depth; ++slot) {
    if (post_receive(slot) != 0) {
      return -1;
    }
  }
  return 0;
}

/// Binds the UDP socket and the id to the same port. If the program leaves the choice, it is the
/// system's, unless RDMA-CM has assigned that port to another program of this host.
int DatagramSocket::bind_both(OwnNames& names) {
  const auto udp = endpoint_.udp_name_of(names.main());
  if (!udp) {
    return compat::refuse(EADDRNOTAVAIL,
                          "datagram rsockets have IPv6 addresses by position alone: fd77::N of hN");
  }
  sockaddr_in address = as_udp_address(*udp);
  const bool is_free_choice = names.port == 0;
  for (int tries = is_free_choice ? limits_.ports : 1; tries > 0; --tries) {
    // A UDP socket can be bound only once, so another socket probes which port the system would
    // choose.
    const os::UniqueFd probe{is_free_choice ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1};
    if (is_free_choice) {
      socklen_t bytes = sizeof address;
      address.sin_port = 0;
      if (::bind(probe.get(), generic(address), sizeof address) != 0 ||
          getsockname(probe.get(), generic(address), &bytes) != 0) {
        return -1;
      }
      names.port = ntohs(address.sin_port);
    }
    sockaddr_storage id = as_socket_address(names.main());
    if (rdma_bind_addr(cm_, generic(id)) == 0) {
      break;
    }
    if (errno != EADDRINUSE || tries == 1) {
      return -1;
    }
  }
  return ::bind(udp_.get(), generic(address), sizeof address);
}

/// Opens the socket under these names. Returns 0, or -1 with errno.
int DatagramSocket::open(OwnNames names) {
  if (rdma_create_id(nullptr, &cm_, nullptr, RDMA_PS_UDP) != 0) {
    return -1;
  }
  int reuse = (options_.socket_switches >> SO_REUSEADDR & 1) != 0 ? 1 : 0;
  searches_ = rdma_create_event_channel();
  if (searches_ == nullptr ||
      fcntl(searches_->fd, F_SETFL, fcntl(searches_->fd, F_GETFL) | O_NONBLOCK) != 0 ||
      (reuse != 0 &&
       rdma_set_option(cm_, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse, sizeof reuse) != 0) ||
      bind_both(names) != 0 || create_queue_pair() != 0) {
    const int error = errno;
    close_id();
    errno = error;
    return -1;
  }
  endpoint_.open(names);
  return 0;
}

/// The host's own address towards a destination; nullopt after refuse().
std::optional<IpAddress> DatagramSocket::source_address_for(const DatagramName& destination) const {
  rdma_cm_id* asking = nullptr;
  if (rdma_create_id(nullptr, &asking, nullptr, RDMA_PS_UDP) != 0) {
    return std::nullopt;
  }
  sockaddr_storage to = as_socket_address(destination);
  const int result = rdma_resolve_addr(asking, nullptr, generic(to), limits_.search_ms);
  const auto here = read_name(&asking->route.addr.src_addr);
  const int error = errno;
  rdma_destroy_id(asking);
  errno = error;
  return result == 0 && here ? std::optional{here->address} : std::nullopt;
}

DatagramFamily DatagramSocket::family() const {
  return {.family = family_ == AF_INET ? IpFamily::V4 : IpFamily::V6,
          .is_v6_only = (options_.ip6_switches >> IPV6_V6ONLY & 1) != 0};
}

/// Opens the socket under the address used for this destination, and any port.
int DatagramSocket::open_for_destination(const DatagramName& destination) {
  const auto here = source_address_for(destination);
  return here ? open(names_beside(*here, family(), address_book())) : -1;
}

int DatagramSocket::bind(const sockaddr* address) {
  const auto wish = read(address);
  if (!wish) {
    return -1;
  }
  const Lock lock{lock_};
  if (cm_ != nullptr) {
    return compat::refuse(EINVAL, "the socket has an address already");
  }
  if (!is_own_or_loopback(wish->address)) {
    return open(names_of(*wish));
  }
  // Hosts share the machine's loopback, so each is known by an address of its own.
  const auto here =
      source_address_for({.address = IpAddress::v4(INADDR_LOOPBACK), .port = wish->port});
  return here ? open(names_of_whatever(*wish, *here, family(), address_book())) : -1;
}

/// Resolves a peer's name in place; -1 after refuse() if this socket has no address of its family.
int DatagramSocket::name_peer(DatagramName& peer) const {
  const auto named = endpoint_.named(peer);
  if (!named) {
    return compat::refuse(ENETUNREACH, named.error().reason);
  }
  peer = *named;
  return 0;
}

int DatagramSocket::connect(const sockaddr* address) {
  auto peer = read(address);
  if (!peer) {
    return -1;
  }
  const Lock lock{lock_};
  if ((cm_ == nullptr && open_for_destination(*peer) != 0) || name_peer(*peer) != 0) {
    return -1;
  }
  endpoint_.connect(*peer);
  std::erase_if(arrived_, [&](const Arrived& each) {
    const bool goes = !endpoint_.is_wanted(each.from);
    if (goes && each.slot) {
      static_cast<void>(post_receive(*each.slot));
    }
    return goes;
  });
  return 0;
}

int DatagramSocket::shutdown(int how) {
  const Lock lock{lock_};
  if (!endpoint_.connected_to()) {
    return compat::refuse(ENOTCONN, "the socket is not connected");
  }
  may_read_ = may_read_ && how == SHUT_WR;
  may_write_ = may_write_ && how == SHUT_RD;
  return 0;
}

// --- the QP

int DatagramSocket::post_receive(std::uint32_t slot) {
  ibv_sge room{.addr = receive_memory_.address() + slot * kReceiveBytes,
               .length = kReceiveBytes,
               .lkey = receive_memory_.lkey()};
  ibv_recv_wr wr{};
  wr.wr_id = slot;
  wr.sg_list = &room;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return compat::result_of_verb(ibv_post_recv(cm_->qp, &wr, &bad));
}

/// Sends by the QP, from a free slot.
ssize_t DatagramSocket::post(const Peer& peer, const std::byte* data, std::size_t bytes) {
  const std::uint32_t slot = free_sends_.back();
  const std::size_t at = slot * kDatagramSlotBytes;
  const std::size_t header = endpoint_.write_header_to(peer.name, send_memory_.data() + at);
  std::copy_n(data, bytes, send_memory_.data() + at + header);
  ibv_sge piece{.addr = send_memory_.address() + at,
                .length = static_cast<std::uint32_t>(header + bytes),
                .lkey = send_memory_.lkey()};
  ibv_send_wr wr{};
  wr.wr_id = kIsSend | slot;
  wr.opcode = IBV_WR_SEND;
  wr.sg_list = &piece;
  wr.num_sge = 1;
  wr.wr.ud.ah = objects_of(peer).path;
  wr.wr.ud.remote_qpn = peer.qpn;
  wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
  ibv_send_wr* bad = nullptr;
  if (compat::result_of_verb(ibv_post_send(cm_->qp, &wr, &bad)) != 0) {
    return -1;
  }
  free_sends_.pop_back();
  return static_cast<ssize_t>(bytes);
}

void DatagramSocket::take_datagram(std::uint32_t slot, std::uint32_t bytes) {
  const std::byte* const start = receive_memory_.data() + slot * kReceiveBytes + kGrhBytes;
  const auto header =
      endpoint_.take_datagram({start, bytes - std::min<std::size_t>(bytes, kGrhBytes)});
  if (!header) {
    static_cast<void>(post_receive(slot));
    return;
  }
  arrived_.push_back({.from = header->from,
                      .slot = slot,
                      .header_bytes = header->header_bytes,
                      .bytes = static_cast<std::uint32_t>(bytes - kGrhBytes - header->header_bytes),
                      .octets = {}});
}

void DatagramSocket::take_completions() {
  ibv_wc done[16];
  int count = 0;
  while (cm_ != nullptr && (count = ibv_poll_cq(cm_->recv_cq, std::size(done), done)) > 0) {
    for (const ibv_wc& each : std::span{done, static_cast<std::size_t>(count)}) {
      const auto slot = static_cast<std::uint32_t>(each.wr_id);
      if ((each.wr_id & kIsSend) != 0) {
        free_sends_.push_back(slot);
      } else if (each.status == IBV_WC_SUCCESS) {
        take_datagram(slot, each.byte_len);
      } else {
        static_cast<void>(post_receive(slot));
      }
    }
  }
  if (!old_paths_.empty() && free_sends_.size() == options_.send_depth) {
    std::ranges::for_each(std::exchange(old_paths_, {}), ibv_destroy_ah);
  }
}

/// Processes everything that has arrived.
void DatagramSocket::take_all() {
  take_completions();
  take_udp_messages();
  take_search_events();
}

// --- data

ssize_t DatagramSocket::receive(std::byte* out, std::size_t bytes, int flags, Sender sender) {
  const iovec piece{.iov_base = out, .iov_len = bytes};
  return receive_pieces({&piece, 1}, flags, sender);
}

/// Receives one datagram; what does not fit is lost, as with any datagram socket.
ssize_t DatagramSocket::receive_pieces(std::span<const iovec> pieces, int flags, Sender sender) {
  Lock lock{lock_};
  if (cm_ == nullptr) {
    return compat::refuse(EINVAL, "the socket has no address yet that a datagram could come to");
  }
  if (wait(lock, waits(flags), [&] { return !arrived_.empty() || !may_read_; }) != 0) {
    return -1;
  }
  if (arrived_.empty()) {
    return 0;
  }
  const Arrived& first = arrived_.front();
  const std::byte* from = first.slot ? receive_memory_.data() + *first.slot * kReceiveBytes +
                                           kGrhBytes + first.header_bytes
                                     : first.octets.data();
  std::size_t left = first.bytes;
  std::size_t done = 0;
  for (const iovec& each : pieces) {
    const std::size_t part = std::min(each.iov_len, left);
    std::copy_n(from + done, part, static_cast<std::byte*>(each.iov_base));
    done += part;
    left -= part;
  }
  tell(first.from, sender);
  if ((flags & MSG_PEEK) == 0) {
    if (first.slot) {
      static_cast<void>(post_receive(*first.slot));
    }
    arrived_.pop_front();
  }
  return static_cast<ssize_t>(done);
}

ssize_t DatagramSocket::send(const std::byte* data, std::size_t bytes, int flags,
                             const sockaddr* to) {
  const auto said = to == nullptr ? std::nullopt : read(to);
  if (to != nullptr && !said) {
    return -1;
  }
  if (bytes > endpoint_.max_bytes()) {
    return refuse_too_long();
  }
  Lock lock{lock_};
  if (to == nullptr && !endpoint_.connected_to()) {
    return compat::refuse(EDESTADDRREQ, "the datagram goes nowhere: connect the socket first");
  }
  if (!may_write_) {
    return compat::refuse(EPIPE, "the socket was shut for sending");
  }
  if (cm_ == nullptr && open_for_destination(*said) != 0) {
    return -1;
  }
  DatagramName there = said ? *said : *endpoint_.connected_to();
  if (name_peer(there) != 0) {
    return -1;
  }
  // The path may have been found or changed meanwhile; a program that only sends checks for that
  // now and then.
  const auto has_path = [&] { return peer_of(there).path == DatagramEndpoint::Path::Known; };
  if (!has_path() || ++sends_ % kSendsBetweenPolls == 0) {
    take_all();
  }
  if (has_path() && wait(lock, waits(flags), [&] { return !free_sends_.empty(); }) != 0) {
    return -1;
  }
  // Look it up again: another thread may have held the lock meanwhile.
  const Peer& peer = peer_of(there);
  return peer.path == DatagramEndpoint::Path::Known && !free_sends_.empty()
             ? post(peer, data, bytes)
             : send_by_udp(peer, UdpOperation::Data, {data, bytes}, flags);
}

ssize_t DatagramSocket::send_pieces(std::span<const iovec> pieces, int flags, const sockaddr* to) {
  std::size_t bytes = 0;
  for (const iovec& each : pieces) {
    bytes += each.iov_len;
  }
  if (bytes > endpoint_.max_bytes()) {
    return refuse_too_long();
  }
  std::vector<std::byte> whole;
  whole.reserve(bytes);
  for (const iovec& each : pieces) {
    const auto* const start = static_cast<const std::byte*>(each.iov_base);
    whole.insert(whole.end(), start, start + each.iov_len);
  }
  return send(whole.data(), whole.size(), flags, to);
}

// --- state for poll() and options

sockaddr_storage DatagramSocket::own_address() {
  const Lock lock{lock_};
  sockaddr_storage none{};
  none.ss_family = static_cast<sa_family_t>(family_);
  return cm_ == nullptr ? none : for_socket_of(family_, endpoint_.own().main());
}

sockaddr_storage DatagramSocket::peer_address() {
  const Lock lock{lock_};
  const auto& peer = endpoint_.connected_to();
  return peer ? for_socket_of(family_, *peer) : sockaddr_storage{};
}

bool DatagramSocket::is_nonblocking() {
  const Lock lock{lock_};
  return is_nonblocking_;
}

int DatagramSocket::set_nonblocking(bool nonblocking) {
  const Lock lock{lock_};
  is_nonblocking_ = nonblocking;
  return 0;
}

bool DatagramSocket::is_open() {
  const Lock lock{lock_};
  return cm_ != nullptr;
}

int DatagramSocket::set_id_option(int name, int value) {
  if (name == RDMA_OPTION_ID_REUSEADDR) {
    return setsockopt(fd(), SOL_SOCKET, SO_REUSEADDR, &value, sizeof value);
  }
  if (name == RDMA_OPTION_ID_AFONLY && family_ == AF_INET6) {
    return is_open() ? compat::refuse(EINVAL, "IPV6_V6ONLY comes before the address") : 0;
  }
  return compat::refuse(ENOTSUP, "a datagram rsocket of AF_INET is of IPv4 alone");
}

short DatagramSocket::readiness(short events) {
  const Lock lock{lock_};
  take_all();
  const int ready = (!arrived_.empty() || !may_read_ ? POLLIN : 0) |
                    (cm_ == nullptr || !free_sends_.empty() ? POLLOUT : 0);
  return static_cast<short>(ready & events);
}

void DatagramSocket::watch(short, std::vector<pollfd>& descriptors) {
  const Lock lock{lock_};
  const auto add = [&](int descriptor) {
    descriptors.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  };
  add(fd());
  if (cm_ != nullptr) {
    ibv_req_notify_cq(cm_->recv_cq, 0);
    add(cm_->recv_cq_channel->fd);
    add(searches_->fd);
  }
}

void DatagramSocket::unwatch() {
  const Lock lock{lock_};
  take_sign();
  take_all();
}

}  // namespace weft::rsockets
