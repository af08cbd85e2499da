#pragma once

#include "hca/memory_region.h"
#include "hca/types.h"
#include "wire/grh.h"

namespace weft::hca {

/// Link and global routing of packets to one destination, made once from AddressVector and the
/// port's tables: what goes into LRH and GRH. `slid` is the port's of that time; QPs follow the
/// port (QpCore::source_lid).
struct PacketRoute {
  ServiceLevel sl;
  PortNumber source_port;
  std::uint8_t source_path_bits{};
  Lid slid;
  Lid dlid;
  bool has_grh{};
  wire::Grh grh;  // without lengths
};

/// Address handle (IBTA vol 1 §11.2.2). Immutable, so any thread may use it.
class AddressHandle {
 public:
  AddressHandle(ProtectionDomain& pd, const AddressVector& attributes, const PacketRoute& route)
      : pd_(pd), attributes_(attributes), route_(route) {}

  [[nodiscard]] ProtectionDomain& pd() const { return pd_; }
  [[nodiscard]] const AddressVector& attributes() const { return attributes_; }
  [[nodiscard]] const PacketRoute& route() const { return route_; }

 private:
  ProtectionDomain& pd_;
  AddressVector attributes_;
  PacketRoute route_;
};

}  // namespace weft::hca
