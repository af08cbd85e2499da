#pragma once

// How long the parts of a PDU are, by its header (RFC 7143 §11.2).

#include <cstddef>

#include "wire/iscsi/basic_header.h"

namespace weft::wire::iscsi {

inline constexpr std::size_t kHeaderBytes = kSizeOf<BasicHeader>;
inline constexpr std::size_t kMaxAdditionalHeaderBytes = 255 * 4;
inline constexpr std::size_t kDigestBytes = 4;

/// Headers, and data segments, are padded to a multiple of 4 octets (RFC 7143 §11.2.3).
[[nodiscard]] constexpr std::size_t padding_of(std::size_t octets) { return (4 - octets % 4) % 4; }

/// Octets on the wire, in order.
struct PduSize {
  std::size_t additional_headers{};
  std::size_t header_digest{};
  std::size_t data{};
  std::size_t padding{};
  std::size_t data_digest{};

  [[nodiscard]] constexpr std::size_t data_offset() const {
    return kHeaderBytes + additional_headers + header_digest;
  }
  [[nodiscard]] constexpr std::size_t total() const {
    return data_offset() + data + padding + data_digest;
  }
};

/// A PDU without data has no data digest (RFC 7143 §11.2.3).
[[nodiscard]] constexpr PduSize pdu_size(const BasicHeader& header, bool header_digest,
                                         bool data_digest) {
  const std::size_t data = header.data_segment_length;
  return {.additional_headers = std::size_t{header.total_ahs_length} * 4,
          .header_digest = header_digest ? kDigestBytes : 0,
          .data = data,
          .padding = padding_of(data),
          .data_digest = data_digest && data != 0 ? kDigestBytes : 0};
}

}  // namespace weft::wire::iscsi
