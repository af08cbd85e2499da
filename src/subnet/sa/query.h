#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "mad/mad_address.h"
#include "subnet/sa/component_matcher.h"
#include "subnet/sa/directory.h"
#include "subnet/subnet.h"
#include "subnet/subnet_control.h"
#include "wire/mad/mad.h"
#include "wire/mad/sa_mad.h"

namespace weft::subnet {

/// A MAD's status; 0 is success.
using SaStatusCode = std::uint16_t;
[[nodiscard]] constexpr SaStatusCode code(wire::SaStatus status) {
  return static_cast<SaStatusCode>(status);
}

/// What looking at one record costs, in bytes of answers. Policy.
inline constexpr std::size_t kLookCost = 64;

/// The records that answer a request, or why there are none, and what it cost to find out. Records
/// start at multiples of 8 bytes (IBTA vol 1 §15.2.1.1).
class SaAnswer {
 public:
  SaAnswer(std::size_t record_limit, std::size_t byte_limit)
      : record_limit_(record_limit), byte_limit_(byte_limit) {}

  void refuse(SaStatusCode status) { status_ = status; }
  void refuse(wire::SaStatus status) { status_ = code(status); }
  [[nodiscard]] SaStatusCode status() const { return status_; }

  template <std::size_t kBytes>
  void add(const std::array<std::byte, kBytes>& record) {
    constexpr std::size_t kStep = (kBytes + 7) / 8 * 8;
    if (count_ == record_limit_ || bytes_.size() + kStep > byte_limit_) {
      return refuse(wire::SaStatus::TooManyRecords);
    }
    bytes_.insert(bytes_.end(), record.begin(), record.end());
    bytes_.resize(bytes_.size() + (kStep - kBytes));
    offset_ = wire::sa_attribute_offset(kBytes);
    ++count_;
  }
  template <wire::WireType T>
  void add(const T& record) {
    add(wire::pack(record));
  }

  /// Work besides the records: so many were looked at.
  void charge(std::size_t looks = 1) { looks_ += looks; }
  [[nodiscard]] std::size_t cost() const { return bytes_.size() + looks_ * kLookCost; }

  /// Nothing that is added changes the answer any more.
  [[nodiscard]] bool is_over() const { return status_ != 0; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::uint16_t attribute_offset() const { return offset_; }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::size_t record_limit_;
  std::size_t byte_limit_;
  std::vector<std::byte> bytes_;
  std::size_t count_{};
  std::size_t looks_{1};
  std::uint16_t offset_{};
  SaStatusCode status_{};
};

/// A request with what it is answered from.
struct SaQuery {
  const SubnetControl& control;
  const SaDirectory& directory;
  wire::SaHeader header{};
  ByteSpan data{};  ///< behind the header; of a request under RMPP of any length
  mad::MadAddress source{};
  PortId requester{};
  bool is_trusted{};  ///< it knows the SM_Key (§15.4.1.1)
  Instant now{};

  [[nodiscard]] const Subnet& subnet() const { return control.subnet(); }
  [[nodiscard]] std::uint64_t mask() const { return header.component_mask; }
  [[nodiscard]] wire::MadMethod method() const { return header.header.method; }

  /// The request's record; zeros follow data that is shorter.
  template <wire::WireType T>
  [[nodiscard]] T record() const {
    std::array<std::byte, wire::kSizeOf<T>> bytes{};
    copy_bytes(bytes, data.first(std::min(data.size(), bytes.size())));
    return wire::unpack<T>(bytes);
  }
  template <wire::WireType T, wire::Name kFieldName>
  [[nodiscard]] bool has() const {
    return (mask() & wire::kComponent<T, kFieldName>) != 0;
  }

  /// §15.4.1.2: without trust, records of ports with which it shares a partition.
  [[nodiscard]] bool sees(PortId port) const {
    return is_trusted || directory.shared_key(directory.kind_of(subnet(), requester),
                                              directory.kind_of(subnet(), port));
  }

  /// Calls visit(PortId) for the ports with LIDs that it sees: for the one that answers to `lid`,
  /// if a query names one, else for all until the answer is over.
  template <class Visit>
  void for_each_end_port(std::optional<Lid> lid, SaAnswer& answer, Visit&& visit) const {
    if (lid) {
      const auto port = subnet().find_lid(*lid);
      if (port && sees(*port)) {
        visit(*port);
      }
      return;
    }
    for (const PortId port : directory.end_ports()) {
      if (answer.is_over()) {
        return;
      }
      answer.charge();
      if (sees(port)) {
        visit(port);
      }
    }
  }
};

}  // namespace weft::subnet
