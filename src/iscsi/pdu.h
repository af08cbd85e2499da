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

/// Octets that stay as they are while they are held.
struct HeldOctets {
  std::shared_ptr<const void> holder{};
  ByteSpan octets{};

  /// A part; both hold all.
  [[nodiscard]] HeldOctets subspan(std::size_t offset, std::size_t bytes) const {
    WEFT_ASSERT(offset <= octets.size() && bytes <= octets.size() - offset, "it is a part");
    return {.holder = holder, .octets = octets.subspan(offset, bytes)};
  }
};

/// Memory that a task, and PDUs that are still to be sent, have in common.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  /// Not initialised.
  explicit SharedBuffer(std::size_t bytes)
      : octets_(bytes != 0 ? std::make_shared_for_overwrite<std::byte[]>(bytes) : nullptr),
        bytes_(bytes) {}
  /// Of memory that its holders share with whoever made it.
  SharedBuffer(std::shared_ptr<std::byte[]> octets, std::size_t bytes)
      : octets_(std::move(octets)), bytes_(bytes) {}

  [[nodiscard]] MutableByteSpan octets() const { return {octets_.get(), bytes_}; }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  [[nodiscard]] HeldOctets part(std::size_t offset, std::size_t bytes) const {
    return HeldOctets{.holder = octets_, .octets = octets()}.subspan(offset, bytes);
  }

 private:
  std::shared_ptr<std::byte[]> octets_;
  std::size_t bytes_{};
};

/// A PDU to be sent. Its data is its own, or held together with others.
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
  OutgoingPdu(Header header, HeldOctets data) : held_(std::move(data)) {
    pack(header, held_.octets.size());
  }

  [[nodiscard]] const HeaderOctets& header() const { return header_; }
  [[nodiscard]] ByteSpan additional_headers() const { return additional_; }
  [[nodiscard]] ByteSpan data() const {
    return held_.holder != nullptr ? held_.octets : ByteSpan{own_};
  }
  /// True if the data of both is held by one holder, so that it stays with either.
  [[nodiscard]] bool shares_holder_with(const OutgoingPdu& other) const {
    return held_.holder != nullptr && held_.holder == other.held_.holder;
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
  HeldOctets held_;
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
