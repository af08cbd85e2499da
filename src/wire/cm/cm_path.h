#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/identifiers.h"
#include "wire/layout.h"

namespace weft::wire {

/// A path in a REQ or LAP, from the sender's view (IBTA vol 1 §12.6.5, §12.6.8).
struct CmPath {
  Lid local_lid{};
  Lid remote_lid{};
  Gid local_gid{};
  Gid remote_gid{};
  std::uint32_t flow_label{};
  std::uint8_t packet_rate{};
  std::uint8_t traffic_class{};
  std::uint8_t hop_limit{};
  ServiceLevel sl{};
  bool is_subnet_local{};
  std::uint8_t local_ack_timeout{};  ///< exponent
  bool is_sap_supported{};           ///< alternate path of a REQ only
  bool operator==(const CmPath&) const = default;
};

namespace internal {

/// Concatenates names: "Primary" and "LocalLID" become "PrimaryLocalLID".
template <std::size_t kFirst, std::size_t kSecond>
[[nodiscard]] consteval auto joined(const Name<kFirst>& first, const Name<kSecond>& second) {
  char text[kFirst + kSecond - 1]{};
  std::copy_n(first.text, kFirst - 1, text);
  std::copy_n(second.text, kSecond, text + kFirst - 1);
  return Name<kFirst + kSecond - 1>{text};
}

}  // namespace internal

/// One of a REQ's two paths; the alternate has an additional bit.
template <Name kWhich, bool kHasSap>
struct ReqPath : CmPath {
  bool operator==(const ReqPath&) const = default;

  template <Name kField>
  static constexpr auto kNamed = internal::joined(kWhich, kField);

  // clang-format off
  using Wire = Layout<44,
      Field<kNamed<"LocalLID">, 16, &CmPath::local_lid>,
      Field<kNamed<"RemoteLID">, 16, &CmPath::remote_lid>,
      Octets<kNamed<"LocalGID">, 16, &CmPath::local_gid>,
      Octets<kNamed<"RemoteGID">, 16, &CmPath::remote_gid>,
      Field<kNamed<"FlowLabel">, 20, &CmPath::flow_label>,
      Reserved<6>,
      Field<kNamed<"PacketRate">, 6, &CmPath::packet_rate>,
      Field<kNamed<"TrafficClass">, 8, &CmPath::traffic_class>,
      Field<kNamed<"HopLimit">, 8, &CmPath::hop_limit>,
      Field<kNamed<"SL">, 4, &CmPath::sl>,
      Field<kNamed<"SubnetLocal">, 1, &CmPath::is_subnet_local>,
      Reserved<3>,
      Field<kNamed<"LocalAckTimeout">, 5, &CmPath::local_ack_timeout>,
      std::conditional_t<kHasSap, Field<"SAPSupported", 1, &CmPath::is_sap_supported>, Reserved<1>>,
      Reserved<2>>;
  // clang-format on
};

/// The path of a LAP, in which the fields after the flow label are ordered differently.
struct LapPath : CmPath {
  bool operator==(const LapPath&) const = default;

  // clang-format off
  using Wire = Layout<44,
      Field<"AlternateLocalLID", 16, &CmPath::local_lid>,
      Field<"AlternateRemoteLID", 16, &CmPath::remote_lid>,
      Octets<"AlternateLocalGID", 16, &CmPath::local_gid>,
      Octets<"AlternateRemoteGID", 16, &CmPath::remote_gid>,
      Field<"AlternateFlowLabel", 20, &CmPath::flow_label>,
      Reserved<4>,
      Field<"AlternateTrafficClass", 8, &CmPath::traffic_class>,
      Field<"AlternateHopLimit", 8, &CmPath::hop_limit>,
      Reserved<2>,
      Field<"AlternatePacketRate", 6, &CmPath::packet_rate>,
      Field<"AlternateSL", 4, &CmPath::sl>,
      Field<"AlternateSubnetLocal", 1, &CmPath::is_subnet_local>,
      Reserved<3>,
      Field<"AlternateLocalAckTimeout", 5, &CmPath::local_ack_timeout>,
      Reserved<3>>;
  // clang-format on
};

}  // namespace weft::wire
