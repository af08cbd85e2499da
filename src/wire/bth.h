#pragma once

#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/serial.h"
#include "wire/layout.h"
#include "wire/opcode.h"

namespace weft::wire {

/// Base transport header (IBTA vol 1 §9.2).
struct Bth {
  static constexpr std::string_view kName = "BTH";

  Opcode opcode{};
  bool solicited{};
  bool migrated{};
  std::uint8_t pad_count{};  // bytes, 0..3
  std::uint8_t transport_version{};
  PKey pkey;
  bool fecn{};
  bool becn{};
  Qpn dest_qp;
  bool ack_request{};
  Psn psn;
  bool operator==(const Bth&) const = default;

  // clang-format off
  using Wire = Layout<12,
      Field<"OpCode", 8, &Bth::opcode>,
      Field<"SE", 1, &Bth::solicited>,
      Field<"M", 1, &Bth::migrated>,
      Field<"PadCnt", 2, &Bth::pad_count>,
      Field<"TVer", 4, &Bth::transport_version>,
      Field<"P_Key", 16, &Bth::pkey>,
      Field<"FECN", 1, &Bth::fecn>,
      Field<"BECN", 1, &Bth::becn>,
      Reserved<6>,
      Field<"DestQP", 24, &Bth::dest_qp>,
      Field<"A", 1, &Bth::ack_request>,
      Reserved<7>,
      Field<"PSN", 24, &Bth::psn>>;
  // clang-format on
};

}  // namespace weft::wire
