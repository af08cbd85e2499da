#pragma once

// What two ends agree on (RFC 7143 §13). Value types.

#include <cstdint>
#include <optional>
#include <string>

namespace weft::iscsi {

/// Values of the operational keys, with the RFC's defaults: what holds for a key that nobody
/// mentions. As preferences: what an end offers, and the most (or least) that it answers.
struct Parameters {
  // Of the session; settled by the leading connection.
  std::uint32_t max_connections{1};
  bool initial_r2t{true};
  bool immediate_data{true};
  std::uint32_t max_burst_length{262144};
  std::uint32_t first_burst_length{65536};
  std::uint32_t default_time2wait{2};     // s
  std::uint32_t default_time2retain{20};  // s
  std::uint32_t max_outstanding_r2t{1};
  bool data_pdu_in_order{true};
  bool data_sequence_in_order{true};
  std::uint32_t error_recovery_level{0};
  std::uint32_t protocol_level{1};
  bool rdma_extensions{};  ///< iSER, which the connection was made for (RFC 7145 §6.3)
  /// Whether iSER begins with a Hello (RFC 7145 §6.10); nothing: nobody has said. As a preference
  /// of an initiator, what it declares; of a target, whether it agrees to a Hello.
  std::optional<bool> hello_required{};
  // Of the connection.
  bool header_digest{};
  bool data_digest{};
  /// What the peer takes in one PDU; as a preference, what this end takes.
  std::uint32_t max_recv_data_segment_length{8192};
  /// Over iSER the same, each way, negotiated (RFC 7145 §6.4, §6.5).
  std::uint32_t target_recv_data_segment_length{8192};
  std::uint32_t initiator_recv_data_segment_length{8192};

  bool operator==(const Parameters&) const = default;
};

/// Whether an initiator begins the full feature phase of iSER with a Hello (RFC 7145 §5.1.3).
enum class HelloPolicy : std::uint8_t {
  Never,
  Agreed,   ///< where the target agrees to the key iSERHelloRequired
  Unasked,  ///< as initiators of RFC 5046 do, which has no such key
};

/// Digests that an end accepts.
enum class DigestPolicy : std::uint8_t { Either, Never, Always };

/// Preferences of an end.
struct Preferences {
  Parameters values{
      .max_connections = 8,
      .initial_r2t = false,
      .immediate_data = true,
      .max_burst_length = 1 << 20,
      .first_burst_length = 262144,
      .default_time2wait = 2,
      .default_time2retain = 20,
      .max_outstanding_r2t = 8,
      .data_pdu_in_order = true,
      .data_sequence_in_order = true,
      .error_recovery_level = 2,
      .protocol_level = 2,
      .max_recv_data_segment_length = 262144,
      .target_recv_data_segment_length = 262144,
      .initiator_recv_data_segment_length = 262144,
  };
  DigestPolicy header_digest{DigestPolicy::Either};
  DigestPolicy data_digest{DigestPolicy::Either};
};

}  // namespace weft::iscsi
