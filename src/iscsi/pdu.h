#pragma once

// PDUs in memory, before they are sent and after they have come. Value types.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/bytes.h"
#include "iscsi/text.h"
#include "wire/iscsi/basic_header.h"
#include "wire/iscsi/pdu_size.h"

namespace weft::iscsi {

using HeaderOctets = std::array<std::byte, wire::iscsi::kHeaderBytes>;

/// Memory that a task, and PDUs that are still to be sent, have in common.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  /// Not initialised.
  explicit SharedBuffer(std::size_t bytes)
      : octets_(std::make_shared_for_overwrite<std::byte[]>(bytes)), bytes_(bytes) {}

  [[nodiscard]] MutableByteSpan octets() const { return {octets_.get(), bytes_}; }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  std::shared_ptr<std::byte[]> octets_;
  std::size_t bytes_{};
};

/// A PDU to be sent. Its data is its own, or a part of a shared buffer.
class OutgoingPdu {
 public:
  OutgoingPdu() = default;
  /// Sets the header's lengths by the data.
  template <wire::WireType Header>
  explicit OutgoingPdu(Header header, std::vector<std::byte> data = {}) : own_(std::move(data)) {
    pack(header, own_.size());
  }
  /// Of headers as they are on the wire, whatever their opcode, but for the lengths, which are set.
  OutgoingPdu(const HeaderOctets& header, std::vector<std::byte> additional,
              std::vector<std::byte> data)
      : header_(header), own_(std::move(data)) {
    set_additional_headers(std::move(additional));
    auto basic = basic_header();
    basic.data_segment_length = static_cast<std::uint32_t>(own_.size());
    const auto packed = wire::pack(basic);
    std::copy_n(packed.begin() + 5, 3, header_.begin() + 5);
  }
  template <wire::WireType Header>
  OutgoingPdu(Header header, SharedBuffer buffer, std::size_t offset, std::size_t bytes)
      : shared_(std::move(buffer)), offset_(offset), bytes_(bytes) {
    WEFT_ASSERT(offset + bytes <= shared_.size(), "data is a part of its buffer");
    pack(header, bytes);
  }

  [[nodiscard]] const HeaderOctets& header() const { return header_; }
  [[nodiscard]] ByteSpan additional_headers() const { return additional_; }
  [[nodiscard]] ByteSpan data() const {
    return shared_.size() != 0 ? ByteSpan{shared_.octets()}.subspan(offset_, bytes_)
                               : ByteSpan{own_};
  }
  /// True if the data of both is of one shared buffer.
  [[nodiscard]] bool shares_buffer_with(const OutgoingPdu& other) const {
    return shared_.size() != 0 && shared_.octets().data() == other.shared_.octets().data();
  }
  [[nodiscard]] wire::iscsi::BasicHeader basic_header() const {
    return wire::unpack<wire::iscsi::BasicHeader>(header_);
  }
  template <wire::WireType Header>
  [[nodiscard]] Header as() const {
    return wire::unpack<Header>(header_);
  }
  /// Replaces the header, as for numbers that are known only when a PDU is sent.
  template <wire::WireType Header>
  void set_header(const Header& header) {
    header_ = wire::pack(header);
  }
  /// A multiple of 4 octets.
  void set_additional_headers(std::vector<std::byte> octets) {
    additional_ = std::move(octets);
    auto header = basic_header();
    header.total_ahs_length = static_cast<std::uint8_t>(additional_.size() / 4);
    header_[4] = wire::pack(header)[4];
  }

 private:
  template <wire::WireType Header>
  void pack(Header& header, std::size_t data_bytes) {
    header.data_segment_length = static_cast<std::uint32_t>(data_bytes);
    header_ = wire::pack(header);
  }

  HeaderOctets header_{};
  std::vector<std::byte> additional_;
  std::vector<std::byte> own_;
  SharedBuffer shared_;
  std::size_t offset_{};
  std::size_t bytes_{};
};

/// A PDU that has come. Its spans are valid during the call only.
struct ReceivedPdu {
  std::span<const std::byte, wire::iscsi::kHeaderBytes> header;
  ByteSpan additional_headers{};
  ByteSpan data{};
  bool data_is_damaged{};  ///< the data digest is another

  [[nodiscard]] wire::iscsi::BasicHeader basic_header() const {
    return wire::unpack<wire::iscsi::BasicHeader>(header);
  }
  template <wire::WireType Header>
  [[nodiscard]] Header as() const {
    return wire::unpack<Header>(header);
  }
};

/// A PDU with text for its data, as Login and Text have.
template <wire::WireType Header>
[[nodiscard]] OutgoingPdu text_pdu(const Header& header, std::string_view text) {
  return OutgoingPdu{header, to_octets(text)};
}

}  // namespace weft::iscsi
