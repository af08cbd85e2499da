#include "ulp/rsocket/datagram_endpoint.h"

#include <algorithm>
#include <utility>

namespace weft::rsockets {

DatagramEndpoint::DatagramEndpoint(IpFamily family, const AddressBook& book,
                                   const DatagramLimits& limits)
    : family_(family), book_(book), limits_(limits) {}

// --- names

Result<DatagramName> DatagramEndpoint::named(DatagramName peer) const {
  const auto& own = own_.of(peer.address.family());
  if (!own) {
    return fail(ErrorCode::NetworkUnreachable,
                "the datagram rsocket was bound to an address of the other IP version");
  }
  if (is_own_or_loopback(peer.address)) {
    peer.address = *own;
  }
  return peer;
}

// --- peers

DatagramEndpoint::Slot DatagramEndpoint::next_slot(bool& is_used_anew) {
  is_used_anew = peers_.size() >= limits_.peers;
  if (!is_used_anew) {
    by_slot_.push_back(nullptr);
    return static_cast<Slot>(by_slot_.size() - 1);
  }
  const auto oldest =
      std::ranges::min_element(peers_, {}, [](const auto& each) { return each.second.age; });
  const Slot slot = oldest->second.slot;
  peers_.erase(oldest);
  return slot;
}

DatagramEndpoint::Found DatagramEndpoint::peer_of(const DatagramName& name) {
  if (const auto found = peers_.find(name); found != peers_.end()) {
    return {.peer = &found->second, .is_slot_used_anew = false};
  }
  Found made;
  const Slot slot = next_slot(made.is_slot_used_anew);
  made.peer =
      &peers_.emplace(name, Peer{.name = name, .slot = slot, .age = next_age_++}).first->second;
  by_slot_[slot] = made.peer;
  return made;
}

// --- what comes

std::optional<DatagramOrigin> DatagramEndpoint::take_datagram(ByteSpan octets) const {
  const auto header = read_datagram(octets);
  return header && own_.of(header->from.address.family()) && is_wanted(header->from) ? header
                                                                                     : std::nullopt;
}

/// Whose it is, the system says; the header only, which of the names of whoever is there it is.
std::optional<DatagramEndpoint::UdpMessage> DatagramEndpoint::take_udp(const DatagramName& sender,
                                                                       ByteSpan octets) {
  const auto header = read_udp(octets);
  if (!header || !own_.of(header->address.family())) {
    return std::nullopt;
  }
  DatagramName from = sender;
  if (header->address.is_v6()) {
    from.address = header->address;
    if (book_.ipv4_beside(from.address) != sender.address) {
      return std::nullopt;
    }
  }
  const Found found = peer_of(from);
  Peer& peer = *found.peer;
  const bool is_data = header->operation == UdpOperation::Data;
  UdpMessage message{.from = from,
                     .peer = peer.slot,
                     .is_slot_used_anew = found.is_slot_used_anew,
                     .wants_answer = is_data,
                     .is_path_stale = false,
                     .needs_path = false,
                     .data = std::nullopt};
  if (peer.qpn != header->qpn) {
    peer.qpn = header->qpn;
    if (peer.path == Path::Known) {  // whoever is there now may have come another way
      peer.path = Path::Unknown;
      message.is_path_stale = true;
    }
  }
  message.needs_path = peer.path == Path::Unknown;
  if (is_data && is_wanted(from)) {
    message.data = octets.subspan(header->header_bytes);
  }
  return message;
}

// --- what goes

std::size_t DatagramEndpoint::write_header_to(const DatagramName& peer, std::byte* to) const {
  return write_datagram_header({.address = *own_.of(peer.address.family()), .port = own_.port}, to);
}

std::size_t DatagramEndpoint::write_udp_header_to(const DatagramName& peer, UdpOperation operation,
                                                  std::uint32_t qpn, std::byte* to) const {
  return write_udp_header(operation, qpn, *own_.of(peer.address.family()), to);
}

std::optional<DatagramName> DatagramEndpoint::udp_name_of(const DatagramName& name) const {
  const auto address = book_.ipv4_beside(name.address);
  return address ? std::optional{DatagramName{.address = *address, .port = name.port}}
                 : std::nullopt;
}

}  // namespace weft::rsockets
