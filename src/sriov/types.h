#pragma once

// Nouns of the SR-IOV room: functions of one HCA port, and MADs at the wire side of its special
// QPs.

#include <cstdint>
#include <optional>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/strong.h"
#include "mad/mad_address.h"
#include "wire/grh.h"

namespace weft::sriov {

using mad::MadBytes;

/// A function of an HCA: 0 is the physical function (PF), from 1 on virtual ones (VFs). It is also
/// the index of the function's GID in the port's GID table, where entry 0 is the port's own.
using FunctionId = Ordered<struct FunctionIdTag, std::uint16_t>;

inline constexpr FunctionId kPhysicalFunction{0};

/// GUIDInfo has 256 blocks of 8 entries (IBTA vol 1 §14.2.5.5).
inline constexpr std::uint16_t kMostFunctions = 2048;

enum class SpecialQp : std::uint8_t { Smi = 0, Gsi = 1 };

/// A MAD that leaves by the physical function's special QP.
struct OutboundMad {
  SpecialQp qp{SpecialQp::Gsi};
  FunctionId function{};             ///< whose it is
  mad::MadAddress to{};              ///< `global->sgid_index` is unused: see the next member
  std::uint16_t source_gid_index{};  ///< in the port's GID table
  std::uint16_t pkey_index{};        ///< in the port's P_Key table
  MadBytes bytes{};
};

/// A MAD that a special QP of the physical function has received.
struct InboundMad {
  SpecialQp qp{SpecialQp::Gsi};
  Qpn source_qpn{kQp1};
  Lid slid{};
  ServiceLevel sl{};
  std::uint8_t path_bits{};
  PKey pkey{kDefaultPKey};  ///< as the packet carries it
  std::optional<wire::Grh> grh{};
  MadBytes bytes{};
};

}  // namespace weft::sriov
