#pragma once

#include <cstdint>
#include <string_view>

#include "wire/layout.h"
#include "wire/srp/srp_codes.h"

namespace weft::wire {

/// SRP_LOGIN_REQ (SRP r16a §6.2): private data of an IB CM REQ.
struct SrpLoginReq {
  static constexpr std::string_view kName = "SRP_LOGIN_REQ";

  SrpOpcode opcode{SrpOpcode::LoginReq};
  std::uint64_t tag{};
  std::uint32_t requested_iu_length{};  ///< of the longest IU from initiator to target
  std::uint16_t required_formats{};     ///< kSrpDirectFormat, kSrpIndirectFormat
  bool immediate_data{};                ///< SRP-2: wants to send immediate data
  SrpMultichannel multichannel{};
  std::uint16_t immediate_offset{};  ///< SRP-2; 0 unless immediate_data
  SrpPortId initiator_port_id{};
  SrpPortId target_port_id{};
  bool operator==(const SrpLoginReq&) const = default;

  // clang-format off
  using Wire = Layout<64,
      Field<"OPCODE", 8, &SrpLoginReq::opcode>,
      Reserved<56>,
      Field<"TAG", 64, &SrpLoginReq::tag>,
      Field<"REQUESTED INITIATOR TO TARGET IU LENGTH", 32, &SrpLoginReq::requested_iu_length>,
      Reserved<32>,
      Field<"REQUIRED BUFFER FORMATS", 16, &SrpLoginReq::required_formats>,
      Field<"IMMEDIATE DATA", 1, &SrpLoginReq::immediate_data>,
      Reserved<5>,
      Field<"MULTI-CHANNEL ACTION", 2, &SrpLoginReq::multichannel>,
      Reserved<8>,
      Field<"IMMEDIATE DATA OFFSET", 16, &SrpLoginReq::immediate_offset>,
      Reserved<16>,
      Octets<"INITIATOR PORT IDENTIFIER", 16, &SrpLoginReq::initiator_port_id>,
      Octets<"TARGET PORT IDENTIFIER", 16, &SrpLoginReq::target_port_id>>;
  // clang-format on
};

/// The same as Linux sends it behind the RDMA-CM header, which leaves 56 octets of a REQ's private
/// data.
struct SrpLoginReqRdmaCm {
  static constexpr std::string_view kName = "SRP_LOGIN_REQ of RDMA-CM";

  std::uint64_t tag{};
  std::uint16_t required_formats{};
  bool immediate_data{};
  SrpMultichannel multichannel{};
  SrpOpcode opcode{SrpOpcode::LoginReq};
  std::uint32_t requested_iu_length{};
  SrpPortId initiator_port_id{};
  SrpPortId target_port_id{};
  std::uint16_t immediate_offset{};
  bool operator==(const SrpLoginReqRdmaCm&) const = default;

  // clang-format off
  using Wire = Layout<56,
      Field<"TAG", 64, &SrpLoginReqRdmaCm::tag>,
      Field<"REQUIRED BUFFER FORMATS", 16, &SrpLoginReqRdmaCm::required_formats>,
      Field<"IMMEDIATE DATA", 1, &SrpLoginReqRdmaCm::immediate_data>,
      Reserved<5>,
      Field<"MULTI-CHANNEL ACTION", 2, &SrpLoginReqRdmaCm::multichannel>,
      Field<"OPCODE", 8, &SrpLoginReqRdmaCm::opcode>,
      Field<"REQUESTED INITIATOR TO TARGET IU LENGTH", 32, &SrpLoginReqRdmaCm::requested_iu_length>,
      Octets<"INITIATOR PORT IDENTIFIER", 16, &SrpLoginReqRdmaCm::initiator_port_id>,
      Octets<"TARGET PORT IDENTIFIER", 16, &SrpLoginReqRdmaCm::target_port_id>,
      Field<"IMMEDIATE DATA OFFSET", 16, &SrpLoginReqRdmaCm::immediate_offset>,
      Reserved<48>>;
  // clang-format on
};

/// SRP_LOGIN_RSP (SRP r16a §6.3): private data of the REP.
struct SrpLoginRsp {
  static constexpr std::string_view kName = "SRP_LOGIN_RSP";

  SrpOpcode opcode{SrpOpcode::LoginRsp};
  std::int32_t request_limit_delta{};  ///< the first request limit
  std::uint64_t tag{};
  std::uint32_t max_initiator_iu_length{};  ///< from initiator to target
  std::uint32_t max_target_iu_length{};     ///< from target to initiator
  std::uint16_t supported_formats{};
  bool immediate_data{};  ///< SRP-2: immediate data may be sent
  SrpMultichannelResult multichannel{};
  bool operator==(const SrpLoginRsp&) const = default;

  // clang-format off
  using Wire = Layout<52,
      Field<"OPCODE", 8, &SrpLoginRsp::opcode>,
      Reserved<24>,
      Field<"REQUEST LIMIT DELTA", 32, &SrpLoginRsp::request_limit_delta>,
      Field<"TAG", 64, &SrpLoginRsp::tag>,
      Field<"MAXIMUM INITIATOR TO TARGET IU LENGTH", 32, &SrpLoginRsp::max_initiator_iu_length>,
      Field<"MAXIMUM TARGET TO INITIATOR IU LENGTH", 32, &SrpLoginRsp::max_target_iu_length>,
      Field<"SUPPORTED BUFFER FORMATS", 16, &SrpLoginRsp::supported_formats>,
      Field<"IMMEDIATE DATA", 1, &SrpLoginRsp::immediate_data>,
      Reserved<5>,
      Field<"MULTI-CHANNEL RESULT", 2, &SrpLoginRsp::multichannel>,
      Reserved<200>>;
  // clang-format on
};

/// SRP_LOGIN_REJ (SRP r16a §6.4): private data of a REJ with reason 28.
struct SrpLoginRej {
  static constexpr std::string_view kName = "SRP_LOGIN_REJ";

  SrpOpcode opcode{SrpOpcode::LoginRej};
  SrpLoginRejReason reason{};
  std::uint64_t tag{};
  std::uint16_t supported_formats{};
  bool operator==(const SrpLoginRej&) const = default;

  // clang-format off
  using Wire = Layout<32,
      Field<"OPCODE", 8, &SrpLoginRej::opcode>,
      Reserved<24>,
      Field<"REASON", 32, &SrpLoginRej::reason>,
      Field<"TAG", 64, &SrpLoginRej::tag>,
      Reserved<64>,
      Field<"SUPPORTED BUFFER FORMATS", 16, &SrpLoginRej::supported_formats>,
      Reserved<48>>;
  // clang-format on
};

/// The two forms of a login carry the same.
[[nodiscard]] constexpr SrpLoginReq from_rdma_cm(const SrpLoginReqRdmaCm& login) {
  return {.opcode = login.opcode,
          .tag = login.tag,
          .requested_iu_length = login.requested_iu_length,
          .required_formats = login.required_formats,
          .immediate_data = login.immediate_data,
          .multichannel = login.multichannel,
          .immediate_offset = login.immediate_offset,
          .initiator_port_id = login.initiator_port_id,
          .target_port_id = login.target_port_id};
}

[[nodiscard]] constexpr SrpLoginReqRdmaCm to_rdma_cm(const SrpLoginReq& login) {
  return {.tag = login.tag,
          .required_formats = login.required_formats,
          .immediate_data = login.immediate_data,
          .multichannel = login.multichannel,
          .opcode = login.opcode,
          .requested_iu_length = login.requested_iu_length,
          .initiator_port_id = login.initiator_port_id,
          .target_port_id = login.target_port_id,
          .immediate_offset = login.immediate_offset};
}

}  // namespace weft::wire
