#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/serial.h"
#include "wire/cm/cm_codes.h"
#include "wire/layout.h"

namespace weft::wire {

/// ConnectReply (IBTA vol 1 §12.6.8).
struct Rep {
  static constexpr std::string_view kName = "REP";

  std::uint32_t local_communication_id{};
  std::uint32_t remote_communication_id{};
  QKey local_qkey{};
  Qpn local_qpn{};
  std::uint8_t vendor_id_high{};
  Qpn local_eecn{};  ///< for an XRC target, its QPN
  std::uint8_t vendor_id_middle{};
  Psn starting_psn{};
  std::uint8_t vendor_id_low{};
  std::uint8_t responder_resources{};
  std::uint8_t initiator_depth{};
  std::uint8_t target_ack_delay{};
  std::uint8_t failover_accepted{};
  bool end_to_end_flow_control{};
  std::uint8_t rnr_retry_count{};
  bool srq{};
  Guid local_ca_guid{};
  std::array<std::byte, 196> private_data{};
  bool operator==(const Rep&) const = default;

  // clang-format off
  using Wire = Layout<kCmDataBytes,
      Field<"LocalCommID", 32, &Rep::local_communication_id>,
      Field<"RemoteCommID", 32, &Rep::remote_communication_id>,
      Field<"LocalQ_Key", 32, &Rep::local_qkey>,
      Field<"LocalQPN", 24, &Rep::local_qpn>,
      Field<"VendorIDHigh", 8, &Rep::vendor_id_high>,
      Field<"LocalEECN", 24, &Rep::local_eecn>,
      Field<"VendorIDMiddle", 8, &Rep::vendor_id_middle>,
      Field<"StartingPSN", 24, &Rep::starting_psn>,
      Field<"VendorIDLow", 8, &Rep::vendor_id_low>,
      Field<"ResponderResources", 8, &Rep::responder_resources>,
      Field<"InitiatorDepth", 8, &Rep::initiator_depth>,
      Field<"TargetACKDelay", 5, &Rep::target_ack_delay>,
      Field<"FailoverAccepted", 2, &Rep::failover_accepted>,
      Field<"EndToEndFlowControl", 1, &Rep::end_to_end_flow_control>,
      Field<"RNRRetryCount", 3, &Rep::rnr_retry_count>,
      Field<"SRQ", 1, &Rep::srq>,
      Reserved<4>,
      Field<"LocalCAGUID", 64, &Rep::local_ca_guid>,
      Octets<"PrivateData", 196, &Rep::private_data>>;
  // clang-format on
};

/// ReadyToUse (IBTA vol 1 §12.6.9).
struct Rtu {
  static constexpr std::string_view kName = "RTU";

  std::uint32_t local_communication_id{};
  std::uint32_t remote_communication_id{};
  std::array<std::byte, 224> private_data{};
  bool operator==(const Rtu&) const = default;

  // clang-format off
  using Wire = Layout<kCmDataBytes,
      Field<"LocalCommID", 32, &Rtu::local_communication_id>,
      Field<"RemoteCommID", 32, &Rtu::remote_communication_id>,
      Octets<"PrivateData", 224, &Rtu::private_data>>;
  // clang-format on
};

}  // namespace weft::wire
