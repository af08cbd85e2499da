#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/serial.h"
#include "wire/cm/cm_codes.h"
#include "wire/cm/cm_path.h"
#include "wire/encodings.h"
#include "wire/layout.h"

namespace weft::wire {

/// ConnectRequest (IBTA vol 1 §12.6.5), after the MAD header. Vendor options (VendorID not 0) are
/// in that header's AttributeModifier.
struct Req {
  static constexpr std::string_view kName = "REQ";

  std::uint32_t local_communication_id{};
  std::uint32_t vendor_id{};
  std::uint64_t service_id{};
  Guid local_ca_guid{};
  QKey local_qkey{};
  Qpn local_qpn{};
  std::uint8_t responder_resources{};
  std::uint32_t local_eecn{};
  std::uint8_t initiator_depth{};
  std::uint32_t remote_eecn{};
  std::uint8_t remote_cm_response_timeout{};
  CmTransport transport{};
  bool end_to_end_flow_control{};
  Psn starting_psn{};  ///< first PSN that the receiver of the REQ must send
  std::uint8_t local_cm_response_timeout{};
  std::uint8_t retry_count{};
  PKey pkey{};
  std::uint8_t path_mtu{};  ///< encoded as Mtu; may be an undefined value
  bool rdc_exists{};
  std::uint8_t rnr_retry_count{};
  std::uint8_t max_cm_retries{};
  bool srq{};
  CmExtendedTransport extended_transport{};
  ReqPath<"Primary", false> primary{};
  ReqPath<"Alternate", true> alternate{};  ///< GIDs and LIDs are 0 if absent
  std::array<std::byte, 92> private_data{};
  bool operator==(const Req&) const = default;

  // clang-format off
  using Wire = Layout<kCmDataBytes,
      Field<"LocalCommID", 32, &Req::local_communication_id>,
      Reserved<8>,
      Field<"VendorID", 24, &Req::vendor_id>,
      Field<"ServiceID", 64, &Req::service_id>,
      Field<"LocalCAGUID", 64, &Req::local_ca_guid>,
      Reserved<32>,
      Field<"LocalQ_Key", 32, &Req::local_qkey>,
      Field<"LocalQPN", 24, &Req::local_qpn>,
      Field<"ResponderResources", 8, &Req::responder_resources>,
      Field<"LocalEECN", 24, &Req::local_eecn>,
      Field<"InitiatorDepth", 8, &Req::initiator_depth>,
      Field<"RemoteEECN", 24, &Req::remote_eecn>,
      Field<"RemoteCMResponseTimeout", 5, &Req::remote_cm_response_timeout>,
      Field<"TransportServiceType", 2, &Req::transport>,
      Field<"EndToEndFlowControl", 1, &Req::end_to_end_flow_control>,
      Field<"StartingPSN", 24, &Req::starting_psn>,
      Field<"LocalCMResponseTimeout", 5, &Req::local_cm_response_timeout>,
      Field<"RetryCount", 3, &Req::retry_count>,
      Field<"P_Key", 16, &Req::pkey>,
      Field<"PathPacketPayloadMTU", 4, &Req::path_mtu>,
      Field<"RDCExists", 1, &Req::rdc_exists>,
      Field<"RNRRetryCount", 3, &Req::rnr_retry_count>,
      Field<"MaxCMRetries", 4, &Req::max_cm_retries>,
      Field<"SRQ", 1, &Req::srq>,
      Field<"ExtendedTransportType", 3, &Req::extended_transport>,
      Nested<&Req::primary>,
      Nested<&Req::alternate>,
      Octets<"PrivateData", 92, &Req::private_data>>;
  // clang-format on
};

}  // namespace weft::wire
