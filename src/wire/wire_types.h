#pragma once

#include "wire/aeth.h"
#include "wire/atomic_ack_eth.h"
#include "wire/atomic_eth.h"
#include "wire/bth.h"
#include "wire/deth.h"
#include "wire/ethernet.h"
#include "wire/grh.h"
#include "wire/ieth.h"
#include "wire/immdt.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/lrh.h"
#include "wire/mad.h"
#include "wire/rdeth.h"
#include "wire/reth.h"
#include "wire/smp.h"
#include "wire/udp.h"
#include "wire/vlan.h"
#include "wire/xrceth.h"

/// Every structure that has a layout. A new one is added here, and has with that its round trip,
/// its reserved bits, its golden layout (tests/golden/layouts.txt) and its fuzzer.
namespace weft::wire {

template <class... Types>
struct TypeList {
  /// Calls visit.template operator()<T>() for each type, in order.
  template <class Visit>
  static constexpr void for_each(Visit visit) {
    (visit.template operator()<Types>(), ...);
  }
  /// Another template's instance with these types, such as a test framework's list.
  template <template <class...> class Other>
  using As = Other<Types...>;
  static constexpr std::size_t kCount = sizeof...(Types);
};

using AllWireTypes = TypeList<Lrh, Grh, Bth, Rdeth, Deth, Xrceth, Reth, AtomicEth, Aeth,
                              AtomicAckEth, ImmDt, Ieth, Ethernet, Vlan, Ipv4, Ipv6, Udp, MadHeader,
                              Mad, SmpLidRouted, SmpDirectedHeader, SmpDirected>;

}  // namespace weft::wire
