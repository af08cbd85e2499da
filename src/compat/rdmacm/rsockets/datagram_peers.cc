// Peers of a datagram socket: traffic over UDP, and path queries. Caller must hold the socket's
// lock.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "compat/rdmacm/ids.h"
#include "compat/rdmacm/refusals.h"
#include "compat/rdmacm/rsockets/datagram.h"
#include "compat/rdmacm/rsockets/datagram_address.h"

namespace weft::rsockets {
namespace {

template <class Address>
[[nodiscard]] sockaddr* generic(Address& address) {
  return static_cast<sockaddr*>(static_cast<void*>(&address));
}

/// The index of the path's SGID in the port's GID table; 0 if it is not there.
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

// --- known peers

DatagramSocket::Peer& DatagramSocket::peer_of(const DatagramName& name) {
  const DatagramEndpoint::Found found = endpoint_.peer_of(name);
  if (found.is_slot_used_anew) {
    forget(found.peer->slot);
  }
  return *found.peer;
}

DatagramSocket::PeerObjects& DatagramSocket::objects_of(const Peer& peer) {
  if (objects_.size() <= peer.slot) {
    objects_.resize(peer.slot + 1);
  }
  return objects_[peer.slot];
}

/// Releases the objects of the slot's previous peer.
void DatagramSocket::forget(DatagramEndpoint::Slot slot) {
  if (slot < objects_.size()) {
    end_search(objects_[slot]);
    forget_path(slot);
  }
}

void DatagramSocket::forget_path(DatagramEndpoint::Slot slot) {
  if (slot < objects_.size() && objects_[slot].path != nullptr) {
    old_paths_.push_back(std::exchange(objects_[slot].path, nullptr));
  }
}

// --- UDP

/// As sendto(2), without the header. The socket must have an address of the peer's family.
ssize_t DatagramSocket::send_by_udp(const Peer& peer, UdpOperation operation,
                                    std::span<const std::byte> data, int flags) {
  const auto name = endpoint_.udp_name_of(peer.name);
  if (!name) {
    return compat::refuse(ENETUNREACH,
                          "datagram rsockets find IPv6 addresses by position alone: fd77::N of hN");
  }
  sockaddr_in to = as_udp_address(*name);
  std::byte octets[kDatagramSlotBytes];
  const std::size_t header =
      endpoint_.write_udp_header_to(peer.name, operation, cm_->qp->qp_num, octets);
  std::ranges::copy(data, octets + header);
  const ssize_t done = sendto(fd(), octets, header + data.size(), waits(flags) ? 0 : MSG_DONTWAIT,
                              generic(to), sizeof to);
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

void DatagramSocket::take_udp_message(const sockaddr_in& sender,
                                      std::span<const std::byte> octets) {
  const auto message = endpoint_.take_udp(
      {.address = IpAddress::v4(ntohl(sender.sin_addr.s_addr)), .port = ntohs(sender.sin_port)},
      octets);
  if (!message) {
    return;
  }
  if (message->is_slot_used_anew) {
    forget(message->peer);
  }
  Peer& peer = endpoint_.peer_at(message->peer);
  if (message->wants_answer) {
    static_cast<void>(send_by_udp(peer, UdpOperation::Control, {}, MSG_DONTWAIT));
  }
  if (message->is_path_stale) {
    forget_path(message->peer);
  }
  if (message->needs_path) {
    search(peer);
  }
  if (message->data && may_read_ && arrived_.size() < options_.receive_depth) {
    arrived_.push_back({
        .from = message->from,
        .slot = std::nullopt,
        .header_bytes = 0,
        .bytes = static_cast<std::uint32_t>(message->data->size()),
        .octets = {message->data->begin(), message->data->end()}
    });
  }
}

// --- paths

/// Starts a path query; datagrams are sent by UDP meanwhile.
void DatagramSocket::search(Peer& peer) {
  PeerObjects& objects = objects_of(peer);
  if (searches_in_progress_ >= limits_.searches ||
      rdma_create_id(searches_, &objects.search, nullptr, RDMA_PS_UDP) != 0) {
    objects.search = nullptr;
    return;
  }
  ++searches_in_progress_;
  peer.path = DatagramEndpoint::Path::Searched;
  const auto& own = endpoint_.own().of(peer.name.address.family());
  sockaddr_storage from = as_socket_address({.address = *own, .port = 0});
  sockaddr_storage to = as_socket_address(peer.name);
  if (rdma_resolve_addr(objects.search, generic(from), generic(to), limits_.search_ms) != 0) {
    end_search(objects);
    peer.path = DatagramEndpoint::Path::Unknown;
  }
}

void DatagramSocket::end_search(PeerObjects& objects) {
  if (objects.search != nullptr) {
    rdma_destroy_id(std::exchange(objects.search, nullptr));
    --searches_in_progress_;
  }
}

void DatagramSocket::keep_path(Peer& peer, const rdma_cm_id& found) {
  if (found.route.num_paths < 1 || found.port_num != cm_->port_num || found.verbs != cm_->verbs) {
    return;  // through another port than the QP's: only UDP leads there
  }
  ibv_ah_attr path = vector_of(found);
  objects_of(peer).path = ibv_create_ah(cm_->pd, &path);
}

void DatagramSocket::take_search_events() {
  rdma_cm_event* event = nullptr;
  while (searches_in_progress_ > 0 && rdma_get_cm_event(searches_, &event) == 0) {
    const rdma_cm_id* const id = event->id;
    const rdma_cm_event_type type = event->event;
    rdma_ack_cm_event(event);
    const auto found = std::ranges::find(objects_, id, &PeerObjects::search);
    if (found == objects_.end()) {
      continue;
    }
    if (type == RDMA_CM_EVENT_ADDR_RESOLVED &&
        rdma_resolve_route(found->search, limits_.search_ms) == 0) {
      continue;
    }
    Peer& peer = endpoint_.peer_at(static_cast<DatagramEndpoint::Slot>(found - objects_.begin()));
    if (type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
      keep_path(peer, *id);
    }
    end_search(*found);
    // Without a result, the peer's next message starts another query.
    peer.path =
        found->path != nullptr ? DatagramEndpoint::Path::Known : DatagramEndpoint::Path::Unknown;
  }
}

}  // namespace weft::rsockets
