#pragma once

#include <cstdint>

#include "base/identifiers.h"

namespace weft::verbs {

/// Global part of an address, which becomes the GRH (IBTA vol 1 §8.3). Of a received packet: the
/// one that leads back to its sender.
struct GlobalRoute {
  Gid dgid{};
  std::uint32_t flow_label{};  // 20 bits
  std::uint8_t sgid_index{};   // in the port's GID table
  std::uint8_t hop_limit{};
  std::uint8_t traffic_class{};
  friend constexpr bool operator==(const GlobalRoute&, const GlobalRoute&) = default;
};

/// Address of a destination as seen from a port: the content of an address handle and of a
/// connected QP's address vector (IBTA vol 1 §11.2.2.1). SMI and GSI use it for MADs, too.
struct AddressVector {
  Lid dlid{};
  ServiceLevel sl{};
  std::uint8_t source_path_bits{};  // of the port's LID; LMC of them count
  std::uint8_t static_rate{};       // the verbs API's code; 0 is the port's own rate
  PortNumber port{};
  bool is_global{};  // `grh` is valid
  GlobalRoute grh{};
  friend constexpr bool operator==(const AddressVector&, const AddressVector&) = default;
};

}  // namespace weft::verbs
