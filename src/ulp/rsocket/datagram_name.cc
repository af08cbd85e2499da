#include "ulp/rsocket/datagram_name.h"

namespace weft::rsockets {

bool is_own_or_loopback(const IpAddress& address) {
  constexpr std::uint32_t kOwn = 0x7F00;
  return address.is_unspecified() ||
         (address.is_v4() ? address.v4_number() >> 16 == kOwn : address.is_loopback());
}

OwnNames names_beside(const IpAddress& host, DatagramFamily socket, const AddressBook& book) {
  OwnNames names;
  if (socket.family == IpFamily::V4 || !socket.is_v6_only) {
    names.v4 = book.ipv4_beside(host);
  }
  if (socket.family == IpFamily::V6) {
    names.v6 = book.ipv6_beside(host);
  }
  return names;
}

OwnNames names_of_whatever(const DatagramName& wish, const IpAddress& host, DatagramFamily socket,
                           const AddressBook& book) {
  OwnNames names = names_beside(host, socket, book);
  names.port = wish.port;
  if (wish.address.is_v4()) {
    names.v6.reset();
  }
  return names;
}

OwnNames names_of(const DatagramName& wish) {
  OwnNames names{.port = wish.port};
  (wish.address.is_v4() ? names.v4 : names.v6) = wish.address;
  return names;
}

}  // namespace weft::rsockets
