// Whom a datagram socket speaks to: what peers say over UDP, and how a way to them is found. Called
// with the socket's lock held.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "compat/rdmacm/ids.h"
#include "compat/rdmacm/refusals.h"
#include "compat/rdmacm/rsockets/datagram.h"
#include "fabric/addresses.h"

namespace weft::rsockets {
namespace {

template <class Address>
[[nodiscard]] sockaddr* generic(Address& address) {
  return static_cast<sockaddr*>(static_cast<void*>(&address));
}

/// Which of the port's GIDs a path begins with; 0 if it says none of them.
[[nodiscard]] std::uint8_t index_of(const rdma_cm_id& id, const ibv_gid& gid) {
  ibv_port_attr port{};
  if (ibv_query_port(id.verbs, id.port_num, &port) != 0) {
    return 0;
  }
  for (int i = 0; i < std::min(port.gid_tbl_len, 256); ++i) {
    ibv_gid own{};
    if (ibv_query_gid(id.verbs, id.port_num, i, &own) == 0 &&
        std::memcmp(&own, &gid, sizeof gid) == 0) {
      return static_cast<std::uint8_t>(i);
    }
  }
  return 0;
}

/// The address vector of a path; global only if it leaves the subnet.
[[nodiscard]] ibv_ah_attr vector_of(const rdma_cm_id& id) {
  const ibv_sa_path_rec& path = *id.route.path_rec;
  ibv_port_attr port{};
  const bool has_lmc = ibv_query_port(id.verbs, id.port_num, &port) == 0;
  ibv_ah_attr out{};
  if (path.hop_limit > 1) {
    out.is_global = 1;
    out.grh.dgid = path.dgid;
    out.grh.flow_label = ntohl(path.flow_label);
    out.grh.sgid_index = index_of(id, path.sgid);
    out.grh.hop_limit = path.hop_limit;
    out.grh.traffic_class = path.traffic_class;
  }
  out.dlid = ntohs(path.dlid);
  out.sl = path.sl;
  out.src_path_bits =
      static_cast<std::uint8_t>(ntohs(path.slid) & (has_lmc ? (1U << port.lmc) - 1 : 0));
  out.static_rate = path.rate;
  out.port_num = id.port_num;
  return out;
}

}  // namespace

// --- who is known

/// Who has this address; the oldest is forgotten for somebody new beyond the limit.
DatagramSocket::Peer& DatagramSocket::peer_of(const DatagramName& name) {
  if (const auto found = peers_.find(name); found != peers_.end()) {
    return found->second;
  }
  if (peers_.size() >= limits_.peers) {
    const auto oldest =
        std::ranges::min_element(peers_, {}, [](const auto& each) { return each.second.age; });
    forget(oldest->second);
    peers_.erase(oldest);
  }
  return peers_.emplace(name, Peer{.name = name, .age = next_age_++}).first->second;
}

/// What is held for it.
void DatagramSocket::forget(Peer& peer) {
  end_search(peer);
  if (peer.way != nullptr) {
    old_ways_.push_back(std::exchange(peer.way, nullptr));
  }
}

// --- UDP

/// As sendto(2), without the header. The socket has an address of the peer's family.
ssize_t DatagramSocket::send_by_udp(const Peer& peer, UdpOperation operation,
                                    std::span<const std::byte> data, int flags) {
  auto to = udp_address_of(peer.name);
  if (!to) {
    return compat::refuse(ENETUNREACH,
                          "datagram rsockets find IPv6 addresses by position alone: fd77::N of hN");
  }
  std::byte octets[kDatagramSlotBytes];
  const std::size_t header =
      write_udp_header(operation, cm_->qp->qp_num, *own_.of(peer.name.address.family()), octets);
  std::ranges::copy(data, octets + header);
  const ssize_t done = sendto(fd(), octets, header + data.size(), waits(flags) ? 0 : MSG_DONTWAIT,
                              generic(*to), sizeof *to);
  return done < 0 ? -1 : static_cast<ssize_t>(data.size());
}

void DatagramSocket::take_udp_messages() {
  std::byte octets[kDatagramSlotBytes];
  for (std::size_t i = 0; cm_ != nullptr && i < limits_.messages; ++i) {
    sockaddr_in from{};
    socklen_t bytes = sizeof from;
    const ssize_t got = recvfrom(fd(), octets, sizeof octets, MSG_DONTWAIT, generic(from), &bytes);
    if (got < 0) {
      return;
    }
    if (bytes == sizeof from && from.sin_family == AF_INET) {
      take_udp_message(from, {octets, static_cast<std::size_t>(got)});
    }
  }
}

/// Whose it is, the system says; the header only, which of the names of whoever is there it is.
void DatagramSocket::take_udp_message(const sockaddr_in& sender,
                                      std::span<const std::byte> octets) {
  const auto header = read_udp(octets);
  if (!header || !own_.of(header->address.family())) {
    return;  // no rsocket's, or for an address that this socket does not have
  }
  DatagramName from{.address = IpAddress::v4(ntohl(sender.sin_addr.s_addr)),
                    .port = ntohs(sender.sin_port)};
  if (header->address.is_v6()) {
    const IpAddress seen = std::exchange(from.address, header->address);
    if (fabric::ipv4_beside(from.address) != seen) {
      return;
    }
  }
  Peer& peer = peer_of(from);
  if (header->operation == UdpOperation::Data) {
    static_cast<void>(send_by_udp(peer, UdpOperation::Control, {}, MSG_DONTWAIT));
  }
  if (peer.qpn != header->qpn) {
    peer.qpn = header->qpn;
    if (peer.way != nullptr) {  // whoever is there now may have come another way
      old_ways_.push_back(std::exchange(peer.way, nullptr));
    }
  }
  if (peer.way == nullptr && peer.search == nullptr) {
    search(peer);
  }
  if (header->operation == UdpOperation::Data && may_read_ && is_wanted(from) &&
      arrived_.size() < options_.receive_depth) {
    const auto data = octets.subspan(header->header_bytes);
    arrived_.push_back({
        .from = from,
        .slot = std::nullopt,
        .header_bytes = 0,
        .bytes = static_cast<std::uint32_t>(data.size()),
        .octets = {data.begin(), data.end()}
    });
  }
}

// --- ways

/// Begins to look for one; what is sent meanwhile goes by UDP.
void DatagramSocket::search(Peer& peer) {
  if (searches_under_way_ >= limits_.searches ||
      rdma_create_id(searches_, &peer.search, nullptr, RDMA_PS_UDP) != 0) {
    peer.search = nullptr;
    return;
  }
  ++searches_under_way_;
  const auto family = peer.name.address.family();
  sockaddr_storage from = as_socket_address({.address = *own_.of(family), .port = 0});
  sockaddr_storage to = as_socket_address(peer.name);
  if (rdma_resolve_addr(peer.search, generic(from), generic(to), limits_.search_ms) != 0) {
    end_search(peer);
  }
}

void DatagramSocket::end_search(Peer& peer) {
  if (peer.search != nullptr) {
    rdma_destroy_id(std::exchange(peer.search, nullptr));
    --searches_under_way_;
  }
}

void DatagramSocket::keep_way(Peer& peer, const rdma_cm_id& found) {
  if (found.route.num_paths < 1 || found.port_num != cm_->port_num || found.verbs != cm_->verbs) {
    return;  // of another port than the QP's: there is no way but UDP
  }
  ibv_ah_attr way = vector_of(found);
  peer.way = ibv_create_ah(cm_->pd, &way);
}

void DatagramSocket::take_search_events() {
  rdma_cm_event* event = nullptr;
  while (searches_under_way_ > 0 && rdma_get_cm_event(searches_, &event) == 0) {
    const rdma_cm_id* const id = event->id;
    const rdma_cm_event_type type = event->event;
    rdma_ack_cm_event(event);
    const auto found =
        std::ranges::find_if(peers_, [&](const auto& each) { return each.second.search == id; });
    if (found == peers_.end()) {
      continue;
    }
    Peer& peer = found->second;
    if (type == RDMA_CM_EVENT_ADDR_RESOLVED &&
        rdma_resolve_route(peer.search, limits_.search_ms) == 0) {
      continue;
    }
    if (type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
      keep_way(peer, *id);
    }
    end_search(peer);  // in vain, perhaps: the peer's next message begins another
  }
}

}  // namespace weft::rsockets
